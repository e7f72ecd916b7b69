# SPDX-License-Identifier: MIT
"""Failed messages in SQL: finding them, and forgetting them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from redrive.clock import utc
from redrive.engines import stored
from redrive.engines.sql.recovery import attempt_details, traces
from redrive.engines.sql.recovery.audit import notes
from redrive.engines.sql.recovery.failure_records import next_change
from redrive.engines.sql.recovery.filter_sql import Condition, condition
from redrive.engines.sql.recovery.state_sql import among
from redrive.engines.sql.script import Row, Script, Sql, scalar, scalars, values_of
from redrive.recovery.port import (
    CLAIMS,
    ENDED,
    SETTLED,
    START,
    FailedAttempt,
    FailedDetail,
    FailedMessage,
    Filter,
    Order,
    Outcome,
    Part,
    Place,
    Status,
)

_AFTER_HEX = "g"
"""Ids are hexadecimal, so ids that begin with a text sort before that text followed by this letter."""

_CLAIM = f"SELECT p.operation FROM @.parts p WHERE p.failure = f.number AND {among('p.outcome', CLAIMS)}"


# --- finding

_FIELDS = {
    "number": "f.number",
    "id": "c.id",
    "message_id": "c.message_id",
    "queue": "f.queue",
    "status": "f.status",
    "message_type": "f.message_type",
    "exception_type": "f.exception_type",
    "exception_message": "c.exception_message",
    "group": "f.exception_group",
    "attempts": "f.attempts",
    "first_failed_at": "f.first_failed_at",
    "failed_at": "f.failed_at",
    "operation": f"coalesce(({_CLAIM}), f.operation)",
    "edit_of": "f.edit_of",
    "edited_as": "f.edited_as",
    "source": "f.source",
}
"""The fields of a ``FailedMessage``, and where each of them is stored."""

_COLUMNS = ", ".join(f'{place} AS "{name}"' for name, place in _FIELDS.items())
SUMMARY = f"SELECT {_COLUMNS} FROM @.failures f JOIN @.failure_contents c ON c.number = f.number"
"""Reads failed messages as lists show them."""


class Ordered(NamedTuple):
    """An order in SQL: by what, and what comes after a place."""

    by: str
    after: str


ORDERS = {
    Order.OLDEST: Ordered("f.number", "f.number > ?"),
    Order.NEWEST: Ordered("f.number DESC", "f.number < ?"),
    Order.LAST_FAILED: Ordered("f.failed_at DESC, f.number DESC", "(f.failed_at, f.number) < (?, ?)"),
}


def find(
    chosen: Filter, *, after: Place = START, limit: int = 100, order: Order = Order.OLDEST
) -> Script[list[FailedMessage]]:
    """Return failed messages in an order."""
    found = beyond((yield from condition(chosen)), after, order)
    if order is Order.LAST_FAILED and _is_of_some_kinds(chosen):
        found = Condition("f.number IN @ints", [(yield from _last_failed(chosen, found, after, limit))])
    rows = yield Sql(f"{SUMMARY} WHERE {found.text} ORDER BY {ORDERS[order].by} LIMIT ?", [*found.values, limit])
    return [summary_of(row) for row in rows]


def _is_of_some_kinds(chosen: Filter) -> bool:
    """Say whether a filter means the messages of some kinds, not all of them, in a status that has an index."""
    is_indexed = len(chosen.status) == 1 and Status.RETRY_ISSUED not in chosen.status
    return is_indexed and chosen.is_about_kinds and chosen != Filter(status=chosen.status)


_NEAR = 10_000


def _last_failed(chosen: Filter, found: Condition, after: Place, limit: int) -> Script[list[int]]:
    """Return the numbers of the messages of some kinds that failed last.

    There is an index in that order for all messages of a status, and none for those of one group or queue. So they are
    looked for among the first few of all. If too few are there, all messages of these kinds are read and sorted.
    """
    by = ORDERS[Order.LAST_FAILED].by
    all_ = beyond((yield from condition(Filter(status=chosen.status))), after, Order.LAST_FAILED)
    end: float | None = yield from scalar(
        Sql(f"SELECT f.failed_at FROM @.failures f WHERE {all_.text} ORDER BY {by} LIMIT 1 OFFSET {_NEAR}", all_.values)
    )
    near = all_ if end is None else all_.also("f.failed_at >= ?", end)
    near = near.also(f"({found.text}) IS TRUE", *found.values)  # so that no other index is used
    select = "SELECT f.number FROM @.failures f WHERE"
    numbers = yield from scalars(Sql(f"{select} {near.text} ORDER BY {by} LIMIT ?", [*near.values, limit]))
    if end is None or len(numbers) >= limit:
        return numbers
    sorted_by = "f.failed_at + 0 DESC, f.number DESC"  # no index is in the order of a sum
    return (yield from scalars(Sql(f"{select} {found.text} ORDER BY {sorted_by} LIMIT ?", [*found.values, limit])))


_GROUPS_AT_ONCE = 100


def newest_in_groups(chosen: Filter, by: str, ids: Sequence[str]) -> Script[dict[str, FailedMessage]]:
    """Return the newest failed message of each group."""
    numbers: dict[str, int] = {}
    for start in range(0, len(ids), _GROUPS_AT_ONCE):
        some = ids[start : start + _GROUPS_AT_ONCE]
        parts: list[str] = []
        values: list[object] = []
        for place, group in enumerate(some):
            found = yield from condition(_narrowed(chosen, by, group))
            newest = f"SELECT f.number FROM @.failures f WHERE {found.text} ORDER BY {ORDERS[Order.NEWEST].by} LIMIT 1"
            parts.append(f"SELECT {place} AS place, ({newest}) AS number")
            values += found.values
        rows = yield Sql(" UNION ALL ".join(parts), values)
        numbers |= {some[int(place)]: int(number) for place, number in rows if number is not None}
    summaries = yield Sql(f"{SUMMARY} WHERE f.number IN @ints", [list(numbers.values())])
    by_number = {row["number"]: summary_of(row) for row in summaries}
    return {group: by_number[number] for group, number in numbers.items()}


def _narrowed(chosen: Filter, by: str, group: str) -> Filter:
    if by == "queue":
        return replace(chosen, queues=(group,))
    return replace(chosen, types=(group,)) if by == "type" else replace(chosen, groups=(group,))


def beyond(found: Condition, after: Place, order: Order) -> Condition:
    """Return a condition for what comes after a place of a list."""
    if not after.number:
        return found
    compared = [after.failed_at.timestamp()] if order is Order.LAST_FAILED and after.failed_at else []
    return found.also(ORDERS[order].after, *compared, after.number)


def summary_of(row: Row) -> FailedMessage:
    """Return a failed message from a row."""
    first_failed_at, failed_at = utc(row["first_failed_at"]), utc(row["failed_at"])
    status = Status(row["status"])
    return FailedMessage(**values_of(row, status=status, first_failed_at=first_failed_at, failed_at=failed_at))


def sources_seen() -> Script[list[str]]:
    """Return the queues that failures were found in."""
    return (yield from scalars(Sql("SELECT name FROM @.seen_names WHERE kind = 'source' ORDER BY name")))


def show(id: str) -> Script[FailedDetail | None]:  # noqa: A002 - it is called that everywhere
    """Return everything about the failed message whose id begins with this; None if there is none, or several."""
    rows = yield Sql(f"{SUMMARY} WHERE c.id >= ? AND c.id < ? LIMIT 2", [id, id + _AFTER_HEX])
    if len(rows) != 1:
        return None
    summary = summary_of(rows[0])
    ((properties, body, operation, details, trace),) = yield Sql(
        "SELECT c.properties, c.body, f.attempt_operation, c.details, t.text FROM @.failure_contents c"
        f" JOIN @.failures f ON f.number = c.number {traces.OF_LAST} WHERE c.number = ?",
        [summary.number],
    )
    known = attempt_details.read(details, trace)
    last = FailedAttempt(failed_at=summary.failed_at, operation=operation, details=known)
    parts = yield Sql(
        f"SELECT {PART} FROM @.operations o CROSS JOIN @.parts p"
        " WHERE p.operation = o.number AND p.failure = ? ORDER BY o.number DESC",
        [summary.number],
    )
    return FailedDetail(
        summary=summary,
        message=stored.message_of(summary.message_id, properties, body),
        attempts=[last, *(yield from _earlier_attempts(summary.number))],
        parts=[part_of(row, summary.id) for row in parts],
        notes=(yield from notes(f"failure:{summary.id}")),
    )


def _earlier_attempts(number: int) -> Script[list[FailedAttempt]]:
    rows = yield Sql(
        "SELECT failed_at, operation, details FROM @.failure_attempts WHERE failure = ? ORDER BY failed_at DESC, key",
        [number],
    )
    return [
        FailedAttempt(failed_at=utc(failed_at), operation=operation, details=attempt_details.read(details))
        for failed_at, operation, details in rows
    ]


PART = "p.operation, p.failure, p.outcome, p.reason, p.at"
"""The columns of a ``Part``, without the id of its message."""


def part_of(row: Row, id_: str) -> Part:
    """Return a part from a row that has its columns."""
    return Part(**values_of(row, id=id_, outcome=Outcome(row["outcome"]), at=utc(row["at"])))


# --- retention

_IS_UNCLAIMED = f"NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.failure = f.number AND {among('p.outcome', CLAIMS)})"
_IS_HEARD_OF = f"NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.operation = o.number AND {among('p.outcome', CLAIMS)})"
_SWEPT = (
    ("failure_contents", "number"),
    ("failure_attempts", "failure"),
    ("failure_groups", "failure"),
    ("failures", "number"),
)


def sweep(settled_before: datetime, limit: int = 1_000) -> Script[int]:
    """Delete messages that were resolved or archived before an instant, unless an operation has them."""
    yield from next_change()
    gone = yield from scalars(
        Sql(
            f"SELECT f.number FROM @.failures f WHERE {among('f.status', SETTLED)} AND f.settled_at < ?"
            f" AND {_IS_UNCLAIMED} ORDER BY f.settled_at LIMIT ?",
            [settled_before.timestamp(), limit],
        )
    )
    if gone:
        of_gone = Sql("SELECT DISTINCT exception_group FROM @.failures WHERE number IN @ints", [gone])
        groups = yield from scalars(of_gone)
        for table, key in _SWEPT:
            yield Sql(f"DELETE FROM @.{table} WHERE {key} IN @ints", [gone])
        yield from traces.sweep(groups)
        yield Sql("DELETE FROM @.failure_counts WHERE n = 0")  # of these kinds there is none left
    return len(gone) + (yield from _sweep_operations(settled_before))


def _sweep_operations(ended_before: datetime) -> Script[int]:
    """Delete one operation that ended before an instant, unless some of its messages are still waited for."""
    numbers = yield from scalars(
        Sql(
            f"SELECT o.number FROM @.operations o WHERE {among('o.state', ENDED)} AND o.ended_at < ?"
            f" AND {_IS_HEARD_OF} ORDER BY o.number LIMIT 1",
            [ended_before.timestamp()],
        )
    )
    for number in numbers:
        yield Sql("DELETE FROM @.parts WHERE operation = ?", [number])
        yield Sql("DELETE FROM @.operations WHERE number = ?", [number])
    return len(numbers)
