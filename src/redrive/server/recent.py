# SPDX-License-Identifier: MIT
"""Answers that were given a moment ago, for clients that say they will do.

A client says so as HTTP has it: with ``Cache-Control: max-age=1`` it takes an answer that is up to a second old, and
the header ``Age`` says how old it is. However many people look at the same page, the question is then asked once a
second. Without that header every answer is new. What is kept is shared by those who may see the same, and answers about
the caller are not kept.
"""

import asyncio
import re
from collections import OrderedDict
from http import HTTPStatus
from typing import Final, NamedTuple, TypeAlias

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from redrive.clock import Clock
from redrive.errors import RedriveError
from redrive.http.listener import AsgiApp, Packet, Receive, Send

ACTION: Final = "redrive.action"
"""Where an endpoint leaves the name of its action, in the scope of a request."""

UNCOVER_HEADER: Final = "x-redrive-uncover"
"""The header, with any value, by which a client that may asks for messages as they are."""

_OWN: Final = "own."
_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age=(\d{1,6})(?:$|[,\s])")
_LONGEST_S: Final = 10.0
_MOST: Final = 500
_LARGEST: Final = 256 * 1024

_Key: TypeAlias = tuple[object, ...]


class _Answer(NamedTuple):
    """An answer, and when its question was asked, on the monotonic clock."""

    asked_at: float
    start: Packet
    body: Packet


class RecentAnswers:
    """Gives answers of a moment ago to clients that take them, and asks a question once for all who wait for it.

    Args:
        app: what comes next.
        clock: what age goes by.
    """

    def __init__(self, app: AsgiApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._kept: OrderedDict[_Key, _Answer] = OrderedDict()
        self._asked: dict[_Key, asyncio.Future[_Answer | None]] = {}

    async def __call__(self, scope: Packet, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        oldest = _accepted_age(scope)
        key = await _key(scope) if oldest else None
        if key is None:
            await self._app(scope, receive, send)
            return
        answer = self._kept.get(key)
        if not self._is_recent(answer, oldest) and key in self._asked:
            answer = await asyncio.shield(self._asked[key])
        if answer is not None and self._is_recent(answer, oldest):
            await self._give(answer, send)
        else:
            await self._ask(key, scope, receive, send)

    def _is_recent(self, answer: _Answer | None, oldest: float) -> bool:
        return answer is not None and self._clock.monotonic() - answer.asked_at <= oldest

    async def _give(self, answer: _Answer, send: Send) -> None:
        age = str(int(self._clock.monotonic() - answer.asked_at)).encode()
        await send({**answer.start, "headers": [*answer.start["headers"], (b"age", age)]})
        await send(answer.body)

    async def _ask(self, key: _Key, scope: Packet, receive: Receive, send: Send) -> None:
        """Pass a request on, keep the answer, and give it to those who wait for the same."""
        waited = asyncio.get_running_loop().create_future()
        self._asked[key] = waited
        heard = _Heard(send, self._clock.monotonic())
        try:
            await self._app(scope, receive, heard)
        finally:
            answer = heard.answer if not str(scope.get(ACTION, _OWN)).startswith(_OWN) else None
            if self._asked.get(key) is waited:
                del self._asked[key]
            waited.set_result(answer)
            if answer is not None:
                self._keep(key, answer)

    def _keep(self, key: _Key, answer: _Answer) -> None:
        self._kept[key] = answer
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)


class _Heard:
    """Hears an answer that is on its way.

    Attributes:
        answer: the answer, if it is whole, right and not too large.
    """

    def __init__(self, send: Send, asked_at: float) -> None:
        self._send = send
        self._asked_at = asked_at
        self._start: Packet | None = None
        self.answer: _Answer | None = None

    async def __call__(self, packet: Packet) -> None:
        if packet["type"] == "http.response.start":
            self._start = packet if packet["status"] == HTTPStatus.OK else None
        elif self._start is not None:
            is_whole = packet["type"] == "http.response.body" and not packet.get("more_body")
            if is_whole and len(packet.get("body", b"")) <= _LARGEST:
                self.answer = _Answer(self._asked_at, self._start, packet)
            self._start = None
        await self._send(packet)


def _accepted_age(scope: Packet) -> float:
    """Return how many seconds old an answer to a request may be; 0: it must be new."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return 0.0
    found = _MAX_AGE.search(Headers(scope=scope).get("cache-control", ""))
    return min(float(found[1]), _LONGEST_S) if found is not None else 0.0


async def _key(scope: Packet) -> _Key | None:
    """Return what an answer depends on; None: it is not to be shared, or who asks may ask nothing."""
    headers = Headers(scope=scope)
    if UNCOVER_HEADER in headers:
        return None
    try:
        who = await scope["app"].state.door.admit(HTTPConnection(scope))
    except RedriveError:
        return None  # the endpoint will say why
    rights = who.role, who.queues, who.may_see_bodies
    return *rights, scope["path"], scope["query_string"], "gzip" in headers.get("accept-encoding", "")
