# SPDX-License-Identifier: MIT
"""The queues of a SQLite database, kept in memory until a process changes them."""

import math
import sqlite3
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from redrive.broker import rules
from redrive.broker.port import QueueSettings
from redrive.errors import QueueNotFound

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
        is_plain: whether a message needs nothing from it: no time to live, no session.
    """

    id: int
    name: str
    settings: QueueSettings
    dead_id: int
    used_at: float
    use_granularity_s: float = field(init=False)
    longest_wait_s: float = field(init=False)
    is_plain: bool = field(init=False)

    def __post_init__(self) -> None:
        self.use_granularity_s = rules.use_granularity_s(self.settings.auto_delete_on_idle)
        self.longest_wait_s = rules.longest_wait_s(self.settings.auto_delete_on_idle)
        self.is_plain = self.settings.default_ttl is None and not self.settings.requires_session


class Queues:
    """What the table of queues says. What others have changed is read again; if they have deleted some, all of it.

    Attributes:
        is_changed: whether the transaction has changed them; the code that begins one sets it to False.
    """

    def __init__(self) -> None:
        self._version = -1
        self._deleted = -1
        self.is_changed = False
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

    def create(self, connection: sqlite3.Connection, name: str, settings: QueueSettings, now: float) -> bool:
        """Add a queue and its dead-letter queue; False if it is there."""
        if name in self._by_name:
            return False
        self._count_change(connection)
        of_dead, dead_name = settings.of_dead_letters(), rules.dead_letter_queue(name)
        source = self._insert(connection, name, None, settings, now)
        dead = self._insert(connection, dead_name, source, of_dead, now)
        self._add(QueueRow(source, name, settings, dead, now))
        self._add(QueueRow(dead, dead_name, of_dead, dead, now))
        return True

    def _insert(
        self, connection: sqlite3.Connection, name: str, source: int | None, settings: QueueSettings, now: float
    ) -> int:
        insert = (
            "INSERT INTO redrive_queues (name, source, settings, created_at, used_at, version)"
            " VALUES (?, ?, ?, ?, ?, ?)"
        )
        row: Any = connection.execute(insert, (name, source, settings.to_json(), now, now, self._version)).lastrowid
        number: int = row
        return number

    def change(self, connection: sqlite3.Connection, name: str, settings: QueueSettings) -> None:
        """Store a queue's new settings."""
        queue = self.get(name)
        stored = queue.settings.changed(settings).to_json()
        self._count_change(connection)
        change = "UPDATE redrive_queues SET settings = ?, version = ? WHERE id = ?"
        connection.execute(change, (stored, self._version, queue.id))
        self._add(QueueRow(queue.id, name, settings, queue.dead_id, queue.used_at))

    def remove(self, connection: sqlite3.Connection, name: str) -> tuple[int, int]:
        """Take a queue and its dead-letter queue away; return their numbers."""
        queue = self.get(name)
        rules.check_deletable(name)
        connection.execute("DELETE FROM redrive_queues WHERE id IN (?, ?)", (queue.dead_id, queue.id))
        self._count_change(connection)
        connection.execute("UPDATE redrive_counters SET value = value + 1 WHERE name = 'queues_deleted'")
        self._deleted += 1
        for gone in (self._by_id.pop(queue.id), self._by_id.pop(queue.dead_id)):
            del self._by_name[gone.name]
        return queue.id, queue.dead_id

    def _count_change(self, connection: sqlite3.Connection) -> None:
        """Let others read the queues again. What is in memory is changed alike, which takes no reading of them all."""
        connection.execute("UPDATE redrive_counters SET value = value + 1 WHERE name = 'queues_version'")
        self._version += 1
        self.is_changed = True

    def _add(self, queue: QueueRow) -> None:
        self._by_name[queue.name] = self._by_id[queue.id] = queue

    def _read(self, connection: sqlite3.Connection, since: int) -> None:
        """Read the queues that have changed since a version."""
        read = "SELECT id, name, source, settings, used_at FROM redrive_queues WHERE version > ?"
        rows = connection.execute(read, (since,)).fetchall()
        dead = {source: queue_id for queue_id, _, source, _, _ in rows if source is not None}
        for queue_id, name, _, settings, used_at in rows:
            known = self._by_id.get(queue_id)
            dead_id = dead.get(queue_id, queue_id if known is None else known.dead_id)
            self._add(QueueRow(queue_id, name, QueueSettings.from_json(settings), dead_id, used_at))
