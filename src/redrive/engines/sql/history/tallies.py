# SPDX-License-Identifier: MIT
"""Adding to tallies, in SQL. Every engine loads this module, so it needs nothing of the history's own code."""

from collections.abc import Mapping

from redrive.broker.tallies import Key
from redrive.engines.sql.script import Many, Script, now, plain

MINUTE = 60

ADD = (
    "INSERT INTO @.tallies AS t (topic, name, metric, step, began, n) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (topic, name, metric, step, began) DO UPDATE SET n = t.n + excluded.n"
)
RAISE = ADD.replace("t.n + excluded.n", "CASE WHEN excluded.n > t.n THEN excluded.n ELSE t.n END")


def add(counts: Mapping[Key, int]) -> Script[None]:
    """Count for the minute that it is now; in the order of their names, so that two processes never block each other.

    It may be part of a larger transaction, such as the one that does what is counted.
    """
    time = yield from now()
    yield Many(ADD, rows_of(counts, minute_of(time)))


def rows_of(counts: Mapping[Key, int], minute: int) -> list[tuple[object, ...]]:
    """Return the rows of numbers that were counted in a minute."""
    listed = [(*(plain(word) for word in key), MINUTE, minute, count) for key, count in counts.items() if count]
    return sorted(listed)


def minute_of(time: float) -> int:
    """Return when the minute of a time began."""
    return int(time // MINUTE) * MINUTE
