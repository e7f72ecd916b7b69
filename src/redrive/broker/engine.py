# SPDX-License-Identifier: MIT
"""The engine port: what the broker asks of a store, in the words of the domain.

Each verb is one transaction. Expected conflicts are named errors from ``redrive.errors``; a driver's exceptions never
get out. Time is the engine's own business: locks, due times and expiry are decided by its clock alone.

Pure: no I/O, no clock, no randomness; those who implement it have them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Protocol, TypeAlias

from redrive import duration
from redrive.broker.lifecycle import State
from redrive.broker.message import Headers, Lock, Message, Received, check_headers
from redrive.errors import InvalidMessage, InvalidSetting

LONGEST_LOCK_S = 300.0
LARGEST_MESSAGE_BYTES = 1_048_576
_RENEW = "for longer work renew the lock, as a worker does by itself"
_LONGEST_NAME = 260
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How a queue behaves. Lengths of time are seconds; a ``timedelta`` is turned into them.

    Attributes:
        lock_duration: how long a received message is yours; at most 5 minutes.
        max_delivery_count: how often a message is delivered before it is dead-lettered.
        default_ttl: how long messages are worth delivering, unless they say less; None: for ever.
        dead_letter_on_expiration: whether an expired message is dead-lettered instead of dropped.
        auto_delete_on_idle: delete the queue after that long without a send or a receive; None: never.
        duplicate_detection: drop a message whose id was sent within that long; None: do not look.
        requires_session: whether messages are received by session only.
        max_message_bytes: how large a message may be, body and headers together.
    """

    lock_duration: float = 60.0
    max_delivery_count: int = 10
    default_ttl: float | None = None
    dead_letter_on_expiration: bool = False
    auto_delete_on_idle: float | None = None
    duplicate_detection: float | None = None
    requires_session: bool = False
    max_message_bytes: int = LARGEST_MESSAGE_BYTES

    def __post_init__(self) -> None:
        lock_s = duration.seconds("lock_duration", self.lock_duration, longest=LONGEST_LOCK_S, otherwise=_RENEW)
        object.__setattr__(self, "lock_duration", lock_s)
        for name in ("default_ttl", "auto_delete_on_idle", "duplicate_detection"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, duration.seconds(name, value))
        _check_whole("max_delivery_count", self.max_delivery_count, 1, 2_000)
        _check_whole("max_message_bytes", self.max_message_bytes, 1, 100 * LARGEST_MESSAGE_BYTES)
        for name in ("dead_letter_on_expiration", "requires_session"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidSetting(name, getattr(self, name), "must be True or False")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(each.name for each in fields(cls))


def check_queue_name(name: str) -> str:
    """Return the name of a queue a person may declare, if it is one."""
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or not _NAME_CHARACTERS.issuperset(name):
        raise InvalidSetting("queue", name, f"must be 1 to {_LONGEST_NAME} letters, digits, '.', '_', '-' and '/'")
    return name


def check_max_messages(value: int) -> int:
    """Return how many messages one call may bring, if it is a number of messages."""
    if type(value) is not int or not 1 <= value <= 10_000:
        _check_whole("max_messages", value, 1, 10_000)
    return value


def check_at(at: datetime) -> datetime:
    """Return an instant, if it is one."""
    if not isinstance(at, datetime):
        told = "must be an instant: datetime.now(UTC) + timedelta(seconds=30); only schedule takes a delay as well"
        raise InvalidSetting("at", at, told)
    if at.utcoffset() is None:
        raise InvalidSetting("at", at, "must have a time zone: datetime.now(UTC) + timedelta(hours=1)")
    return at


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidSetting(name, value, f"must be a whole number from {low:,} to {high:,}")


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


# --- effects: everything that changes messages is a list of these, applied in one transaction


@dataclass(frozen=True, slots=True)
class Send:
    """Put a message into a queue, now or at an instant. Its outcome is the sequence number, None for a duplicate.

    Attributes:
        queue: where to.
        message: what.
        at: when it becomes available; None: at once.
        even_if_seen: whether it is stored although its id was seen before, as it is sent again on purpose.
    """

    queue: str
    message: Message
    at: datetime | None = None
    even_if_seen: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.message, Message):
            told = "must be a Message: Send(queue, Message(b'...')); broker.send takes a text or bytes as they are"
            raise InvalidMessage("message", type(self.message).__name__, told)
        if self.at is not None:
            check_at(self.at)


@dataclass(frozen=True, slots=True)
class Complete:
    """Remove a locked message: it is done."""

    lock: Lock


@dataclass(frozen=True, slots=True)
class Abandon:
    """Give a locked message back, to be delivered again at once or after a delay.

    Attributes:
        lock: whose it is.
        delay: seconds until it is available again.
        headers: headers to change or, with None, to remove.
        reset_count: whether its deliveries are counted anew.
        uncount: whether this delivery does not count: nobody has seen the message.
    """

    lock: Lock
    delay: float = 0.0
    headers: Headers | None = None
    reset_count: bool = False
    uncount: bool = False

    def __post_init__(self) -> None:
        if self.delay:
            object.__setattr__(self, "delay", duration.seconds("delay", self.delay, zero=True))
        if self.headers:
            check_headers(self.headers)


@dataclass(frozen=True, slots=True)
class Defer:
    """Set a locked message aside: it is only received again by its sequence number."""

    lock: Lock
    headers: Headers | None = None

    def __post_init__(self) -> None:
        if self.headers:
            check_headers(self.headers)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Move a locked message to the dead-letter queue."""

    lock: Lock
    reason: str
    description: str = ""
    headers: Headers | None = None

    def __post_init__(self) -> None:
        for name, text in (("reason", self.reason), ("description", self.description)):
            if not isinstance(text, str):
                raise InvalidSetting(name, text, "must be a text")
        if self.headers:
            check_headers(self.headers)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Remove a scheduled message before its time."""

    queue: str
    sequence: int


@dataclass(frozen=True, slots=True)
class SetSessionState:
    """Store what a session wants to remember; None forgets it."""

    session: "SessionLock"
    state: bytes | None

    def __post_init__(self) -> None:
        if self.state is not None and not isinstance(self.state, bytes):
            raise InvalidSetting("state", self.state, "must be bytes, or None to forget it")


Effect: TypeAlias = Send | Complete | Abandon | Defer | DeadLetter | Cancel | SetSessionState
Outcome: TypeAlias = int | None
"""What an effect gives back: the sequence number of a sent message, None otherwise."""


@dataclass(frozen=True, slots=True)
class SessionLock:
    """The right to receive the messages of one session, for a while.

    Attributes:
        queue: where the session is.
        session_id: its name.
        token: what makes this lock different from every other on that session.
        locked_until: when the right ends.
        state: what the session remembers.
    """

    queue: str
    session_id: str
    token: int
    locked_until: datetime
    state: bytes | None = None


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

    async def apply(self, effects: Sequence[Effect]) -> list[Outcome]:
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
