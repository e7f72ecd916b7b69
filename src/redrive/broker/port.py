# SPDX-License-Identifier: MIT
"""The engine port: what the broker asks of a store, in the words of the domain.

Each verb is one transaction. Expected conflicts are named errors from ``redrive.errors``; a driver's exceptions never
get out. Time is the engine's own business: locks, due times and expiry are decided by its clock alone.

Pure: no I/O, no clock, no randomness; those who implement it have them.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

from redrive.broker.effects import Effect, EffectResult, SessionLock
from redrive.broker.lifecycle import State
from redrive.broker.message import Lock, Received
from redrive.broker.settings import QueueSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue and what is in it.

    Attributes:
        name: its name.
        settings: how it behaves.
        ready: messages that can be received now.
        scheduled: messages that will be available later.
        locked: messages that somebody is working on.
        deferred: messages set aside, to be received by sequence number.
        dead: messages in its dead-letter queue.
        last_sequence: the highest number of a message in it; 0 if it is empty.
        oldest_at: when the oldest message that can be received now was sent.
        created_at: when it was declared.
        used_at: when something was last sent to it or received from it.
    """

    name: str
    settings: QueueSettings
    ready: int
    scheduled: int
    locked: int
    deferred: int
    dead: int
    last_sequence: int
    oldest_at: datetime | None
    created_at: datetime
    used_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can do beyond the port's promises.

    Attributes:
        is_transactional: whether ``apply`` is all or nothing; otherwise it sends first and settles last.
        has_sessions: whether it knows sessions.
        has_duplicate_detection: whether it recognises a message id it has seen.
        joins_user_transaction: whether a send can be part of the user's own database transaction.
        joins_open_transaction: whether that can be one that the user has opened on a connection of his own.
        counts_exactly: whether ``inspect`` knows how many messages there are, so that an empty queue can be told.
    """

    is_transactional: bool = True
    has_sessions: bool = True
    has_duplicate_detection: bool = True
    joins_user_transaction: bool = True
    joins_open_transaction: bool = False
    counts_exactly: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What one round of upkeep did.

    Attributes:
        released: locks that had ended and scheduled messages that came due.
        expired: messages dropped or dead-lettered because their time was over.
        over_delivered: messages dead-lettered because they had had their deliveries.
        queues_deleted: idle queues that were removed.
        is_finished: whether nothing more was due when it stopped.
    """

    released: int = 0
    expired: int = 0
    over_delivered: int = 0
    queues_deleted: int = 0
    is_finished: bool = True


class Engine(Protocol):
    """A store of queues and messages."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do beyond the promises below."""
        ...

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, and disconnect."""
        ...

    async def declare(self, name: str, settings: QueueSettings) -> bool:
        """Create a queue and its dead-letter queue; False if it is there already, with whatever settings."""
        ...

    async def update(self, name: str, settings: QueueSettings) -> None:
        """Change a queue's settings. Messages already sent keep the expiry they were given."""
        ...

    async def delete(self, name: str) -> None:
        """Remove a queue, its dead-letter queue and all their messages."""
        ...

    async def inspect(self, name: str | None = None) -> list[QueueInfo]:
        """Describe one queue, or all of them in order of their names; dead-letter queues are part of theirs."""
        ...

    async def apply(self, effects: Sequence[Effect]) -> list[EffectResult]:
        """Do all of it or nothing; one outcome for each effect."""
        ...

    async def lock_next(
        self,
        queue: str,
        limit: int,
        *,
        session: SessionLock | None = None,
        delete: bool = False,
        max_bytes: int | None = None,
    ) -> list[Received]:
        """Lock the next messages that are ready, oldest first, at most ``limit``; or take them out for good.

        With ``max_bytes`` as many as fit into that, and one at least: so large messages do not fill the memory.
        """
        ...

    async def lock_deferred(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock deferred messages by their sequence numbers: all of them or, with ``MessageNotFound``, none."""
        ...

    async def renew(self, locks: Sequence[Lock]) -> list[datetime | None]:
        """Lengthen locks by their queue's lock duration; None for each that was lost already."""
        ...

    async def peek(
        self, queue: str, limit: int, *, start: int = 0, states: Sequence[State] | None = None
    ) -> list[Received]:
        """Look at messages in order of their sequence numbers, from ``start`` on, without touching them."""
        ...

    async def lock_session(self, queue: str, session_id: str | None) -> SessionLock | None:
        """Lock a session, or any that has messages ready; None if there is none to be had."""
        ...

    async def renew_session(self, session: SessionLock) -> SessionLock:
        """Lengthen a session's lock."""
        ...

    async def release_session(self, session: SessionLock) -> None:
        """Give a session back, and every message that was locked through it."""
        ...

    async def upkeep(self, limit: int = 1_000) -> Upkeep:
        """Do a bounded amount of what nobody has asked for yet: expiry, over-delivered messages, idle queues."""
        ...

    async def wait(self, queue: str, seconds: float) -> None:
        """Return when something may be ready in a queue, or after that many seconds. A hint, no promise."""
        ...


@runtime_checkable
class Database(Protocol):
    """An engine that is a database: it runs scripts of SQL statements beside its queues.

    A script is a generator that yields statements, is sent their rows, and returns its result. Their language is that
    of ``redrive.engines.sql.script``.
    """

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, and disconnect."""
        ...

    async def run(self, script: Callable[[], Generator[Any, Any, T]]) -> T:
        """Run a script in a transaction, durably; it may be begun again."""
        ...

    async def look(self, script: Callable[[], Generator[Any, Any, T]]) -> T:
        """Run a script that only reads, all of it as it was at one moment."""
        ...
