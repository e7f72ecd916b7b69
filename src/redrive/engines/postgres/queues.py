# SPDX-License-Identifier: MIT
"""The queues of a PostgreSQL schema, kept in memory until a process changes them."""

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redrive.broker import rules
from redrive.broker.port import QueueSettings
from redrive.clock import Clock
from redrive.engines.postgres.driver import Connection, Row
from redrive.engines.stored import dead_letter_json
from redrive.errors import QueueNotFound

_MANY_QUEUES = 10_000

COLUMNS = "q.id, q.name, q.version, q.settings"
"""What is read of a queue."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as the engine needs it.

    Attributes:
        id: its number.
        name: its name.
        settings: how it behaves.
        version: which settings these are; the database refuses a call that is based on other settings.
    """

    id: int
    name: str
    settings: QueueSettings
    version: int

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
        rows = await read(f"SELECT {COLUMNS} FROM @.queues q WHERE q.name = ANY ($1)", wanted)
        self.forget(wanted)
        self._by_name.update({row["name"]: queue_of(row) for row in rows})

    async def create(self, connection: Connection, name: str, settings: QueueSettings, now: float | None) -> bool:
        """Add a queue and its dead-letter queue; False if it is there."""
        source = await self._insert(connection, name, None, settings, now)
        if source is None:
            return False
        of_dead = settings.of_dead_letters()
        dead = await self._insert(connection, rules.dead_letter_queue(name), source, of_dead, now)
        await connection.execute(self._sql("UPDATE @.queues SET dead = $1 WHERE id IN ($1, $2)"), dead, source)
        return True

    async def _insert(
        self,
        connection: Connection,
        name: str,
        source: int | None,
        settings: QueueSettings,
        now: float | None,
    ) -> int | None:
        values = _columns(name, settings)
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
        row = await connection.fetchrow(
            self._sql(f"SELECT {COLUMNS} FROM @.queues q WHERE q.name = $1 FOR UPDATE"), name
        )
        if row is None:
            raise QueueNotFound(name)
        values = _columns(name, settings_of(row).changed(settings))
        changes = ", ".join(f"{column} = ${place}" for place, column in enumerate(values, 2))
        await connection.execute(
            self._sql(f"UPDATE @.queues SET version = version + 1, {changes} WHERE name = $1"),
            name,
            *values.values(),
        )

    async def remove(self, connection: Connection, name: str) -> None:
        """Take a queue, its dead-letter queue and all they hold away."""
        check_findable(name)
        rules.check_deletable(name)
        found = await connection.execute(
            self._sql("SELECT @.delete_queue(q.id) FROM @.queues q WHERE q.name = $1"), name
        )
        if found == "SELECT 0":
            raise QueueNotFound(name)

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


def queue_of(row: Row) -> Queue:
    """Return the queue in a row of ``COLUMNS``."""
    return Queue(row["id"], row["name"], settings_of(row), row["version"])


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
