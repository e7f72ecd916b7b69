# SPDX-License-Identifier: MIT
"""Knows queues and topics: what is stored of them, and what is remembered of that for a while.

What is remembered may be old. So a change that rests on it is fenced by it, and before anything is refused because of
it, it is read again.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final
from uuid import uuid4

from redrive.broker import rules
from redrive.broker.port import QueueSettings, Rule, TopicSettings
from redrive.clock import Clock, system_clock
from redrive.engines.nats.connection import NatsConnection, Stored
from redrive.engines.nats.group_commit import StreamEntry, removing
from redrive.engines.nats.records import GONE
from redrive.engines.nats.subjects import Subjects
from redrive.errors import NotAQueue, QueueNotFound, TopicNotFound

_UNCERTAIN_S: Final = 1.0
"""How long after news of a change nothing is remembered: the news may come before the change."""


@dataclass(frozen=True)
class Definition:
    """A queue or a topic.

    Attributes:
        name: its name.
        key: what its subjects are called; another each time it is declared.
        created_at: when it was declared.
        settings: how it behaves, as JSON.
        is_topic: whether it is a topic.
        topic: the topic that it subscribes to, if it is the queue of a subscription.
        rules: the rules of a topic's subscriptions, as JSON, by the names of their queues.
        longer_lock: how long locks lasted before, while there may still be such locks; 0: there are none.
        longer_until: until when there may be.
        sequence: the stream's number of this version.
    """

    name: str
    key: str
    created_at: float
    settings: str
    is_topic: bool = False
    topic: str | None = None
    rules: Mapping[str, str] = field(default_factory=dict[str, str])
    longer_lock: float = 0.0
    longer_until: float = 0.0
    sequence: int = 0

    @cached_property
    def of_queue(self) -> QueueSettings:
        """The settings of the queue, or of the queue of the topic's dead letters."""
        return self.of_topic.of_queue() if self.is_topic else QueueSettings.from_json(self.settings)

    @property
    def lock_duration(self) -> float:
        """How long the server keeps a lock: the locks that are held keep their time when they get shorter."""
        return max(self.of_queue.lock_duration, self.longer_lock)

    @cached_property
    def of_topic(self) -> TopicSettings:
        """The settings of the topic."""
        return TopicSettings.from_json(self.settings)

    @cached_property
    def of_dead_letters(self) -> QueueSettings:
        """The settings of its dead-letter queue."""
        return self.of_queue.of_dead_letters()

    @cached_property
    def subscriptions(self) -> dict[str, Rule]:
        """The rules of a topic's subscriptions, by the names of their queues, in order."""
        return {queue: Rule.from_json(self.rules[queue]) for queue in sorted(self.rules)}

    @property
    def body(self) -> bytes:
        """It as it is stored."""
        of_topics = [self.is_topic, self.topic, dict(self.rules)]
        values = [self.name, self.key, self.created_at, self.settings, *of_topics, self.longer_lock, self.longer_until]
        return json.dumps(values).encode()


class Catalog:
    """The queues and topics of a namespace.

    Args:
        connection: the servers.
        subjects: the subjects of the namespace.
        clock: says when a queue is declared.
    """

    def __init__(self, connection: NatsConnection, subjects: Subjects, clock: Clock) -> None:
        self._connection = connection
        self._subjects = subjects
        self._clock = clock
        self._known: dict[str, Definition] = {}
        self._uncertain_until = 0.0
        self._readings = _SharedReads(self._read)

    def forget(self) -> None:
        """Forget everything, and remember nothing for a moment."""
        self._known.clear()
        self._uncertain_until = system_clock.monotonic() + _UNCERTAIN_S

    # --- looking up

    async def find(self, name: str, *, anew: bool = False) -> Definition | None:
        """Return what a queue or a topic is; None if there is none of that name.

        Args:
            name: its name, not that of a dead-letter queue.
            anew: whether it is read again in any case.
        """
        if not anew and (known := self._known.get(name)) is not None:
            return known
        if not rules.is_queue_name(name):
            return None
        definition = await self._readings.read(name)
        if definition is None:
            self._known.pop(name, None)
        elif system_clock.monotonic() >= self._uncertain_until:
            self._known[name] = definition
        return definition

    async def _read(self, name: str) -> Definition | None:
        found = await self._connection.last(self._subjects.stream, self._subjects.definition(name))
        return None if found is None else _definition(found)

    async def vacancy(self, name: str) -> int | None:
        """Return what a new queue of this name is fenced by; None if there is one of that name."""
        found = await self._connection.last(self._subjects.stream, self._subjects.definition(name))
        if found is None:
            return 0
        return found.sequence if GONE in found.headers else None

    async def get(self, name: str, *, anew: bool = False) -> Definition:
        """Return what a queue or a topic is.

        Raises:
            QueueNotFound: there is none of that name.
        """
        found = await self.find(rules.source_queue(name), anew=anew)
        if found is None:
            raise QueueNotFound(name, rules.similar(name, self._known))
        return found

    async def queue(self, name: str, *, anew: bool = False) -> Definition:
        """Return the queue of a name, or the one whose dead letters have this name.

        Raises:
            QueueNotFound: there is none.
            NotAQueue: it is a topic.
        """
        found = await self.get(name, anew=anew)
        if found.is_topic and not rules.is_dead_letter_queue(name):
            if not anew:
                return await self.queue(name, anew=True)
            raise NotAQueue(name, tuple(found.subscriptions))
        return found

    async def topic(self, name: str) -> Definition:
        """Return a topic.

        Raises:
            TopicNotFound: there is none of that name.
        """
        found = await self.find(name, anew=True)
        if found is None or not found.is_topic:
            raise TopicNotFound(name, is_queue=found is not None)
        return found

    async def all(self) -> list[Definition]:
        """Return all queues and topics, in order of their names."""
        subjects = await self._connection.subjects(self._subjects.stream, self._subjects.definitions)
        found = [_definition(each) for each in await self._connection.last_of_each(self._subjects.stream, subjects)]
        return sorted((each for each in found if each is not None), key=lambda each: each.name)

    # --- what changes them

    def new(self, name: str, settings: QueueSettings | TopicSettings, topic: str | None = None) -> Definition:
        """Return a queue or a topic that is not stored yet."""
        is_topic = isinstance(settings, TopicSettings)
        return Definition(name, uuid4().hex[:16], self._clock.time(), settings.to_json(), is_topic, topic)

    def changed(self, queue: Definition, settings: QueueSettings) -> Definition:
        """Return a queue with other settings, not stored yet."""
        wanted = queue.of_queue.changed(settings)
        before = queue.lock_duration
        shorter = wanted.lock_duration < before
        until = self._clock.time() + before if shorter else 0.0
        return replace(queue, settings=wanted.to_json(), longer_lock=before if shorter else 0.0, longer_until=until)

    def storing(self, definition: Definition) -> StreamEntry:
        """Return what stores it, if it is still the version that this one is made of."""
        entry = StreamEntry(self._subjects.definition(definition.name), definition.body).alone()
        return entry.fenced(definition.sequence)

    def removing(self, definition: Definition) -> StreamEntry:
        """Return what removes it, if it is still this version."""
        return removing(self._subjects.definition(definition.name), definition.sequence)

    def guarding(self, definition: Definition, entry: StreamEntry) -> StreamEntry:
        """Let something be stored only if this is still what the queue or the topic is."""
        return entry.fenced(definition.sequence, self._subjects.definition(definition.name))


class _SharedReads:
    """Lets those share a reading who ask for the same name at the same time.

    No one gets what was read before they asked: who comes while a name is being read shares the next reading.
    """

    def __init__(self, read: Callable[[str], Awaitable[Definition | None]]) -> None:
        self._read = read
        self._current: dict[str, asyncio.Task[Definition | None]] = {}
        self._next: dict[str, asyncio.Task[Definition | None]] = {}

    async def read(self, name: str) -> Definition | None:
        """Return what a queue or a topic is now; None if there is none of that name."""
        if (task := self._next.get(name)) is None:
            task = self._next[name] = asyncio.create_task(self._read_after(name, self._current.get(name)))
            task.add_done_callback(_heard)
        return await asyncio.shield(task)

    async def _read_after(self, name: str, current: "asyncio.Task[Definition | None] | None") -> Definition | None:
        if current is not None:
            await asyncio.wait([current])
        self._current[name] = task = self._next.pop(name)
        try:
            return await self._read(name)
        finally:
            if self._current[name] is task:
                del self._current[name]


def _heard(task: "asyncio.Task[Definition | None]") -> None:
    if not task.cancelled():
        task.exception()  # all who wanted it may have left


def _definition(found: Stored) -> Definition | None:
    if GONE in found.headers:
        return None
    values: list[Any] = json.loads(found.body)
    return replace(Definition(*values), sequence=found.sequence)
