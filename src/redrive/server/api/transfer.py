# SPDX-License-Identifier: MIT
"""What every answer of the API passes through: an answer that the client has already is not sent again.

An answer to a question has an ``ETag``, a digest of what it says; if the client has that already (``If-None-Match``),
it gets 304 and no body.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from starlette.datastructures import Headers, MutableHeaders

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

SMALLEST_COMPRESSED: Final = 1_024
"""A smaller answer is sent as it is: compressing it costs more than it saves."""


class Unchanged:
    """Gives answers an ``ETag``, and answers 304 where a client has them already.

    Args:
        app: what comes next.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and scope["method"] == "GET":
            await self._app(scope, receive, _Answer(Headers(scope=scope).get("if-none-match", ""), send))
        else:
            await self._app(scope, receive, send)


class _Answer:
    """An answer on its way: one that is whole gets its tag, one that is a stream is left alone."""

    def __init__(self, known: str, send: Send) -> None:
        self._known, self._send = known, send
        self._start: MutableMapping[str, Any] | None = None

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            if message["type"] == "http.response.body" and not message.get("more_body") and _is_tagged(start):
                start, message = self._tagged(start, message)
            await self._send(start)
        await self._send(message)

    def _tagged(
        self, start: MutableMapping[str, Any], message: MutableMapping[str, Any]
    ) -> tuple[MutableMapping[str, Any], MutableMapping[str, Any]]:
        headers = MutableHeaders(raw=list(start["headers"]))
        tag = f'W/"{blake2b(message.get("body", b""), digest_size=12).hexdigest()}"'
        headers["etag"] = tag
        if tag.removeprefix("W/") not in [each.strip().removeprefix("W/") for each in self._known.split(",")]:
            return {**start, "headers": headers.raw}, message
        for name in ("content-length", "content-type"):
            del headers[name]
        return {**start, "status": HTTPStatus.NOT_MODIFIED, "headers": headers.raw}, {**message, "body": b""}


def _is_tagged(start: MutableMapping[str, Any]) -> bool:
    kind = Headers(raw=list(start["headers"])).get("content-type", "")
    return bool(start["status"] == HTTPStatus.OK and kind.startswith("application/json"))
