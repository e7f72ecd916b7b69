# SPDX-License-Identifier: MIT
"""The broker: queues and messages as a program uses them. Every change is a list of effects that the engine applies."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, NoReturn, Self, Unpack

from redrive import duration
from redrive.broker import bulk, declarations, spans
from redrive.broker.arguments import (
    check_moment,
    check_most,
    check_payloads,
    check_process,
    check_queue,
    check_sequence,
    check_sequences,
    check_session_id,
    check_states,
)
from redrive.broker.bulk import Resubmitted
from redrive.broker.delivery import Delivery, as_message, named, random_id
from redrive.broker.effects import Cancel, Effect, EffectResult, Send, sends_of
from redrive.broker.lifecycle import State
from redrive.broker.message import Payload, Received
from redrive.broker.port import (
    Browsing,
    Capabilities,
    Choosing,
    Database,
    Deferral,
    Engine,
    Maintenance,
    OpenTransactions,
    QueueInfo,
    Sessions,
    Tallying,
    TopicInfo,
    Topics,
    ability,
    check_effects,
    find_ability,
)
from redrive.broker.receive_wait import waited
from redrive.broker.retry_engine import retrying
from redrive.broker.rounds import Rounds
from redrive.broker.rules import dead_letter_queue
from redrive.broker.session import Session
from redrive.broker.settings import QueueOptions, TopicOptions, check_max_messages
from redrive.broker.topics import RuleLike, check_subscription
from redrive.clock import Clock, system_clock
from redrive.errors import UsageError
from redrive.retry import Policy, Retry
from redrive.telemetry import is_traced


class Broker:
    """Durable queues. Made by ``redrive.connect``; use it as ``async with connect(...) as broker``.

    Args:
        engine: where the queues are.
        clock: what waiting goes by.
        new_id: names messages that have no id.
        upkeep_every: how often, in seconds, the broker does the work that no call asks for: expiry, idle queues.
        retry: how to make a call again while the store does not answer; None: the first failure is raised.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock = system_clock,
        new_id: Callable[[], str] = random_id,
        upkeep_every: float = 5.0,
        retry: Policy | Retry | None = None,
    ) -> None:
        self._inner = engine
        self._port: Engine = engine if retry is None else retrying(engine, retry, clock)
        self._opened_by: int | None = None
        self._is_closed = False
        self._clock = clock
        self._new_id = new_id
        self._upkeep_every = duration.seconds("upkeep_every", upkeep_every)
        self._upkeep: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> NoReturn:
        raise UsageError("use it as: async with connect(...) as broker; without asyncio: with connect_blocking(...)")

    def __exit__(self, *_: object) -> None:
        """Only there so that Python asks ``__enter__``."""

    async def open(self) -> None:
        """Connect. ``async with`` does it for you; this is for programs whose beginning and end are apart."""
        if self._opened_by is not None:
            check_process(self._opened_by, os.getpid())
            raise UsageError("this broker is open already; share it between tasks")
        await self._port.open()
        self._opened_by, self._is_closed = os.getpid(), False
        if (engine := find_ability(self._port, Maintenance)) is not None:
            rounds = Rounds(engine, find_ability(self._port, Tallying), self._clock, self._upkeep_every)
            self._upkeep = asyncio.create_task(rounds.run(), name="redrive-upkeep")

    async def close(self) -> None:
        """Finish what was accepted, and disconnect; in a process that was forked since, do nothing."""
        if self._opened_by is not None and self._opened_by != os.getpid():
            return
        if self._upkeep is not None:
            self._upkeep.cancel()
            with suppress(asyncio.CancelledError):
                await self._upkeep
            self._upkeep = None
        await self._port.close()
        self._opened_by, self._is_closed = None, True

    @property
    def is_open(self) -> bool:
        """Whether it is open, in this process."""
        return self._opened_by == os.getpid()

    @property
    def capabilities(self) -> Capabilities:
        """What the engine can do."""
        return self._port.capabilities

    @property
    def engine(self) -> Engine:
        """Where the queues are, for code that uses the port directly, and makes its own retries."""
        self._check_usable()
        return self._inner

    @property
    def clock(self) -> Clock:
        """What waiting goes by."""
        return self._clock

    # --- queues

    async def declare(self, queue: str, **settings: Unpack[QueueOptions]) -> None:
        """Make sure that a queue is there; what you do not state is as usual.

        Raises:
            QueueConflict: it is there already, and a setting you state is another.
            InvalidSetting: a name or a setting is not what it may be.
        """
        await declarations.declare(self._engine, queue, settings)

    async def update(self, queue: str, **settings: Unpack[QueueOptions]) -> None:
        """Change some settings of a queue. Messages that are already there keep the expiry they were given."""
        await declarations.update(self._engine, queue, settings)

    async def delete(self, queue: str) -> None:
        """Delete a queue, its dead-letter queue and all their messages; of a topic, all its subscriptions, too."""
        await self._engine.delete(check_queue(queue))

    async def inspect(self, queue: str) -> QueueInfo:
        """Describe a queue: its settings and how many messages are in which state."""
        return (await self._engine.inspect(check_queue(queue)))[0]

    async def queues(self) -> list[QueueInfo]:
        """Describe all queues, in order of their names."""
        return await self._engine.inspect()

    # --- topics

    async def declare_topic(self, topic: str, **settings: Unpack[TopicOptions]) -> None:
        """Make sure that a topic is there. What is sent to it goes to every subscription whose rule matches.

        Raises:
            TopicConflict: it is there already, and a setting you state is another.
        """
        await declarations.declare_topic(self._engine, topic, settings)

    async def update_topic(self, topic: str, **settings: Unpack[TopicOptions]) -> None:
        """Change some settings of a topic."""
        await declarations.update_topic(self._engine, topic, settings)

    async def subscribe(self, topic: str, name: str, rule: RuleLike = None, **settings: Unpack[QueueOptions]) -> str:
        """Make sure that a topic has a subscription with this rule; return the name of its queue, ``topic/name``.

        It gets what is sent from now on. If it is there already, it has this rule for what is sent from now on.

        Args:
            topic: the topic.
            name: the subscription's own name.
            rule: which messages it gets. None: all; ``{"region": "eu"}``: those whose properties or headers are equal;
                ``"body.total > 100"``: those for which an expression is true.
            settings: those of its queue.
        """
        return await declarations.subscribe(self._engine, topic, name, rule, settings)

    async def unsubscribe(self, topic: str, name: str) -> None:
        """Remove a subscription, its queue and all messages in it."""
        check_subscription(topic, name)
        await ability(self._engine, Topics).unsubscribe(topic, name)

    async def topics(self) -> list[TopicInfo]:
        """Describe all topics and their subscriptions, in order of their names."""
        return await ability(self._engine, Topics).topics()

    # --- sending

    async def send(self, queue: str, message: Payload) -> int | None:
        """Send a message to a queue or a topic; return its sequence number.

        None: it was recognised as a duplicate, or no subscription of the topic gets it.
        """
        effects = [Send(check_queue(queue), as_message(message, self._new_id))]
        return (await (self._traced(effects) if is_traced() else self._engine.apply(effects)))[0]

    async def send_many(self, queue: str, messages: Iterable[Payload]) -> list[int | None]:
        """Send messages, all or none; return their sequence numbers."""
        check_queue(queue)
        listed = [as_message(message, self._new_id) for message in check_payloads(messages)]
        effects = sends_of(queue, listed)
        return await (self._traced(effects) if is_traced() else self._engine.apply(effects))

    async def schedule(self, queue: str, message: Payload, at: datetime | duration.Duration) -> int | None:
        """Send a message that becomes available at an instant, or after a delay; return its sequence number."""
        return (await self.apply(Send(queue, as_message(message, self._new_id), check_moment(at, self._clock.time()))))[
            0
        ]

    async def cancel(self, queue: str, sequence: int) -> None:
        """Remove a scheduled message before its time.

        Raises:
            MessageNotFound: no scheduled message has that number; it may have become available.
        """
        await self.apply(Cancel(queue, sequence))

    async def apply(
        self, *effects: Effect, inside: Callable[[Any], object] | None = None, within: object | None = None
    ) -> list[EffectResult]:
        """Do several things in one transaction, all or nothing; return the sequence numbers of what was sent.

        Args:
            effects: what to do: ``Send``, ``Complete``, ``Abandon``, ``Defer``, ``DeadLetter``, ``Cancel``.
            inside: your own part of the transaction, a function of the database's connection, where the engine is one.
                On PostgreSQL it is a coroutine function, and the connection is asyncpg's.
            within: a connection with a transaction of yours, of which this becomes part: on PostgreSQL, one of asyncpg
                or psycopg, or a connection or session of SQLAlchemy. It is done when you commit. ``Send`` and
                ``Complete`` only.
        """
        if is_traced():
            with spans.sending(effects) as carrying:
                return await self._apply(carrying, inside, within)
        return await self._apply(effects, inside, within)

    def _apply(
        self, effects: Sequence[Effect], inside: Callable[[Any], object] | None, within: object | None
    ) -> Coroutine[Any, Any, list[EffectResult]]:
        listed = [named(effect, self._new_id) for effect in effects]
        if inside is not None and not callable(inside):
            raise UsageError(f"inside= must be a function of the database's connection, not {type(inside).__name__}")
        engine = self._engine
        check_effects(engine, listed)
        if inside is not None and within is not None:
            raise UsageError("give inside= or within=, not both: a transaction is yours or the broker's")
        if inside is not None:
            return ability(engine, Database).apply_inside(listed, inside)
        if within is not None:
            return ability(engine, OpenTransactions).apply_within(listed, within)
        return engine.apply(listed)

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
        check_queue(queue)
        began = self._clock.time() if is_traced() else 0.0
        found = await waited(engine, self._clock, queue, wait, lambda: engine.lock_next(queue, limit, delete=delete))
        if found and is_traced():
            spans.received(queue, found, (began, self._clock.time()))
        return [Delivery(received, engine) for received in found]

    async def receive_deferred(self, queue: str, sequences: Sequence[int]) -> list[Delivery]:
        """Receive deferred messages by their sequence numbers: all of them, or none.

        Raises:
            MessageNotFound: one of them is not there, or is not deferred.
        """
        engine, wanted = self._engine, check_sequences(sequences)
        found = await ability(engine, Deferral).lock_deferred(check_queue(queue), wanted)
        return [Delivery(received, engine) for received in found]

    async def receive_dead(self, queue: str, sequences: Sequence[int]) -> list[Delivery]:
        """Receive dead letters of a queue by their sequence numbers: all of them, or none.

        Raises:
            MessageNotFound: one of them is not there, or another receiver has it.
        """
        engine, dead = self._engine, dead_letter_queue(check_queue(queue))
        found = await ability(engine, Choosing).lock_chosen(dead, check_sequences(sequences))
        return [Delivery(received, engine) for received in found]

    async def accept_session(
        self, queue: str, session_id: str | None = None, *, wait: duration.Duration = 0.0
    ) -> Session | None:
        """Lock a session, or any that has messages; None if there is none to be had within ``wait``."""
        engine, wanted = self._engine, check_session_id(session_id)
        sessions = ability(engine, Sessions)
        check_queue(queue)
        lock = await waited(engine, self._clock, queue, wait, lambda: sessions.lock_session(queue, wanted))
        return None if lock is None else Session(lock, engine, self._clock)

    async def peek(
        self,
        queue: str,
        *,
        max_messages: int = 100,
        start: int = 0,
        states: Sequence[State] | None = None,
    ) -> list[Received]:
        """Look at messages without receiving them, in order of their numbers, whatever they are doing."""
        limit, first, chosen = check_max_messages(max_messages), check_sequence("start", start), check_states(states)
        return await ability(self._engine, Browsing).peek(check_queue(queue), limit, start=first, states=chosen)

    # --- in bulk

    async def purge(
        self, queue: str, *, sequences: Sequence[int] | None = None, on_progress: Callable[[int], object] | None = None
    ) -> int:
        """Remove every message that can be received now, or dead letters by their numbers; return how many there were.

        In a queue with sessions, the messages of sessions that another receiver has locked stay.
        """
        if sequences is not None:
            return await bulk.purge_chosen(self._engine, check_queue(queue), check_sequences(sequences))
        return await bulk.purge(self._engine, check_queue(queue), on_progress)

    async def resubmit(
        self,
        queue: str,
        *,
        max_messages: int | None = None,
        sequences: Sequence[int] | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> Resubmitted:
        """Send the dead letters of a queue to it again, each in one transaction with its removal; return how many.

        Each message keeps its id, headers and body. It is sent once: one that dies again meanwhile stays dead. One that
        its queue does not take stays where it is, and the result says which and why, and how many others have locked.
        With ``sequences`` only these are sent; if one is not to be had, ``MessageNotFound``, and none is.
        """
        most = check_most("max_messages", max_messages)
        if sequences is not None:
            return await bulk.resubmit_chosen(self._engine, check_queue(queue), check_sequences(sequences))
        return await bulk.resubmit(self._engine, check_queue(queue), most, on_progress)

    # --- inside

    async def _traced(self, effects: Sequence[Effect]) -> list[EffectResult]:
        with spans.sending(effects) as carrying:
            return await self._engine.apply(carrying)

    @property
    def _engine(self) -> Engine:
        """The engine, if it may be used, with its retries."""
        if self._opened_by != os.getpid():  # asked with every call
            self._check_usable()
        return self._port

    def _check_usable(self) -> None:
        """See that it may be used: not after the end, and not in a process that was forked since."""
        if self._opened_by is not None:
            check_process(self._opened_by, os.getpid())
        elif self._is_closed:
            raise UsageError(
                "this broker is closed; open it again: async with connect(...) as broker, or broker.open()"
            )

    async def messages(self, queue: str, *, max_messages: int = 100) -> AsyncIterator[Delivery]:
        """Receive messages one after another until none is ready."""
        while found := await self.receive(queue, max_messages=max_messages):
            for one in found:
                yield one
