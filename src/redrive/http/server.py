# SPDX-License-Identifier: MIT
"""The one HTTP server of a process, which all HTTP receivers share.

It answers by itself whatever is no event: unknown paths, wrong methods, bodies that are too large, too slow or badly
compressed. A receiver gets whole requests of the right size only. What has begun is answered before the server ends.
"""

import asyncio
import json
import logging
import socket
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from redrive import duration, number
from redrive.clock import Clock, system_clock
from redrive.errors import InvalidSetting
from redrive.http.listener import address_text, bound_socket, host_and_port, sweep, uvicorn_server
from redrive.http.request import HttpAnswer, HttpRequest

if TYPE_CHECKING:
    from uvicorn import Server

AnswerFunction: TypeAlias = Callable[[HttpRequest], Awaitable[HttpAnswer]]
_Packet: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Packet]]
_Send: TypeAlias = Callable[[_Packet], Awaitable[None]]

HEALTH_PATH = "/-/health"
"""Answers 200 for as long as the process works."""

_SOON = ("retry-after", "5")
_CLOSE = ("connection", "close")

_logger = logging.getLogger("redrive.http")


class _Refused(Exception):
    """A request that no receiver gets to see."""

    def __init__(self, status: int, error: str, detail: str, *headers: tuple[str, str]) -> None:
        super().__init__(detail)
        self.answer = HttpAnswer(status, {"error": error, "detail": detail}, headers)


class _Place:
    """A path, and what answers there."""

    def __init__(self, methods: tuple[str, ...], answer: AnswerFunction, max_bytes: int) -> None:
        self.methods = methods
        self.answer = answer
        self.max_bytes = max_bytes
        self.is_open = True
        self._begun = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> None:
        self._begun += 1
        self._idle.clear()

    def __exit__(self, *_: object) -> None:
        self._begun -= 1
        if not self._begun:
            self._idle.set()

    async def drain(self) -> None:
        """Begin nothing more, and return when all that has begun is answered."""
        self.is_open = False
        await self._idle.wait()


class SharedHttpServer:
    """The one HTTP server of a process. It listens from the first path that is served until it is closed.

    Args:
        listen: host and port; port 0: a free one, which ``port`` says.
        clock: what time limits go by.
        body_timeout: seconds in which a whole request must have arrived, and its answer must have been read.
        max_in_flight: requests that may be under way; more are answered with 503.
        extra: the extra of Redrive that brings what it needs.

    Attributes:
        on_listening: called with host and port when it begins to listen.

    Raises:
        InvalidSetting: an argument has a value that is not allowed.
    """

    def __init__(
        self,
        listen: str = "127.0.0.1:8080",
        clock: Clock = system_clock,
        *,
        body_timeout: duration.Duration = 30.0,
        max_in_flight: int = 1_000,
        extra: str = "routes",
    ) -> None:
        self._extra = extra
        self._listen = listen
        self._host, self._port = host_and_port(listen)
        self._clock = clock
        self._body_timeout = duration.seconds("body_timeout", body_timeout)
        self._max_in_flight = number.whole("max_in_flight", max_in_flight)
        self._in_flight = 0
        self._places = {HEALTH_PATH: _Place(("GET", "HEAD"), _healthy, 0)}
        self._server: Server | None = None
        self._running: asyncio.Task[None] | None = None
        self.on_listening: Callable[[str], object] | None = None

    @property
    def port(self) -> int:
        """The port it listens at."""
        return self._port

    async def serve(self, path: str, methods: tuple[str, ...], answer: AnswerFunction, max_bytes: int) -> None:
        """Answer the requests for a path until cancelled; what has begun by then is answered.

        Afterwards the path is answered with 503, not 404: for a client that means to come back later with its event.

        Args:
            path: the path.
            methods: the methods that are allowed.
            answer: takes a whole request. What it raises is answered with 500.
            max_bytes: how large a body may be, decompressed.

        Raises:
            InvalidSetting: another receiver has the path, or the address cannot be listened at.
            MissingExtra: uvicorn is not installed.
        """
        earlier = self._places.get(path)
        if earlier is not None and earlier.is_open:
            raise InvalidSetting("path", path, "must be a path that no other receiver has")
        running = self._start()
        place = self._places[path] = _Place(methods, answer, max_bytes)
        try:
            await asyncio.wait({running})  # until cancelled, or until the server is closed
            running.result()
        finally:
            await place.drain()

    async def close(self) -> None:
        """Stop listening; return when all that has begun is answered."""
        if self._server is not None and self._running is not None:
            self._server.should_exit = True
            await asyncio.wait({self._running})

    # --- listening

    def _start(self) -> "asyncio.Task[None]":
        """Return the task of the server; connections are accepted from now on."""
        if self._running is None or self._running.done():
            listener = bound_socket(self._listen, self._host, self._port)
            try:
                self._server = uvicorn_server(self._app, self._extra)
            except BaseException:
                listener.close()
                raise
            self._port = listener.getsockname()[1]
            self._running = asyncio.create_task(self._run(self._server, listener), name="redrive HTTP server")
            if self.on_listening is not None:
                self.on_listening(address_text(self._host, self._port))
        return self._running

    async def _run(self, server: "Server", listener: socket.socket) -> None:
        sweeping = asyncio.create_task(sweep(server, self._clock, self._body_timeout), name="redrive HTTP connections")
        try:
            await server.serve(sockets=[listener])
        finally:
            sweeping.cancel()
            listener.close()

    # --- requests

    async def _app(self, scope: _Packet, receive: _Receive, send: _Send) -> None:
        """Answer one request: what uvicorn calls."""
        headers = _joined(scope["headers"])
        try:
            _check_framing(scope["http_version"], headers)
            place = self._place(scope["path"], scope["method"])
        except _Refused as refused:
            await self._reply(send, refused.answer, headers)
            return
        self._in_flight += 1
        try:
            with place:
                answer = await self._answer(place, scope, headers, receive)
                if answer is not None:
                    await self._reply(send, answer, headers)
        finally:
            self._in_flight -= 1

    def _place(self, path: str, method: str) -> _Place:
        """Return what answers a request; raise if it is refused whatever its body is."""
        place = self._places.get(path)
        if place is None:
            # the other paths are not listed: there are people who use a path as a password
            detail = "no receiver has this path; compare it with the receiver's, letter by letter and slash by slash"
            raise _Refused(404, "unknown-path", detail)
        if method not in place.methods:
            allow = ", ".join(place.methods)
            raise _Refused(405, "wrong-method", f"this path takes: {allow}", ("allow", allow))
        if not place.is_open:
            raise _Refused(503, "receiver-stopped", "this receiver does not run now; come back later", _SOON)
        if self._in_flight >= self._max_in_flight and path != HEALTH_PATH:
            raise _Refused(503, "busy", "too many requests are under way; come back later", _SOON)
        return place

    async def _answer(
        self, place: _Place, scope: _Packet, headers: dict[str, str], receive: _Receive
    ) -> HttpAnswer | None:
        """Return the answer to a request; None if the client has gone before its body was here."""
        try:
            body = await self._body(headers, place.max_bytes, receive)
            if body is None:
                return None
            return await place.answer(HttpRequest(scope["method"], scope["path"], headers, body))
        except _Refused as refused:
            return refused.answer
        except Exception:
            _logger.exception("the receiver at %r failed; its client got 500", scope["path"])
            return HttpAnswer(500, {"error": "internal-error", "detail": "this is an error here, not of the request"})

    async def _body(self, headers: dict[str, str], max_bytes: int, receive: _Receive) -> bytes | None:
        """Return a body, decompressed; None if the client has gone."""
        too_large = _Refused(413, "too-large", f"a body may have {max_bytes:,} bytes; send a reference instead")
        if int(headers.get("content-length", "0")) > max_bytes:
            raise too_large
        unpack = _unpacker(headers.get("content-encoding", "identity"))
        body = bytearray()
        try:
            async with self._clock.timeout(self._body_timeout):
                has_more = True
                while has_more:
                    packet = await receive()
                    if packet["type"] != "http.request":
                        return None
                    has_more = packet.get("more_body", False)
                    body += unpack(packet.get("body", b""), max_bytes + 1 - len(body), is_last=not has_more)
                    if len(body) > max_bytes:
                        raise too_large
        except TimeoutError:
            detail = f"the body was not here after {self._body_timeout:g} s; send it again, faster"
            raise _Refused(408, "too-slow", detail, _CLOSE) from None
        return bytes(body)

    async def _reply(self, send: _Send, answer: HttpAnswer, asked: dict[str, str]) -> None:
        """Send an answer. A client that does not read it is left alone after a while, and swept away later."""
        body = json.dumps(answer.body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **dict(answer.headers)}
        if "expect" in asked and answer.status >= 400:  # the body may come or not: the next request is hard to find
            headers.update([_CLOSE])
        packed = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        with suppress(TimeoutError):
            async with self._clock.timeout(self._body_timeout):
                await send({"type": "http.response.start", "status": answer.status, "headers": packed})
                await send({"type": "http.response.body", "body": body})


async def _healthy(_: HttpRequest) -> HttpAnswer:
    return HttpAnswer(200, {"status": "ok"})


def _check_framing(version: str, headers: Mapping[str, str]) -> None:
    """See that it is certain where a request ends: otherwise a proxy and this server could see different requests."""
    if version not in {"1.0", "1.1"}:
        raise _Refused(505, "unknown-version", "send HTTP/1.1", _CLOSE)
    if "transfer-encoding" in headers and "content-length" in headers:
        raise _Refused(400, "bad-request", "send either Content-Length or Transfer-Encoding", _CLOSE)


def _joined(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by their names; the values of one that is there twice are joined, as HTTP says."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


# --- compression


class _Inflater:
    """Decompresses a body piece by piece, and never more of it than is asked for."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._stream = zlib.decompressobj(wbits)

    def __call__(self, data: bytes, most: int, *, is_last: bool) -> bytes:
        """Return the next piece, of ``most`` bytes at most; more than that is left out."""
        found = bytearray()
        try:
            while data and len(found) < most:
                if self._stream.eof:  # a file may have several parts
                    self._stream = zlib.decompressobj(self._wbits)
                found += self._stream.decompress(data, most - len(found))
                data = self._stream.unconsumed_tail or self._stream.unused_data
        except zlib.error as error:
            raise _Refused(400, "bad-compression", f"the body is not what Content-Encoding says: {error}") from None
        if is_last and not data and not self._stream.eof and len(found) < most:
            raise _Refused(400, "bad-compression", "the compressed body has no end; send all of it")
        return bytes(found)


def _as_it_is(data: bytes, most: int, *, is_last: bool) -> bytes:  # noqa: ARG001 - as an inflater
    return data


def _unpacker(encoding: str) -> Callable[..., bytes]:
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return _as_it_is
    if name in {"gzip", "x-gzip"}:
        return _Inflater(31)
    if name == "deflate":
        return _Inflater(15)
    accepted = ("accept-encoding", "gzip, deflate")
    raise _Refused(415, "unknown-encoding", "Content-Encoding may be gzip, deflate or identity", accepted)
