# SPDX-License-Identifier: MIT
"""What every request and every response passes: who it is for, how large it is, and what a browser may do with it."""

import ipaddress
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.exceptions import HTTPException

from redrive.clock import Clock
from redrive.http.listener import AsgiApp, Packet, Receive, Send
from redrive.printable import one_line
from redrive.server.problems import answer, framework_problem, internal_problem, problem
from redrive.server.settings import ServerSettings

_logger = logging.getLogger("redrive.server")

_BODY_TIMEOUT_S: Final = 30.0
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_SAME: Final = "make changes from a page of this server, or from a program"
CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    b"content-security-policy": CONTENT_POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class Guard:
    """Refuses requests for another host and requests that are too large or too slow, and adds the headers of safety.

    An error that is not expected ends here, as 500; so it has these headers, too.

    Args:
        app: what comes next.
        settings: which hosts, and how large.
        clock: what time limits go by.
    """

    def __init__(self, app: AsgiApp, settings: ServerSettings, clock: Clock) -> None:
        self._app = app
        self._hosts = frozenset(each.lower() for each in settings.hosts)
        self._most = settings.max_body_bytes
        self._clock = clock

    async def __call__(self, scope: Packet, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guarded = _HeaderSend(send)
        headers = dict(scope["headers"])
        if not is_known_host(headers.get(b"host", b"").decode("latin-1"), self._hosts):
            await answer(framework_problem(421, "this server has another name"))(scope, receive, guarded)
        elif scope["method"] not in _SAFE and is_cross_site(headers):
            await answer(problem(403, "cross-site", "a page of another site has made this request", _SAME))(
                scope, receive, guarded
            )
        elif self._is_too_large(headers.get(b"content-length", b"0")):
            await answer(framework_problem(413, self._too_large()))(scope, receive, guarded)
        else:
            has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
            await self._pass_on(scope, self._limited(receive) if has_body else receive, guarded)

    async def _pass_on(self, scope: Packet, receive: Receive, send: "_HeaderSend") -> None:
        try:
            await self._app(scope, receive, send)
        except Exception:
            _logger.exception("%s %s failed", scope["method"], one_line(scope["path"], 300))
            if send.has_begun:
                raise  # half an answer: the connection ends, so that the client does not take it for a whole one
            await answer(internal_problem())(scope, receive, send)

    def _limited(self, receive: Receive) -> Receive:
        """Return what receives a body of limited size in limited time."""
        size, is_whole = 0, False

        async def limited() -> Packet:
            nonlocal size, is_whole
            if is_whole:
                return await receive()  # the client goes away, some time
            try:
                async with self._clock.timeout(_BODY_TIMEOUT_S):
                    packet = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the body was not here after {_BODY_TIMEOUT_S:g} s; send it faster") from None
            size += len(packet.get("body", b""))
            if size > self._most:
                raise HTTPException(413, self._too_large())
            is_whole = not packet.get("more_body", False)
            return packet

        return limited

    def _is_too_large(self, length: bytes) -> bool:
        """Say whether a request says that it is too large; Python does not read numbers of thousands of digits."""
        return length.isdigit() and (len(length) > len(str(self._most)) or int(length) > self._most)

    def _too_large(self) -> str:
        return f"a request may have {self._most:,} bytes"


def is_cross_site(headers: Mapping[bytes, bytes]) -> bool:
    """Say whether a browser made a request for a page of another site; programs say neither where nor for whom.

    Args:
        headers: those of the request, with names in small letters.
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site not in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] != headers.get(b"host")


class _HeaderSend:
    """Sends a response with the headers of safety, unless it has its own."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, packet: Packet) -> None:
        if packet["type"] == "http.response.start":
            self.has_begun = True
            own = {name.lower() for name, _ in packet.get("headers", ())}
            more = [(name, value) for name, value in _HEADERS.items() if name not in own]
            packet = {**packet, "headers": [*packet.get("headers", ()), *more]}
        await self._send(packet)


def is_known_host(host: str, known: Iterable[str]) -> bool:
    """Say whether a request is for this server.

    A page of a stranger can make a browser call any address by a name of the stranger's own (DNS rebinding). It cannot
    do that by an address in figures, nor by ``localhost``, nor by a name that is not the stranger's.

    Args:
        host: the header ``Host``.
        known: the names of this server, in small letters.
    """
    name = host.lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.rpartition(":")[0] or name
    if name in ("localhost", *known):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
