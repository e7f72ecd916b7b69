# SPDX-License-Identifier: MIT
"""What the parts that send HTTP requests have in common."""

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from redrive.clock import Clock
from redrive.errors import InvalidSetting
from redrive.parts import hidden_secret
from redrive.printable import one_line

if TYPE_CHECKING:
    import httpx

EXCERPT: Final = 200
"""How many characters of what a destination says are kept."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LONGEST_KEY: Final = 255
_MOST_CONNECTIONS: Final = 64
_LONGEST_CONNECTING_S: Final = 10.0
_LONGEST_READING_S: Final = 5.0
"""For the body of an answer, whose status is known by then."""

_MOST_READ: Final = 65_536


def check_url(name: str, url: str) -> None:
    """See that requests can be sent to a URL, and that it has no password.

    Raises:
        InvalidSetting: it is none, or has what belongs into a header.
    """
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidSetting(name, url, "must have no blanks and ASCII only: write other characters as %xx")
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole, parts = False, SplitResult("", "", "", "", "")
    if parts.username is not None or parts.password is not None:
        allowed = "must have no password: write it as headers = {Authorization = 'env:NAME'}"
        raise InvalidSetting(name, f"{parts.scheme}://{hidden_secret('')}@{parts.hostname}", allowed)
    if not is_whole or parts.fragment:
        raise InvalidSetting(name, url, "must begin with http:// or https:// and a host, and have no #")


def check_header_names(names: Iterable[str], ours: frozenset[str]) -> None:
    """See that headers can have these names, and that none of them is written by the sender itself.

    Raises:
        InvalidSetting: one of them cannot be sent.
    """
    for name in names:
        if not _TOKEN.fullmatch(name) or name.lower() in ours:
            raise InvalidSetting(
                "headers", name, f"must be the name of a header, and none of: {', '.join(sorted(ours))}"
            )


def check_header_values(headers: Iterable[tuple[str, str]]) -> None:
    """See that headers can have these values. The error does not show them.

    Raises:
        InvalidSetting: one of them cannot be sent.
    """
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):
            raise InvalidSetting(f"headers.{name}", hidden_secret(""), "must be printable ASCII")


def server_of(url: str) -> str:
    """Return scheme, host and port of a URL: what is down when one URL there is."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or _DEFAULT_PORTS[parts.scheme]}"


def sendable_key(key: str) -> str:
    """Return a key as a header can have it: itself, or its hash if it is too long or no plain ASCII."""
    is_plain = key.isascii() and key.isprintable() and " " not in key
    return key if is_plain and len(key) <= _LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()


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
        verify=verify_tls,
        follow_redirects=False,
        timeout=httpx.Timeout(silence, connect=connecting, pool=None),
        limits=httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=kept),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


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
