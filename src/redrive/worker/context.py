# SPDX-License-Identifier: MIT
"""What a handler can read and do beside its payload."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, TypeVar

from redrive import duration, instant
from redrive.broker import (
    Abandon,
    Broker,
    Complete,
    DeadLetter,
    Defer,
    Effect,
    Headers,
    Message,
    Payload,
    Send,
    SetSessionState,
    parents,
)
from redrive.broker.headers import DELAYED_RETRIES
from redrive.clock import utc
from redrive.errors import InvalidSetting, UsageError
from redrive.tracing import TRACEPARENT, passed_on
from redrive.worker.confirmation import unbound
from redrive.worker.held_message import HeldMessage, HeldSession
from redrive.worker.recoverability import OwnSql, counter
from redrive.worker.settler import Settler

T = TypeVar("T")


class ContextSession:
    """The session of a message: an ordered group, of which one message is handled at a time."""

    def __init__(self, held: HeldSession) -> None:
        self._held = held
        self._changes: list[SetSessionState] = []

    @property
    def id(self) -> str:
        """The session's name."""
        return self._held.lock.session_id

    @property
    def state(self) -> bytes | None:
        """What the session remembers, or will with the completion of this message."""
        return self._changes[-1].state if self._changes else self._held.lock.state

    def set_state(self, state: bytes | None) -> None:
        """Have the session remember something, in the transaction that completes the message; None forgets it.

        If the handler fails, it remembers what it did before.
        """
        self._changes.append(SetSessionState(self._held.lock, state))

    def take_changes(self) -> list[SetSessionState]:
        """Return what is to be stored, and forget it."""
        changes, self._changes = self._changes[-1:], []
        return changes


class HandlerFacts:
    """What both kinds of context have: the message, its history, and the messages to send with its completion."""

    def __init__(self, lease: HeldMessage, settler: Settler) -> None:
        self._lease = lease
        self._settler = settler
        self._sends: list[Effect] = []
        self._session = None if lease.session is None else ContextSession(lease.session)

    @property
    def message(self) -> Message:
        """The message."""
        return self._lease.received.message

    @property
    def headers(self) -> Headers:
        """The message's headers."""
        return self._lease.received.headers

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self._lease.received.queue

    @property
    def sequence(self) -> int:
        """Its sequence number."""
        return self._lease.received.sequence

    @property
    def enqueued_at(self) -> datetime:
        """When it was sent."""
        return self._lease.received.enqueued_at

    @property
    def delivery_count(self) -> int:
        """How often it has been delivered since it was sent or last postponed, this time included."""
        return self._lease.received.delivery_count

    @property
    def delayed_retries(self) -> int:
        """How often it has been postponed because a handler failed."""
        return counter(self.headers, DELAYED_RETRIES)

    @property
    def attempt(self) -> int:
        """Which attempt this is, counted from 1 over all rounds."""
        return self._lease.attempt

    @property
    def is_stopping(self) -> bool:
        """Whether the worker is about to stop; a long handler should end soon."""
        return self._settler.is_stopping

    @property
    def is_lock_lost(self) -> bool:
        """Whether the lock has ended: another receiver may have the message, and this delivery cannot be settled."""
        return self._lease.is_lost

    @property
    def session(self) -> ContextSession:
        """The session that the message belongs to, if its queue has sessions."""
        if self._session is None:
            raise UsageError(f"queue {self.queue!r} has no sessions; declare it with requires_session=True")
        return self._session

    @property
    def broker(self) -> Broker:
        """The broker, for calls that are not part of the completion."""
        return self._settler.broker

    def send(
        self,
        queue: str,
        message: Payload,
        *,
        at: datetime | None = None,
        delay: duration.Duration | None = None,
    ) -> None:
        """Send a message in the transaction that completes this one. If the handler fails, it is never sent.

        It is a new message, even if you pass this one on: its redeliveries begin at zero, and its success says nothing
        about this one. So headers about this message's redeliveries and recovery are left out.

        Args:
            queue: where to.
            message: a message, or what its body is made of: bytes, a text, JSON values, a dataclass, a model.
            at: when it becomes available.
            delay: the time until then.
        """
        if at is not None and delay is not None:
            raise InvalidSetting("at", at, "cannot be combined with delay; say one of them")
        self._check_locked("send with context.broker")
        if self._lease.phase != "handling":
            raise UsageError(f"message {self._lease.id} is settled already: send before you settle it")
        if delay is not None:
            at = utc(self._settler.broker.clock.time() + duration.seconds("delay", delay, zero=True))
        self._sends.append(Send(queue, self._outgoing(message), None if at is None else instant.in_utc("at", at)))

    def take_sends(self) -> list[Effect]:
        """Return what is to be done with the completion, and forget it."""
        sends, self._sends = self._sends, []
        return sends if self._session is None else [*sends, *self._session.take_changes()]

    async def _settle(self, effect: Effect, *, with_sends: bool = True) -> None:
        sends = self.take_sends()
        await self._settler.settle(self._lease, [effect, *(sends if with_sends else ())])

    async def _complete(self, inside: OwnSql | None, within: object | None) -> None:
        effects = [Complete(self._lease.lock), *self.take_sends()]
        await self._settler.settle(self._lease, effects, is_handled=True, inside=inside, within=within)

    async def _renew(self) -> None:
        self._check_locked("there is nothing to renew")
        await self._settler.renew(self._lease)

    def _outgoing(self, payload: Payload) -> Message:
        """Return a new message: a child of this one, in its trace, and without what concerns this one alone."""
        message = Message.of(payload)
        headers = unbound(message.headers)
        is_its_own = headers.get(TRACEPARENT) not in (None, self.headers.get(TRACEPARENT))
        if not is_its_own and (trace := passed_on(self.headers)):
            headers = {**headers, **trace}
        if headers is not message.headers:
            message = message.with_headers(headers)
        return parents.child_of(self._lease.id, message)

    def _check_locked(self, instead: str) -> None:
        if self._settler.is_deleting:
            raise UsageError(f"message {self._lease.id} was deleted when it was received: {instead}")

    def _abandonment(self, delay: duration.Duration, headers: Headers | None) -> Effect:
        return Abandon(self._lease.lock, duration.seconds("delay", delay, zero=True), headers)


class Context(HandlerFacts):
    """The context of an async handler: its second parameter.

    A handler may settle its message itself, once; otherwise the worker completes it when the handler returns. What the
    handler has sent by then is part of that transaction, except of an abandonment: the message is delivered again.
    """

    def __init__(self, lease: HeldMessage, settler: Settler, on_room: Callable[[], None]) -> None:
        super().__init__(lease, settler)
        self._on_room = on_room

    async def renew(self) -> None:
        """Renew the lock for another lock duration.

        Raises:
            LockLost: the lock has ended.
        """
        await self._renew()

    def make_room(self) -> None:
        """Let the worker begin with the next message while this one is settled, if there are not too many of these.

        For a handler that settles its message itself, and has nothing else left to do: the message does not count for
        ``concurrency`` any more.
        """
        self._on_room()

    async def complete(self, *, inside: OwnSql | None = None, within: object | None = None) -> None:
        """Complete it: it is removed. What the handler sends, and its own SQL, is part of the same transaction.

        Args:
            inside: your own part of the transaction, a function of the database's connection; on PostgreSQL a coroutine
                function, and the connection is asyncpg's. It may be called again: do nothing in it but SQL.
            within: a connection with an open transaction of yours, which the completion joins: on PostgreSQL, one
                of asyncpg or psycopg, or a connection or session of SQLAlchemy. You commit, before the handler ends.

        Raises:
            LockLost: the lock has ended; nothing is done.
        """
        await self._complete(inside, within)

    async def abandon(self, delay: duration.Duration = 0.0, *, headers: Headers | None = None) -> None:
        """Give it back for redelivery, at once or after a delay; what the handler has sent is discarded."""
        await self._settle(self._abandonment(delay, headers), with_sends=False)

    async def defer(self, *, headers: Headers | None = None) -> None:
        """Defer it: it is only received again by its sequence number."""
        await self._settle(Defer(self._lease.lock, headers))

    async def dead_letter(self, reason: str, description: str = "", *, headers: Headers | None = None) -> None:
        """Move it to the dead-letter queue."""
        await self._settle(DeadLetter(self._lease.lock, reason, description, headers))


class BlockingContext(HandlerFacts):
    """The context of a blocking handler: its second parameter. The same as ``Context``, without ``await``."""

    def __init__(self, lease: HeldMessage, settler: Settler, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(lease, settler)
        self._loop = loop

    def renew(self) -> None:
        """Renew the lock for another lock duration.

        Raises:
            LockLost: the lock has ended.
        """
        self._wait(self._renew())

    def complete(self, *, inside: OwnSql | None = None, within: object | None = None) -> None:
        """Complete it: it is removed. What the handler sends, and its own SQL, is part of the same transaction.

        Args:
            inside: your own part of the transaction, a function of the database's connection; on PostgreSQL a coroutine
                function, and the connection is asyncpg's. It may be called again: do nothing in it but SQL.
            within: a connection with an open transaction of yours, which the completion joins: on PostgreSQL, one
                of asyncpg or psycopg, or a connection or session of SQLAlchemy. You commit, before the handler ends.

        Raises:
            LockLost: the lock has ended; nothing is done.
        """
        self._wait(self._complete(inside, within))

    def abandon(self, delay: duration.Duration = 0.0, *, headers: Headers | None = None) -> None:
        """Give it back for redelivery, at once or after a delay; what the handler has sent is discarded."""
        self._wait(self._settle(self._abandonment(delay, headers), with_sends=False))

    def defer(self, *, headers: Headers | None = None) -> None:
        """Defer it: it is only received again by its sequence number."""
        self._wait(self._settle(Defer(self._lease.lock, headers)))

    def dead_letter(self, reason: str, description: str = "", *, headers: Headers | None = None) -> None:
        """Move it to the dead-letter queue."""
        self._wait(self._settle(DeadLetter(self._lease.lock, reason, description, headers)))

    def _wait(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()
