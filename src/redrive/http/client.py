# SPDX-License-Identifier: MIT
"""What the parts that send HTTP requests have in common."""

from contextlib import suppress
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final

from redrive.clock import Clock
from redrive.printable import one_line

if TYPE_CHECKING:
    import ssl

    import httpx

EXCERPT: Final = 200
"""How many characters of what a destination says are kept."""

_MOST_CONNECTIONS: Final = 64
_LONGEST_CONNECTING_S: Final = 10.0
_LONGEST_READING_S: Final = 5.0
"""For the body of an answer, whose status is known by then."""

_MOST_READ: Final = 65_536


def new_client(
    timeout: float, *, silence: float | None = None, verify_tls: bool = True, keeps_connections: bool = True
) -> "httpx.AsyncClient":
    """Return a client that follows no redirect and keeps no cookie: a request must not change what the next one does.

    Args:
        timeout: seconds that a whole request may take, which its caller sees to; connecting gets half of them at most.
        silence: seconds that may pass between two packets; None: as many as the request may take.
        verify_tls: whether the certificate of the destination must be valid.
        keeps_connections: whether a connection is used for several requests. The server may close one at any time, and
            then it cannot be said whether it has got the request.
    """
    import httpx

    kept = _MOST_CONNECTIONS if keeps_connections else 0
    connecting = min(timeout / 2, _LONGEST_CONNECTING_S)  # before the whole time is over: then it is down
    return httpx.AsyncClient(
        verify=trusted_tls() if verify_tls else False,
        follow_redirects=False,
        timeout=httpx.Timeout(silence, connect=connecting, pool=None),
        limits=httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=kept),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


@cache
def trusted_tls() -> "ssl.SSLContext":
    """Return the certificates that are trusted, once for the process: to read them takes a tenth of a second."""
    import httpx

    return httpx.create_ssl_context()


async def excerpt_of(response: "httpx.Response", clock: Clock, longest: float) -> str:
    """Return the beginning of what the destination said, on one line; the status counts whether it ends or not."""
    import httpx

    said = bytearray()
    with suppress(TimeoutError, httpx.HTTPError):
        async with clock.timeout(min(longest, _LONGEST_READING_S)):
            async for piece in response.aiter_raw(_MOST_READ):
                said += piece
                if len(said) >= _MOST_READ:  # the rest is not read, and the connection not used again
                    break
    is_text = response.headers.get("content-encoding", "identity") == "identity"
    return one_line(" ".join(said[:4_096].decode(errors="replace").split()), EXCERPT) if is_text else ""
