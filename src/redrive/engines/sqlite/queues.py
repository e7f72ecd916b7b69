# SPDX-License-Identifier: MIT
"""The queues of a SQLite database, kept in memory until a process changes them."""

import math
import sqlite3
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from redrive.broker import rules
from redrive.broker.port import QueueSettings, Rule, TopicSettings
from redrive.broker.topics import name_is_taken, subscription_queue
from redrive.engines.fan_out import Topic
from redrive.errors import NotAQueue, QueueNotFound, SubscriptionNotFound, TopicNotFound

_MOST_TO_COMPARE = 1_000
"""With how many names one that is not there is compared."""


@dataclass(slots=True)
class QueueRow:
    """A queue as the engine needs it.

    Attributes:
        id: its number.
        name: its name.
        settings: how it behaves.
        dead_id: the number of its dead-letter queue; its own, if it is one.
        used_at: when its last use was stored.
        use_granularity_s: how old that may be before it is stored again.
        longest_wait_s: how long a receiver may wait without asking: asking is what counts as use.
        topic: its subscriptions, if it is a topic.
        subscribes: the number of its topic, if it is a subscription.
        rule: and which messages it gets.
        is_plain: whether a message needs nothing from it: no time to live, no session, no fan-out.
        notes: whether the journeys of messages that have trouble are noted.
        follows: the share of the others whose journeys are noted.
    """

    id: int
    name: str
    settings: QueueSettings
    dead_id: int
    used_at: float
    topic: "Topic[QueueRow] | None" = None
    subscribes: int | None = None
    rule: Rule | None = None
    use_granularity_s: float = field(init=False)
    longest_wait_s: float = field(init=False)
    is_plain: bool = field(init=False)
    notes: bool = field(init=False)
    follows: float = field(init=False)

    def __post_init__(self) -> None:
        self.use_granularity_s = rules.use_granularity_s(self.settings.auto_delete_on_idle)
        self.longest_wait_s = rules.longest_wait_s(self.settings.auto_delete_on_idle)
        settings = self.settings
        self.notes, self.follows = settings.journey != "none", settings.follows
        self.is_plain = settings.default_ttl is None and not settings.requires_session and self.topic is None


class Queues:
    """What the table of queues says. What others have changed is read again; if they have deleted some, all of it.

    Attributes:
        is_changed: whether the transaction has changed them; the code that begins one sets it to False.
        is_following: whether there is, or was, a queue that notes messages without trouble.
    """

    def __init__(self) -> None:
        self._version = -1
        self._deleted = -1
        self.is_changed = False
        self.is_following = False
        self._by_name: dict[str, QueueRow] = {}
        self._by_id: dict[int, QueueRow] = {}

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Make sure that what is in memory is what the database says, in this transaction."""
        counters = dict(connection.execute("SELECT name, value FROM redrive_counters").fetchall())
        if self._version < 0 or counters["queues_deleted"] != self._deleted:
            self._by_name, self._by_id = {}, {}
            self._read(connection, since=-1)
        elif counters["queues_version"] != self._version:
            self._read(connection, since=self._version)
        self._version, self._deleted = counters["queues_version"], counters["queues_deleted"]

    def forget(self) -> None:
        """Read everything again next time if the transaction has changed it: it was rolled back."""
        if self.is_changed:
            self._version = -1

    def get(self, name: str) -> QueueRow:
        """Return a queue by its name."""
        try:
            return self._by_name[name]
        except (KeyError, TypeError):
            raise QueueNotFound(name, self.similar(name)) from None

    def similar(self, name: str) -> str | None:
        """Return the name of a queue that was perhaps meant."""
        named = [known for known in islice(self._by_name, _MOST_TO_COMPARE) if not rules.is_dead_letter_queue(known)]
        return rules.similar(name, named) if isinstance(name, str) else None

    def has(self, name: str) -> bool:
        """Say whether there is a queue of that name."""
        return name in self._by_name

    def longest_wait_s(self, name: str) -> float:
        """Return how long a receiver may wait without asking."""
        queue = self._by_name.get(name)
        return math.inf if queue is None else queue.longest_wait_s

    def by_id(self, queue_id: int) -> QueueRow:
        """Return a queue by its number."""
        return self._by_id[queue_id]

    def all(self) -> list[QueueRow]:
        """Return the queues, dead-letter queues among them."""
        return list(self._by_name.values())

    def queue(self, name: str) -> QueueRow:
        """Return a queue that holds messages, by its name."""
        found = self.get(name)
        if found.topic is not None:
            raise NotAQueue(name, tuple(queue.name for _, queue in found.topic.subscriptions.values()))
        return found

    def topic(self, name: str) -> tuple[QueueRow, Topic[QueueRow]]:
        """Return a topic by its name."""
        found = self._by_name.get(name)
        if found is None or found.topic is None:
            raise TopicNotFound(name, is_queue=found is not None)
        return found, found.topic

    def create(self, connection: sqlite3.Connection, name: str, settings: QueueSettings, now: float) -> bool:
        """Add a queue and its dead-letter queue; False if it is there."""
        if name in self._by_name:
            self.queue(name)  # which raises if it is a topic
            return False
        self._create(connection, QueueRow(0, name, settings, 0, now))
        return True

    def create_topic(self, connection: sqlite3.Connection, name: str, settings: TopicSettings, now: float) -> bool:
        """Add a topic and its dead-letter queue; False if it is there."""
        if name in self._by_name:
            self.topic(name)  # which raises if it is a queue
            return False
        self._create(connection, QueueRow(0, name, settings.of_queue(), 0, now, Topic(settings)))
        return True

    def create_subscription(
        self, connection: sqlite3.Connection, topic: str, name: str, rule: Rule, settings: QueueSettings, *, now: float
    ) -> bool:
        """Add a subscription, or give it another rule; False if it was there."""
        of, _ = self.topic(topic)
        queue = self._by_name.get(subscription_queue(topic, name))
        if queue is None:
            queue = QueueRow(0, subscription_queue(topic, name), settings, 0, now, None, of.id, rule)
            self._create(connection, queue)
            return True
        if queue.subscribes != of.id:
            raise name_is_taken(queue.name)
        self._count_change(connection)
        change = "UPDATE redrive_queues SET rule = ?, version = ? WHERE id = ?"
        connection.execute(change, (rule.to_json(), self._version, queue.id))
        self._add(replace(queue, rule=rule))
        return False

    def subscription(self, topic: str, name: str) -> str:
        """Return the name of a subscription's queue."""
        of, _ = self.topic(topic)
        queue = self._by_name.get(subscription_queue(topic, name))
        if queue is None or queue.subscribes != of.id:
            raise SubscriptionNotFound(topic, name)
        return queue.name

    def _create(self, connection: sqlite3.Connection, queue: QueueRow) -> None:
        self._count_change(connection)
        of_dead, dead_name = queue.settings.of_dead_letters(), rules.dead_letter_queue(queue.name)
        queue.id = self._insert(connection, queue, None)
        dead = QueueRow(0, dead_name, of_dead, 0, queue.used_at)
        queue.dead_id = dead.id = dead.dead_id = self._insert(connection, dead, queue.id)
        self._add(queue)
        self._add(dead)

    def _insert(self, connection: sqlite3.Connection, queue: QueueRow, source: int | None) -> int:
        insert = (
            "INSERT INTO redrive_queues"
            " (name, source, settings, created_at, used_at, version, topic, subscribes, rule)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        values = (
            queue.name,
            source,
            queue.settings.to_json(),
            queue.used_at,
            queue.used_at,
            self._version,
            None if queue.topic is None else queue.topic.settings.to_json(),
            queue.subscribes,
            None if queue.rule is None else queue.rule.to_json(),
        )
        row: Any = connection.execute(insert, values).lastrowid
        number: int = row
        return number

    def change(self, connection: sqlite3.Connection, name: str, settings: QueueSettings) -> None:
        """Store a queue's new settings."""
        queue = self.queue(name)
        self._change(connection, replace(queue, settings=queue.settings.changed(settings)))

    def change_topic(self, connection: sqlite3.Connection, name: str, settings: TopicSettings) -> None:
        """Store a topic's new settings."""
        queue, topic = self.topic(name)
        changed = Topic(settings, topic.subscriptions)
        self._change(connection, replace(queue, settings=settings.of_queue(), topic=changed))

    def _change(self, connection: sqlite3.Connection, queue: QueueRow) -> None:
        self._count_change(connection)
        topic = None if queue.topic is None else queue.topic.settings.to_json()
        change = "UPDATE redrive_queues SET settings = ?, topic = ?, version = ? WHERE id = ?"
        connection.execute(change, (queue.settings.to_json(), topic, self._version, queue.id))
        self._add(queue)

    def remove(self, connection: sqlite3.Connection, name: str) -> list[QueueRow]:
        """Take a queue away, with its dead-letter queue and, if it is a topic, its subscriptions; return them all."""
        queue = self.get(name)
        rules.check_deletable(name)
        below = [] if queue.topic is None else [each for _, each in queue.topic.subscriptions.values()]
        gone = [each for one in (queue, *below) for each in (one, self._by_id[one.dead_id])]
        connection.executemany("DELETE FROM redrive_queues WHERE id = ?", [(each.id,) for each in reversed(gone)])
        self._count_change(connection)
        connection.execute("UPDATE redrive_counters SET value = value + 1 WHERE name = 'queues_deleted'")
        self._deleted += 1
        for each in gone:
            del self._by_id[each.id], self._by_name[each.name]
        if (topic := self._by_id.get(queue.subscribes or 0)) is not None and topic.topic is not None:
            del topic.topic.subscriptions[queue.id]
        return gone

    def _count_change(self, connection: sqlite3.Connection) -> None:
        """Let others read the queues again. What is in memory is changed alike, which takes no reading of them all."""
        connection.execute("UPDATE redrive_counters SET value = value + 1 WHERE name = 'queues_version'")
        self._version += 1
        self.is_changed = True

    def _add(self, queue: QueueRow) -> None:
        self._by_name[queue.name] = self._by_id[queue.id] = queue
        self.is_following = self.is_following or queue.follows > 0
        if queue.subscribes is not None and queue.rule is not None:
            topic = self._by_id[queue.subscribes].topic
            if topic is not None:
                topic.subscriptions[queue.id] = (queue.rule, queue)

    def _read(self, connection: sqlite3.Connection, since: int) -> None:
        """Read the queues that have changed since a version; a topic comes before its subscriptions."""
        read = (
            "SELECT id, name, source, settings, used_at, topic, subscribes, rule FROM redrive_queues"
            " WHERE version > ? ORDER BY id"
        )
        rows = connection.execute(read, (since,)).fetchall()
        dead = {source: queue_id for queue_id, _, source, *_ in rows if source is not None}
        for queue_id, name, _, settings, used_at, topic, subscribes, rule in rows:
            known = self._by_id.get(queue_id)
            dead_id = dead.get(queue_id, queue_id if known is None else known.dead_id)
            of_topic: Topic[QueueRow] | None = None
            if topic is not None:
                before = None if known is None else known.topic
                of_topic = Topic(TopicSettings.from_json(topic), {} if before is None else before.subscriptions)
            of_rule = None if rule is None else Rule.from_json(rule)
            of_queue = QueueSettings.from_json(settings)
            self._add(QueueRow(queue_id, name, of_queue, dead_id, used_at, of_topic, subscribes, of_rule))
