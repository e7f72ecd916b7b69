# SPDX-License-Identifier: MIT
"""The port for engines: what the broker asks of a store, in the words of the domain.

Every engine has the verbs of ``Engine``. What only some can do is a protocol of its own: an engine has it by having its
verbs, and is asked with ``ability``, before any work is done. ``Capabilities`` says what no verb can say.

Each verb is one transaction. Expected conflicts are named errors from ``redrive.errors``; a driver's exceptions never
get out. Time is the engine's own business: locks, due times and expiry are decided by its clock alone.

Pure: no I/O, no clock, no randomness; those who implement it have them.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar, cast

from redrive.broker.attendance import Attendance, WorkerReport
from redrive.broker.by_number import Choosing, Deferral
from redrive.broker.capabilities import Capabilities
from redrive.broker.effects import (
    Abandon,
    Cancel,
    Complete,
    DeadLetter,
    Defer,
    Effect,
    EffectResult,
    Send,
    SessionLock,
    SetSessionState,
)
from redrive.broker.lifecycle import State
from redrive.broker.message import DeadLetterInfo, Headers, HeaderValue, Lock, Message, Received, unsealed
from redrive.broker.questions import Questions
from redrive.broker.settings import QueueSettings, TopicSettings
from redrive.broker.stored_messages import StoredMessage, StoredMessages
from redrive.broker.tallies import Tallying
from redrive.broker.topics import Rule, TopicInfo
from redrive.errors import NotSupported

__all__ = [
    "Abandon",
    "Attendance",
    "Browsing",
    "Cancel",
    "Capabilities",
    "Choosing",
    "Complete",
    "Database",
    "DeadLetter",
    "DeadLetterInfo",
    "Defer",
    "Deferral",
    "Effect",
    "EffectResult",
    "Engine",
    "HeaderValue",
    "Headers",
    "Lock",
    "Maintenance",
    "Message",
    "OpenTransactions",
    "Questions",
    "QueueInfo",
    "QueueSettings",
    "Received",
    "Rule",
    "Send",
    "SessionLock",
    "Sessions",
    "SetSessionState",
    "State",
    "StoredMessage",
    "StoredMessages",
    "Tallying",
    "TopicInfo",
    "TopicSettings",
    "Topics",
    "Upkeep",
    "WorkerReport",
    "ability",
    "check_effects",
    "check_settings_supported",
    "find_ability",
    "unsealed",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue and what is in it.

    Attributes:
        name: its name.
        settings: how it behaves.
        ready: messages that can be received now.
        scheduled: messages that will be available later.
        locked: messages that a receiver has locked.
        deferred: messages set aside, to be received by sequence number.
        dead: messages in its dead-letter queue.
        last_sequence: the highest number of a message in it; 0 if it is empty.
        oldest_at: when the oldest message that can be received now was sent.
        created_at: when it was declared.
        used_at: when something was last sent to it or received from it.
        is_topic: whether it is a topic, which holds nothing but dead letters.
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
    is_topic: bool = False


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
    """A store of queues and messages: what every engine can do."""

    @property
    def name(self) -> str:
        """What people call it, for errors: ``SQLite``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do that is no verb of its own."""
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
        """Change a queue's settings. Messages already sent keep the expiry they were given.

        A setting that cannot be changed is ``InvalidSetting``, and nothing is changed.
        """
        ...

    async def delete(self, name: str) -> None:
        """Remove a queue, its dead-letter queue and all their messages."""
        ...

    async def inspect(self, name: str | None = None) -> list[QueueInfo]:
        """Describe one queue, or all of them in order of their names; dead-letter queues are part of theirs."""
        ...

    async def apply(self, effects: Sequence[Effect]) -> list[EffectResult]:
        """Apply all effects or none; return one result for each effect."""
        ...

    async def lock_next(
        self, queue: str, limit: int, *, delete: bool = False, max_bytes: int | None = None
    ) -> list[Received]:
        """Lock the next messages that are ready, oldest first, at most ``limit``; or take them out for good.

        With ``max_bytes`` as many as fit into that, and one at least: so large messages do not fill the memory.
        """
        ...

    async def renew(self, locks: Sequence[Lock]) -> list[datetime | None]:
        """Lengthen locks by their queue's lock duration; None for each that was lost already."""
        ...

    async def wait(self, queue: str, seconds: float) -> None:
        """Return when something may be ready in a queue, or after that many seconds. A hint, no promise."""
        ...


class Sessions(Protocol):
    """Ordered groups of messages that one consumer has at a time; with it come ``SetSessionState`` and its setting."""

    async def lock_session(self, queue: str, session_id: str | None) -> SessionLock | None:
        """Lock a session, or any that has messages ready; None if there is none to be had."""
        ...

    async def lock_in_session(self, session: SessionLock, limit: int, *, delete: bool = False) -> list[Received]:
        """Lock the next messages of a session, in order, as ``lock_next`` does for a queue."""
        ...

    async def renew_session(self, session: SessionLock) -> SessionLock:
        """Lengthen a session's lock."""
        ...

    async def release_session(self, session: SessionLock, delay: float = 0.0) -> None:
        """Give a session back, and every message that was locked through it; with a delay it is held up until then."""
        ...


class Browsing(Protocol):
    """Messages that can be looked at without being received."""

    async def peek(
        self,
        queue: str,
        limit: int,
        *,
        start: int = 0,
        states: Sequence[State] | None = None,
        max_bytes: int | None = None,
    ) -> list[Received]:
        """Look at messages in order of their numbers, from ``start`` on; at least one, if ``max_bytes`` are few."""
        ...


class Maintenance(Protocol):
    """A store that has to be kept in order from outside."""

    async def upkeep(self, limit: int = 1_000) -> Upkeep:
        """Do a bounded amount of what no caller has asked for yet: expiry, over-delivered messages, idle queues."""
        ...


class Database(Protocol):
    """A SQL database that also holds tables of others: of recovery's ledger, and of the user.

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

    async def apply_inside(self, effects: Sequence[Effect], inside: Callable[[Any], Any]) -> list[EffectResult]:
        """Apply all effects or none, after the user's own part, which is given the transaction's connection."""
        ...

    def scripted(self, script: Callable[[], Generator[Any, Any, Any]]) -> Callable[[Any], Any]:
        """Return a script as such a part: what it changes is changed together with the effects, or not at all."""
        ...


class Topics(Protocol):
    """Topics: what is sent to one is stored once, and goes to every subscription whose rule matches.

    Sending is ``apply``, as to a queue, and a subscription is a queue for every other verb.
    """

    async def declare_topic(self, name: str, settings: TopicSettings) -> bool:
        """Create a topic; False if it is there already, with whatever settings."""
        ...

    async def update_topic(self, name: str, settings: TopicSettings) -> None:
        """Change a topic's settings."""
        ...

    async def subscribe(self, topic: str, name: str, rule: Rule, settings: QueueSettings) -> bool:
        """Create a subscription; False if it is there already: then it gets the rule, and keeps its settings."""
        ...

    async def unsubscribe(self, topic: str, name: str) -> None:
        """Remove a subscription and all messages in its queue."""
        ...

    async def topics(self, name: str | None = None) -> list[TopicInfo]:
        """Describe one topic, or all of them in order of their names."""
        ...


class OpenTransactions(Protocol):
    """A database whose effects can become part of a transaction that the user has opened."""

    async def apply_within(self, effects: Sequence[Effect], connection: object) -> list[EffectResult]:
        """Make sends and completions part of the transaction that is open on a connection of the user's."""
        ...


_FEATURES: Final[dict[type, str]] = {
    Sessions: "sessions",
    Deferral: "deferred messages",
    Choosing: "receiving dead letters by their numbers",
    Browsing: "looking at messages without receiving them (peek)",
    Maintenance: "upkeep",
    StoredMessages: "looking at messages as they are stored",
    Tallying: "a history",
    Attendance: "knowing its workers",
    Topics: "topics",
    Questions: "slow questions",
    Database: "SQL of your own in its transaction (inside=)",
    OpenTransactions: "joining a transaction that you have opened (within=); give your part as inside=",
}


def find_ability(engine: Engine, protocol: type[T]) -> T | None:
    """Return an engine as one that has an ability; None if it does not have it.

    Its verbs are asked for by name, so that an engine may also stand behind another object that passes them on.
    """
    has_it = _class_has(type(engine), cast("Hashable", protocol)) or _has(engine, protocol)
    return cast("T", engine) if has_it else None


def _has(engine: object, protocol: object) -> bool:
    return all(hasattr(engine, verb) for verb in vars(protocol) if not verb.startswith("_"))


_class_has = lru_cache(maxsize=200)(_has)  # this is asked for each transaction


def ability(engine: Engine, protocol: type[T]) -> T:
    """Return an engine as one that has an ability.

    Raises:
        NotSupported: it does not have it.
    """
    found = find_ability(engine, protocol)
    if found is None:
        raise NotSupported(engine.name, _FEATURES[protocol])
    return found


def check_effects(engine: Engine, effects: Iterable[Effect]) -> None:
    """See that an engine can do effects, before it does any of them.

    Raises:
        NotSupported: it cannot do one of them.
    """
    for effect in effects:
        kind = type(effect)
        if kind is Defer:
            ability(engine, Deferral)
        elif kind is SetSessionState:
            ability(engine, Sessions)
        elif kind is Cancel and not engine.capabilities.cancels_schedules:
            raise NotSupported(engine.name, "cancelling scheduled messages")


def check_settings_supported(engine: Engine, settings: QueueSettings) -> None:
    """See that an engine can have a queue with these settings.

    Raises:
        NotSupported: it cannot.
    """
    if settings.requires_session:
        ability(engine, Sessions)
    if settings.duplicate_detection is not None and not engine.capabilities.has_duplicate_detection:
        raise NotSupported(engine.name, "duplicate detection")
