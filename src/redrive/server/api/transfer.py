# SPDX-License-Identifier: MIT
"""What every answer of the API passes through: an answer that the client has already is not sent again.

An answer to a question has an ``ETag``, a digest of what it says (``Tagged``); if the client has that already
(``If-None-Match``), it gets 304 and no body (``Unchanged``). Between the two, answers are compressed and kept.
"""

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers, MutableHeaders

from redrive.http.listener import AsgiApp, Packet, Receive, Send

SMALLEST_COMPRESSED: Final = 1_024
"""A smaller answer is sent as it is: compressing it costs more than it saves."""


class Tagged:
    """Gives whole answers an ``ETag``.

    Args:
        app: what comes next.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Packet, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        is_question = scope["type"] == "http" and scope["method"] == "GET"
        await self._app(scope, receive, _WholeAnswer(send, _tagged) if is_question else send)


class Unchanged:
    """Answers 304 where a client has an answer already.

    Args:
        app: what comes next.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Packet, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        known = Headers(scope=scope).get("if-none-match") if scope["type"] == "http" else None
        if known is None or scope["method"] != "GET":
            await self._app(scope, receive, send)
        else:
            tags = [each.strip().removeprefix("W/") for each in known.split(",")]
            await self._app(scope, receive, _WholeAnswer(send, partial(_shortened, tags=tags)))


class _WholeAnswer:
    """An answer on its way: one that is whole is changed, one that is a stream is left alone."""

    def __init__(self, send: Send, change: Callable[[Packet, Packet], tuple[Packet, Packet]]) -> None:
        self._send, self._change = send, change
        self._start: Packet | None = None

    async def __call__(self, message: Packet) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            if message["type"] == "http.response.body" and not message.get("more_body"):
                start, message = self._change(start, message)
            await self._send(start)
        await self._send(message)


def _tagged(start: Packet, message: Packet) -> tuple[Packet, Packet]:
    """Return an answer with its tag, if it is one that has a tag."""
    headers = MutableHeaders(raw=list(start["headers"]))
    if start["status"] != HTTPStatus.OK or not headers.get("content-type", "").startswith("application/json"):
        return start, message
    headers["etag"] = f'W/"{blake2b(message.get("body", b""), digest_size=12).hexdigest()}"'
    return {**start, "headers": headers.raw}, message


def _shortened(start: Packet, message: Packet, tags: Sequence[str]) -> tuple[Packet, Packet]:
    """Return 304 instead of an answer whose tag is known."""
    headers = MutableHeaders(raw=list(start["headers"]))
    if headers.get("etag", "").removeprefix("W/") not in tags:
        return start, message
    for name in ("content-length", "content-type", "content-encoding"):
        del headers[name]
    return {**start, "status": HTTPStatus.NOT_MODIFIED, "headers": headers.raw}, {**message, "body": b""}
