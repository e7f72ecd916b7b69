# SPDX-License-Identifier: MIT
"""The broker: queues and messages as a program uses them. Every change is a list of effects that the engine applies."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeAlias, TypedDict, Unpack

from redrive import duration
from redrive.broker.delivery import Delivery, named, random_id
from redrive.broker.engine import (
    Abandon,
    Cancel,
    Capabilities,
    Complete,
    Effect,
    Engine,
    Outcome,
    QueueInfo,
    QueueSettings,
    Send,
    check_max_messages,
    check_queue_name,
)
from redrive.broker.lifecycle import State, dead_letter_queue
from redrive.broker.message import Message, Received
from redrive.broker.retrying import RetryingEngine
from redrive.broker.session import Session
from redrive.clock import Clock, pause, system_clock, utc
from redrive.errors import InvalidSetting, QueueConflict, RedriveError, UsageError
from redrive.retry import Policy

Payload: TypeAlias = Message | bytes | str
"""What can be sent: a message, or just its body."""

_PAGE = 100
_logger = logging.getLogger("redrive.broker")


class Settings(TypedDict, total=False):
    """The settings of a queue, for whoever states some of them."""

    lock_duration: float | timedelta
    max_delivery_count: int
    default_ttl: float | timedelta | None
    dead_letter_on_expiration: bool
    auto_delete_on_idle: float | timedelta | None
    duplicate_detection: float | timedelta | None
    requires_session: bool
    max_message_bytes: int


class Broker:
    """Durable queues. Made by ``redrive.connect``; use it as ``async with connect(...) as broker``.

    Args:
        engine: where the queues are.
        clock: what waiting goes by.
        new_id: names messages that have no id.
        upkeep_every: how often, in seconds, what nobody asks for is looked after: expiry, idle queues.
        retry: how to make a call again while the store does not answer; None: the first failure is raised.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock = system_clock,
        new_id: Callable[[], str] = random_id,
        upkeep_every: float = 5.0,
        retry: Policy | None = None,
    ) -> None:
        self._inner = engine
        self._engine: Engine = engine if retry is None else RetryingEngine(engine, retry, clock)
        self._clock = clock
        self._new_id = new_id
        self._upkeep_every = duration.seconds("upkeep_every", upkeep_every)
        self._upkeep: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._engine.open()
        self._upkeep = asyncio.create_task(self._keep_up(), name="redrive-upkeep")
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what was accepted, and disconnect."""
        if self._upkeep is not None:
            self._upkeep.cancel()
            with suppress(asyncio.CancelledError):
                await self._upkeep
            self._upkeep = None
        await self._engine.close()

    @property
    def capabilities(self) -> Capabilities:
        """What the engine can do."""
        return self._engine.capabilities

    @property
    def engine(self) -> Engine:
        """Where the queues are, for whoever builds on the port itself, and retries itself."""
        return self._inner

    @property
    def clock(self) -> Clock:
        """What waiting goes by."""
        return self._clock

    # --- queues

    async def declare(self, queue: str, **settings: Unpack[Settings]) -> None:
        """Make sure that a queue is there; what you do not state is as usual.

        Raises:
            QueueConflict: it is there already, and a setting you state is another.
            InvalidSetting: a name or a setting is not what it may be.
        """
        wanted = QueueSettings(**settings)  # type: ignore[arg-type]  # it turns timedelta into seconds
        if await self._engine.declare(check_queue_name(queue), wanted):
            return
        there, asked = asdict((await self.inspect(queue)).settings), asdict(wanted)
        differences = {name: (there[name], asked[name]) for name in settings if there[name] != asked[name]}
        if differences:
            raise QueueConflict(queue, differences)

    async def update(self, queue: str, **settings: Unpack[Settings]) -> None:
        """Change some settings of a queue. Messages that are already there keep the expiry they were given."""
        current = (await self.inspect(queue)).settings
        await self._engine.update(queue, replace(current, **settings))  # type: ignore[arg-type]  # as in declare

    async def delete(self, queue: str) -> None:
        """Delete a queue, its dead-letter queue and all their messages."""
        await self._engine.delete(queue)

    async def inspect(self, queue: str) -> QueueInfo:
        """Describe a queue: its settings and how many messages are in which state."""
        return (await self._engine.inspect(queue))[0]

    async def queues(self) -> list[QueueInfo]:
        """Describe all queues, in order of their names."""
        return await self._engine.inspect()

    # --- sending

    async def send(self, queue: str, message: Payload) -> int | None:
        """Send a message; return its sequence number, or None if it was recognised as a duplicate."""
        return (await self._engine.apply([Send(queue, as_message(message, self._new_id))]))[0]

    async def send_many(self, queue: str, messages: Iterable[Payload]) -> list[int | None]:
        """Send messages, all or none; return their sequence numbers."""
        return await self._engine.apply([Send(queue, as_message(message, self._new_id)) for message in messages])

    async def schedule(self, queue: str, message: Payload, at: datetime | duration.Duration) -> int | None:
        """Send a message that becomes available at an instant, or after a delay; return its sequence number."""
        return (await self.apply(Send(queue, as_message(message, self._new_id), self._instant(at))))[0]

    async def cancel(self, queue: str, sequence: int) -> None:
        """Remove a scheduled message before its time.

        Raises:
            MessageNotFound: no scheduled message has that number; it may have become available.
        """
        await self.apply(Cancel(queue, sequence))

    async def apply(
        self, *effects: Effect, inside: Callable[[Any], object] | None = None, within: object | None = None
    ) -> list[Outcome]:
        """Do several things in one transaction, all or nothing; return the sequence numbers of what was sent.

        Args:
            effects: what to do: ``Send``, ``Complete``, ``Abandon``, ``Defer``, ``DeadLetter``, ``Cancel``.
            inside: your own part of the transaction, a function of the database's connection, where the engine is one.
                On PostgreSQL it is a coroutine function, and the connection is asyncpg's.
            within: a connection with a transaction of yours, of which this becomes part: on PostgreSQL, one of asyncpg
                or psycopg, or a connection or session of SQLAlchemy. It is done when you commit. ``Send`` and
                ``Complete`` only.
        """
        listed = [named(effect, self._new_id) for effect in effects]
        if inside is None and within is None:
            return await self._engine.apply(listed)
        if within is None:
            return await self._engine.apply(listed, inside)  # type: ignore[call-arg]  # engines that are a database
        if not self.capabilities.joins_open_transaction:
            raise UsageError("this engine cannot join a transaction that is open; on SQLite give your part as inside=")
        return await self._engine.apply(listed, inside, within=within)  # type: ignore[call-arg]  # as above

    # --- receiving

    async def receive(
        self, queue: str, *, max_messages: int = 1, wait: duration.Duration = 0.0, delete: bool = False
    ) -> list[Delivery]:
        """Receive the next messages, oldest first. They are locked: settle each, or it will be delivered again.

        Args:
            queue: where from.
            max_messages: how many at most; fewer come if fewer are there.
            wait: how long to wait for the first.
            delete: take them out for good at once. What then happens to them is your affair alone.
        """
        engine, limit = self._engine, check_max_messages(max_messages)
        found = await self._waited(queue, wait, lambda: engine.lock_next(queue, limit, delete=delete))
        return [Delivery(received, engine) for received in found]

    async def receive_deferred(self, queue: str, sequences: Sequence[int]) -> list[Delivery]:
        """Receive deferred messages by their sequence numbers: all of them, or none.

        Raises:
            MessageNotFound: one of them is not there, or is not deferred.
        """
        return [Delivery(received, self._engine) for received in await self._engine.lock_deferred(queue, sequences)]

    async def accept_session(
        self, queue: str, session_id: str | None = None, *, wait: duration.Duration = 0.0
    ) -> Session | None:
        """Lock a session, or any that has messages; None if there is none to be had within ``wait``."""
        lock = await self._waited(queue, wait, lambda: self._engine.lock_session(queue, session_id))
        return None if lock is None else Session(lock, self._engine, self._clock)

    async def peek(
        self,
        queue: str,
        *,
        max_messages: int = 100,
        start: int = 0,
        states: Sequence[State] | None = None,
    ) -> list[Received]:
        """Look at messages without receiving them, in order of their numbers, whatever they are doing."""
        return await self._engine.peek(queue, check_max_messages(max_messages), start=start, states=states)

    # --- in bulk

    async def purge(self, queue: str, *, on_progress: Callable[[int], object] | None = None) -> int:
        """Remove every message that can be received now; return how many there were.

        Of a queue with sessions, those of sessions that somebody else has are left alone.
        """
        has_sessions = (await self.inspect(queue)).settings.requires_session
        session = await self._engine.lock_session(queue, None) if has_sessions else None
        purged = 0
        while session is not None or not has_sessions:
            taken = await self._engine.lock_next(queue, _PAGE, session=session, delete=True)
            purged += len(taken)
            if taken and on_progress is not None:
                on_progress(purged)
            if not taken and session is None:
                break
            if not taken and session is not None:
                await self._engine.release_session(session)
                session = await self._engine.lock_session(queue, None)
        return purged

    async def resubmit(
        self, queue: str, *, max_messages: int | None = None, on_progress: Callable[[int], object] | None = None
    ) -> int:
        """Send the dead letters of a queue to it again, each in one transaction with its removal; return how many.

        Each message keeps its id, headers and body. It is sent once: one that dies again meanwhile stays dead.
        """
        dead = dead_letter_queue(queue)
        if dead == queue:
            raise InvalidSetting("queue", queue, "is a dead-letter queue; name the queue to which they shall go again")
        last = (
            await self.inspect(dead)
        ).last_sequence  # what is sent now gets a higher number, and keeps it if it dies
        done = 0
        while max_messages is None or done < max_messages:
            page = _PAGE if max_messages is None else min(_PAGE, max_messages - done)
            effects: list[Effect] = []
            count = 0
            for one in await self.receive(dead, max_messages=page):
                if one.sequence <= last:
                    effects += [Complete(one.lock), Send(queue, one.message, even_if_seen=True)]
                    count += 1
                else:
                    effects.append(Abandon(one.lock, uncount=True))
            await self._engine.apply(effects)
            if not count:
                break
            done += count
            if on_progress is not None:
                on_progress(done)
        return done

    # --- inside

    async def _waited(self, queue: str, wait: duration.Duration, ask: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Ask again and again until there is something, or the time is over."""
        patience = duration.seconds("wait", wait, zero=True)
        found = await ask()
        if found or not patience:
            return found
        ends_at = self._clock.monotonic() + patience
        while not found and (left := ends_at - self._clock.monotonic()) > 0:
            await self._engine.wait(queue, left)
            found = await ask()
        return found

    def _instant(self, at: datetime | duration.Duration) -> datetime:
        if not isinstance(at, datetime):
            return utc(self._clock.time() + duration.seconds("at", at, zero=True))
        if at.tzinfo is None:
            raise InvalidSetting("at", at, "must have a time zone: datetime.now(UTC) + timedelta(hours=1)")
        return at.astimezone(UTC)

    async def _keep_up(self) -> None:
        while True:
            try:
                done = await self._engine.upkeep()
            except RedriveError as error:
                _logger.warning("upkeep failed and will be tried again: %s", error)
            else:
                if not done.is_finished:
                    continue
            await pause(self._clock, self._upkeep_every)

    async def messages(self, queue: str, *, max_messages: int = 100) -> AsyncIterator[Delivery]:
        """Receive messages one after another until none is ready."""
        while found := await self.receive(queue, max_messages=max_messages):
            for one in found:
                yield one


def as_message(payload: Payload, new_id: Callable[[], str] = random_id) -> Message:
    """Return a message with an id for what is to be sent; a text becomes UTF-8."""
    if type(payload) is bytes and new_id is random_id:
        return Message.plain(payload, random_id())
    if isinstance(payload, Message):
        return payload if payload.id is not None else replace(payload, id=new_id())
    if isinstance(payload, str):
        return Message(payload.encode(), id=new_id(), content_type="text/plain; charset=utf-8")
    return Message(payload, id=new_id())
