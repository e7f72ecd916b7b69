# SPDX-License-Identifier: MIT
"""Samples of operations, in SQL: what has become of their messages, every five seconds while that changes."""

import json
from collections.abc import Mapping, Sequence

from redrive.clock import utc
from redrive.engines.sql.script import Many, Script, Sql, now
from redrive.history import OperationSample
from redrive.recovery import Outcome

_AFTER_END_S = 3_600.0
"""For how long after its end an operation is looked at: what became of its messages may be known later."""
_AT_ONCE = 20


def changed() -> Script[dict[int, str]]:
    """Return what has become of the messages of operations, by their numbers, if that is not what is known."""
    time = yield from now()
    rows = yield Sql(
        "SELECT number FROM @.operations WHERE ended_at IS NULL OR ended_at > ? ORDER BY number DESC LIMIT ?",
        [time - _AFTER_END_S, _AT_ONCE],
    )
    found: dict[int, str] = {}
    for (number,) in rows:
        text = yield from _counted(number)
        known = yield Sql(
            "SELECT counts FROM @.operation_samples WHERE operation = ? ORDER BY at DESC LIMIT 1", [number]
        )
        if all(counts != text for (counts,) in known):
            found[number] = text
    return found


def _counted(number: int) -> Script[str]:
    rows = yield Sql(
        "SELECT coalesce(b.lane, '') AS lane, p.outcome, count(*) AS n FROM @.parts p"
        " LEFT JOIN @.operation_batches b ON b.batch = p.batch WHERE p.operation = ?"
        " GROUP BY coalesce(b.lane, ''), p.outcome",
        [number],
    )
    lanes: dict[str, dict[str, int]] = {}
    for lane, outcome, n in rows:
        lanes.setdefault(lane, {})[str(outcome)] = n
    return json.dumps(lanes, sort_keys=True)


def keep(found: Mapping[int, str]) -> Script[None]:
    """Keep what has become of messages; of several processes that found the same, one does."""
    time = yield from now()
    at = float(int(time // 5) * 5)
    yield Many(
        "INSERT INTO @.operation_samples (operation, at, counts) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(number, at, text) for number, text in sorted(found.items())],
    )


def samples(number: int) -> Script[list[OperationSample]]:
    """Return the samples of an operation, the oldest first; the last one is what is so now, counted from the rows."""
    rows = yield Sql("SELECT at, counts FROM @.operation_samples WHERE operation = ? ORDER BY at", [number])
    found = [(at, counts) for at, counts in rows]
    countable = yield Sql(
        "SELECT 1 FROM @.operations o WHERE o.number = ? AND (o.ended_at IS NULL"
        " OR EXISTS (SELECT 1 FROM @.operation_batches b WHERE b.operation = o.number))",
        [number],
    )
    if countable:  # the destinations of operations that ended long ago are forgotten
        counts = yield from _counted(number)
        if not found or found[-1][1] != counts:
            found.append(((yield from now()), counts))
    return [OperationSample(at=utc(at), lanes=_lanes(counts)) for at, counts in found]


def _lanes(text: str) -> dict[str, dict[Outcome, int]]:
    return {
        lane: {Outcome(int(outcome)): n for outcome, n in counts.items()} for lane, counts in json.loads(text).items()
    }


def forget(operations: Sequence[int]) -> Script[None]:
    """Remove the samples of operations."""
    yield Sql("DELETE FROM @.operation_samples WHERE operation IN @ints", [list(operations)])
    yield Sql("DELETE FROM @.operation_batches WHERE operation IN @ints", [list(operations)])


def old(keep_s: float, limit: int = 100) -> Script[list[int]]:
    """Return operations that ended so long ago that their samples are removed."""
    time = yield from now()
    rows = yield Sql(
        "SELECT DISTINCT s.operation FROM @.operation_batches s JOIN @.operations o ON o.number = s.operation"
        " WHERE o.ended_at < ? LIMIT ?",
        [time - keep_s, limit],
    )
    return [number for (number,) in rows]
