# SPDX-License-Identifier: MIT
"""The queues of a PostgreSQL schema, kept in memory until a process changes them."""

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from redrive.broker import rules
from redrive.broker.port import QueueSettings, Rule, TopicSettings
from redrive.broker.topics import name_is_taken, subscription_queue
from redrive.clock import Clock
from redrive.engines.fan_out import Topic
from redrive.engines.postgres.driver import Connection, Row
from redrive.engines.stored import dead_letter_json
from redrive.errors import NotAQueue, QueueNotFound, SubscriptionNotFound, TopicNotFound

_MANY_QUEUES = 10_000

COLUMNS = "q.id, q.name, q.version, q.settings, q.dead, q.topic, q.subscribes, q.rule"
"""What is read of a queue."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as the engine needs it.

    Attributes:
        id: its number.
        name: its name.
        settings: how it behaves.
        version: which settings these are; the database refuses a call that is based on other settings.
        dead: the number of its dead-letter queue.
        topic: its subscriptions, if it is a topic.
        subscribes: the number of its topic, if it is a subscription.
        is_plain: whether a message needs nothing from it: no time to live, no session, no duplicates to look for.
        follows: whether journeys of messages without trouble are noted in it, or in a subscription of it.
    """

    id: int
    name: str
    settings: QueueSettings
    version: int
    dead: int
    topic: "Topic[Queue] | None" = None
    subscribes: int | None = None
    is_plain: bool = field(init=False)
    follows: bool = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        needs = settings.default_ttl is not None or settings.duplicate_detection is not None
        reached = [] if self.topic is None else [each.follows for _, each in self.topic.subscriptions.values()]
        object.__setattr__(self, "follows", settings.follows > 0 or any(reached))
        object.__setattr__(self, "is_plain", not needs and not settings.requires_session and self.topic is None)

    @property
    def use_granularity_s(self) -> float:
        """How exactly its last use is stored."""
        return rules.use_granularity_s(self.settings.auto_delete_on_idle)


class Queues:
    """The queues that this process uses, as they were when they were read."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._by_name: dict[str, Queue] = {}

    def get(self, name: str) -> Queue:
        """Return a queue by its name, if it was there when it was read."""
        try:
            return self._by_name[name]
        except (KeyError, TypeError):  # TypeError: it is no text, nor anything else that could be a name
            raise QueueNotFound(name) from None

    def queue(self, name: str) -> Queue:
        """Return a queue that holds messages, by its name."""
        return check_is_queue(self.get(name))

    def knows(self, name: str) -> bool:
        """Say whether a queue was there when it was read."""
        return name in self._by_name

    def longest_wait_s(self, name: str) -> float:
        """Return how long a receiver may wait without asking again."""
        queue = self._by_name.get(name)
        return math.inf if queue is None else rules.longest_wait_s(queue.settings.auto_delete_on_idle)

    def forget(self, names: Iterable[str]) -> None:
        """Forget some queues, so that the next call that needs them reads them again."""
        for name in names:
            self._by_name.pop(name, None)

    def forget_all(self) -> None:
        """Forget all queues, so that the next call that needs one reads it again."""
        self._by_name.clear()

    async def load(self, read: Callable[..., Awaitable[Sequence[Row]]], names: Iterable[str]) -> None:
        """Read some queues again."""
        wanted = [name for name in names if rules.is_queue_name(name)]
        found = await queues_of(read, "q.name = ANY ($1)", wanted)
        self.forget(wanted)
        self._by_name.update({queue.name: queue for queue in found})

    async def create(self, connection: Connection, name: str, settings: QueueSettings, now: float | None) -> bool:
        """Add a queue and its dead-letter queue; False if it is there."""
        if await self._create(connection, name, settings, now) is not None:
            return True
        check_is_queue((await queues_of(self._reader(connection), "q.name = $1", name))[0])
        return False

    async def create_topic(self, connection: Connection, name: str, settings: TopicSettings, now: float | None) -> bool:
        """Add a topic and its dead-letter queue; False if it is there."""
        if await self._create(connection, name, settings.of_queue(), now, topic=settings.to_json()) is not None:
            return True
        await self._topic(connection, name)
        return False

    async def create_subscription(
        self, connection: Connection, topic: str, name: str, rule: Rule, settings: QueueSettings, *, now: float | None
    ) -> bool:
        """Add a subscription, or give it another rule; False if it was there."""
        of, queue = await self._topic(connection, topic), subscription_queue(topic, name)
        created = await self._create(connection, queue, settings, now, subscribes=of.id, rule=rule.to_json())
        if created is None:
            change = "UPDATE @.queues SET rule = $3, version = version + 1 WHERE name = $1 AND subscribes = $2"
            if await connection.execute(self._sql(change), queue, of.id, rule.to_json()) == "UPDATE 0":
                raise name_is_taken(queue)
        await self._count_change(connection, of.id)
        return created is not None

    async def _create(
        self, connection: Connection, name: str, settings: QueueSettings, now: float | None, **more: object
    ) -> int | None:
        source = await self._insert(connection, name, None, now, _columns(name, settings) | more)
        if source is None:
            return None
        dead_name = rules.dead_letter_queue(name)
        dead = await self._insert(connection, dead_name, source, now, _columns(dead_name, settings.of_dead_letters()))
        await connection.execute(self._sql("UPDATE @.queues SET dead = $1 WHERE id IN ($1, $2)"), dead, source)
        return source

    async def _insert(
        self, connection: Connection, name: str, source: int | None, now: float | None, values: dict[str, Any]
    ) -> int | None:
        places = ", ".join(f"${number}" for number in range(4, 4 + len(values)))
        found: int | None = await connection.fetchval(
            self._sql(
                f"INSERT INTO @.queues (name, source, created_at, used_at, {', '.join(values)})"
                f" VALUES ($1, $2, @.instant($3), @.instant($3), {places}) ON CONFLICT (name) DO NOTHING RETURNING id"
            ),
            name,
            source,
            now,
            *values.values(),
        )
        return found

    async def change(self, connection: Connection, name: str, settings: QueueSettings) -> None:
        """Store a queue's new settings."""
        check_findable(name)
        found = await queues_of(self._reader(connection), "q.name = $1 FOR UPDATE", name)
        if not found:
            raise QueueNotFound(name)
        check_is_queue(found[0])
        await self._change(connection, name, _columns(name, found[0].settings.changed(settings)))

    async def change_topic(self, connection: Connection, name: str, settings: TopicSettings) -> None:
        """Store a topic's new settings."""
        await self._topic(connection, name)
        await self._change(connection, name, _columns(name, settings.of_queue()) | {"topic": settings.to_json()})

    async def _change(self, connection: Connection, name: str, values: dict[str, Any]) -> None:
        changes = ", ".join(f"{column} = ${place}" for place, column in enumerate(values, 2))
        await connection.execute(
            self._sql(f"UPDATE @.queues SET version = version + 1, {changes} WHERE name = $1"),
            name,
            *values.values(),
        )

    async def remove(self, connection: Connection, name: str) -> None:
        """Take a queue, its dead-letter queue and all they hold away; of a topic, its subscriptions, too."""
        check_findable(name)
        rules.check_deletable(name)
        found = await queues_of(self._reader(connection), "q.name = $1", name)
        if not found:
            raise QueueNotFound(name)
        await connection.execute(self._sql("SELECT @.delete_queue($1)"), found[0].id)
        if found[0].subscribes is not None:
            await self._count_change(connection, found[0].subscribes)

    async def remove_subscription(self, connection: Connection, topic: str, name: str) -> None:
        """Take a subscription and all its queue holds away."""
        of, queue = await self._topic(connection, topic), subscription_queue(topic, name)
        found = await queues_of(self._reader(connection), "q.name = $1 AND q.subscribes = $2", queue, of.id)
        if not found:
            raise SubscriptionNotFound(topic, name)
        await self.remove(connection, queue)

    async def _topic(self, connection: Connection, name: str) -> Queue:
        """Return a topic; no other transaction changes it or its subscriptions meanwhile."""
        found = await queues_of(self._reader(connection), "q.name = $1 FOR UPDATE", name)
        if not found or found[0].topic is None:
            raise TopicNotFound(name, is_queue=bool(found))
        return found[0]

    async def _count_change(self, connection: Connection, topic: int) -> None:
        """Have calls that are based on the subscriptions from before refused."""
        await connection.execute(self._sql("UPDATE @.queues SET version = version + 1 WHERE id = $1"), topic)

    def _reader(self, connection: Connection) -> Callable[..., Awaitable[Sequence[Row]]]:
        async def read(text: str, *values: object) -> Sequence[Row]:
            found: Sequence[Row] = await connection.fetch(self._sql(text), *values)
            return found

        return read

    def _sql(self, text: str) -> str:
        return text.replace("@.", f"{self._schema}.")


class Uses:
    """When this process last stored that a queue was used."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted_at: dict[int, float] = {}

    def worth_noting(self, used: Iterable[Queue]) -> list[int]:
        """Return the queues whose use has not been stored for a while."""
        now = self._clock.time()
        return sorted(
            queue.id
            for queue in used
            if not 0 <= now - self._noted_at.get(queue.id, -math.inf) < queue.use_granularity_s
        )

    def note(self, used: Iterable[int]) -> None:
        """Remember that a use was stored."""
        if len(self._noted_at) > _MANY_QUEUES:
            self._noted_at.clear()
        self._noted_at.update(dict.fromkeys(used, self._clock.time()))


def is_text(name: str) -> bool:
    """Say whether PostgreSQL can store or compare a text: it has no NUL, and no half of a surrogate pair."""
    if not isinstance(name, str) or "\0" in name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_findable(name: str) -> None:
    """See that there could be a queue of this name."""
    if not rules.is_queue_name(name):
        raise QueueNotFound(name)


def check_is_queue(queue: Queue) -> Queue:
    """Return a queue, if it is not a topic."""
    if queue.topic is not None:
        raise NotAQueue(queue.name, tuple(each.name for _, each in queue.topic.subscriptions.values()))
    return queue


async def queues_of(read: Callable[..., Awaitable[Sequence[Row]]], condition: str, *values: object) -> list[Queue]:
    """Read the queues that satisfy a condition, topics with their subscriptions."""
    rows = await read(f"SELECT {COLUMNS} FROM @.queues q WHERE {condition}", *values)
    topics = [row["id"] for row in rows if row["topic"] is not None]
    below: Sequence[Row] = ()
    if topics:
        below = await read(f"SELECT {COLUMNS} FROM @.queues q WHERE q.subscribes = ANY ($1) ORDER BY q.id", topics)
    return [_queue(row, [each for each in below if each["subscribes"] == row["id"]]) for row in rows]


def _queue(row: Row, below: Sequence[Row] = ()) -> Queue:
    topic: Topic[Queue] | None = None
    if row["topic"] is not None:
        subscriptions = {each["id"]: (Rule.from_json(each["rule"]), _queue(each)) for each in below}
        topic = Topic(TopicSettings.from_json(row["topic"]), subscriptions)
    return Queue(row["id"], row["name"], settings_of(row), row["version"], row["dead"], topic, row["subscribes"])


def settings_of(row: Row) -> QueueSettings:
    """Return the settings in a row of the table."""
    return QueueSettings.from_json(row["settings"])


def _columns(name: str, settings: QueueSettings) -> dict[str, Any]:
    source = rules.source_queue(name)
    over_delivered = rules.over_delivered_text(settings.max_delivery_count)
    return {
        "settings": settings.to_json(),
        "over_delivered": dead_letter_json(rules.MAX_DELIVERY_COUNT_EXCEEDED, over_delivered, source),
        "expired": dead_letter_json(rules.TTL_EXPIRED, rules.EXPIRED_TEXT, source),
    }
