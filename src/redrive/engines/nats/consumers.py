# SPDX-License-Identifier: MIT
"""The server's side of a queue: the consumer that hands its messages out, one receiver each, and ends locks."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from nats.aio.msg import Msg

from redrive.engines.nats import errors
from redrive.engines.nats.catalog import Definition
from redrive.engines.nats.connection import NatsConnection
from redrive.engines.nats.errors import StreamRefusal
from redrive.engines.nats.records import GONE
from redrive.engines.nats.subjects import MessageLane, Subjects
from redrive.errors import EngineUnavailable

_SECOND: Final = 1_000_000_000
_SPARE: Final = 1.05
_SPARE_S: Final = 0.05
"""How much later than the engine the server ends a lock."""

_LEAST_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class HandedOut:
    """A message that the server has handed out.

    Attributes:
        subject: where it is.
        sequence: its number in the stream.
        times: how often this version of it was handed out.
        reply: how the server learns what became of it.
        headers: its headers.
        body: the rest.
    """

    subject: str
    sequence: int
    times: int
    reply: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class ConsumerProgress:
    """What a consumer has done.

    Attributes:
        last: the stream's number of the last message that it has handed out.
        out: how many it has handed out that no one has settled.
        waiting: how many it has not handed out yet.
    """

    last: int = 0
    out: int = 0
    waiting: int = 0


class PullEnd(Enum):
    """Why a server hands out no more messages.

    Attributes:
        EMPTY: there are none.
        FULL: the next does not fit into the bytes that are left.
        MORE: that was what was asked for, or others were faster.
        REMAINS: some of what came was what is left of settled messages, so there may be more.
    """

    EMPTY = "empty"
    FULL = "full"
    MORE = "more"
    REMAINS = "remains"


class Consumers:
    """The consumers of a namespace.

    Args:
        connection: the servers.
        subjects: the subjects of the namespace.
        pace: how many of the server's seconds one of ours is.
    """

    def __init__(self, connection: NatsConnection, subjects: Subjects, pace: float) -> None:
        self._connection = connection
        self._subjects = subjects
        self._pace = pace
        self._acknowledging: set[asyncio.Task[None]] = set()
        self._stored: dict[str, int] = {}  # the stream's number of the last message that is known to be ready, by key

    async def create(self, queue: Definition) -> None:
        """Create or change the consumer of a queue."""
        wait_s = max(_LEAST_S, queue.lock_duration * self._pace * _SPARE + _SPARE_S)
        config: dict[str, Any] = {
            "durable_name": queue.key,
            "ack_policy": "explicit",
            "ack_wait": math.ceil(wait_s * _SECOND),
            "deliver_policy": "all",
            "filter_subject": self._subjects.lane(MessageLane.READY, queue.key),
            "max_ack_pending": -1,  # a queue with a thousand locked messages would stand still
            "max_deliver": -1,  # the server would forget the message; we count ourselves
            "max_waiting": 10_000,
            "replay_policy": "instant",
        }
        await self._api(f"CONSUMER.DURABLE.CREATE.{self._subjects.stream}.{queue.key}", config)

    async def delete(self, key: str) -> None:
        """Remove the consumer of a queue, if there is one."""
        try:
            self._stored.pop(key, None)
            await self._connection.api(f"CONSUMER.DELETE.{self._subjects.stream}.{key}")
        except StreamRefusal as error:
            if error.code != errors.NO_CONSUMER:
                raise errors.of_refusal(error, self._connection.where) from error

    async def progress(self, queue: Definition) -> ConsumerProgress:
        """Return what the consumer of a queue has done."""
        await self.settled()
        try:
            info = await self._connection.api(f"CONSUMER.INFO.{self._subjects.stream}.{queue.key}")
        except StreamRefusal as error:
            if error.code == errors.NO_CONSUMER:
                return ConsumerProgress()
            raise errors.of_refusal(error, self._connection.where) from error
        return ConsumerProgress(info["delivered"]["stream_seq"], info["num_ack_pending"], info["num_pending"])

    async def next(self, queue: Definition, limit: int, max_bytes: int | None) -> tuple[list[HandedOut], PullEnd]:
        """Return messages that are ready, and why these are all. They are locked then.

        Raises:
            LookupError: the consumer is not there.
        """
        request: dict[str, Any] = {"batch": limit, "no_wait": True}
        if max_bytes is not None:
            request["max_bytes"] = max_bytes
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._subjects.stream}.{queue.key}"
        messages, end = await self._connection.many(subject, request, limit)
        status = end.headers.get("Status") if end is not None and end.headers else None
        said = str(end.headers.get("Description", "")) if end is not None and end.headers else ""
        if status == "503" or (status == "409" and "deleted" in said.lower()):
            raise LookupError(queue.key)
        if status not in (None, "404", "408", "409"):
            raise EngineUnavailable(f"{self._connection.where}: messages cannot be received ({status} {said})")
        living = [_delivered(each) for each in messages if GONE not in (each.headers or {})]
        if remains := [each.reply for each in messages if GONE in (each.headers or {})]:
            self._acknowledge(remains)
        if status == "409" and "maxbytes" in said.lower().replace(" ", ""):
            return living, PullEnd.FULL
        if status == "404":
            return living, PullEnd.EMPTY
        return living, PullEnd.REMAINS if remains else PullEnd.MORE

    # --- a consumer that is behind

    def note_stored(self, key: str, sequence: int) -> None:
        """Note that a queue has got a message that is ready."""
        self._stored[key] = max(self._stored.get(key, 0), sequence)

    async def is_behind(self, queue: Definition) -> bool:
        """Say whether a consumer that hands out nothing has not heard of all messages yet.

        It reads the copy of the stream on its own server, which may get a message a moment after a majority has it.
        """
        wanted = self._stored.get(queue.key, 0)
        if not wanted:
            return False
        progress = await self.progress(queue)
        if progress.last < wanted and await self._is_there_after(progress.last, queue):
            return True
        if self._stored.get(queue.key) == wanted:
            del self._stored[queue.key]
        return False

    async def _is_there_after(self, sequence: int, queue: Definition) -> bool:
        lane = self._subjects.lane(MessageLane.READY, queue.key)
        found = await self._connection.following(self._subjects.stream, sequence, lane)
        return found is not None

    # --- what is handed out

    def _acknowledge(self, replies: Sequence[str]) -> None:
        """Tell the server that what is left of settled messages needs not be handed out again."""
        task = asyncio.create_task(self._acknowledged(replies))
        self._acknowledging.add(task)
        task.add_done_callback(self._acknowledging.discard)

    async def _acknowledged(self, replies: Sequence[str]) -> None:
        """Acknowledge all, and wait for the last: a consumer hears of them in order."""
        try:
            for reply in replies[:-1]:
                await self._connection.publish(reply, b"+ACK")
            await self._connection.ask(replies[-1], b"+ACK")
        except EngineUnavailable:
            return  # then it is handed out again, or goes by itself

    async def settled(self) -> None:
        """Wait until the server has heard all that was sent to it."""
        if self._acknowledging:
            await asyncio.gather(*self._acknowledging)

    async def renew(self, reply: str) -> None:
        """Let the server lengthen a lock."""
        await self._connection.again("renew", self._connection.ask, reply, b"+WPI")

    async def _api(self, what: str, config: dict[str, Any]) -> None:
        try:
            await self._connection.api(what, {"stream_name": self._subjects.stream, "config": config})
        except StreamRefusal as error:
            raise errors.of_refusal(error, self._connection.where) from error


def _delivered(message: Msg) -> HandedOut:
    facts = message.metadata
    headers = {str(name): value for name, value in (message.headers or {}).items()}
    return HandedOut(message.subject, facts.sequence.stream, facts.num_delivered, message.reply, headers, message.data)
