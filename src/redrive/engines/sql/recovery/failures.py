# SPDX-License-Identifier: MIT
"""Failed messages in SQL: finding them, counting them, and forgetting them."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from redrive.broker.message import Message
from redrive.clock import utc
from redrive.engines import stored
from redrive.engines.sql.recovery.audit import counts_of_notes, notes
from redrive.engines.sql.recovery.filter_sql import condition
from redrive.engines.sql.recovery.recording import next_change
from redrive.engines.sql.script import Row, Script, Sql, listed
from redrive.errors import FailureNotFound
from redrive.recovery.filter import Filter
from redrive.recovery.records import FailedAttempt, FailedDetail, FailedMessage, GroupInfo, Part
from redrive.recovery.states import CLAIMS, Outcome, Status

_CLAIMS = listed(CLAIMS)
_COLUMN_GROUPS = {"queue": "f.queue", "type": "f.message_type"}


# --- finding

_SUMMARY = (
    "SELECT f.number, c.id, c.message_id, f.queue, f.status, f.message_type, f.exception_type, c.exception_message,"
    " f.exception_group, f.attempts, f.first_failed_at, f.failed_at,"
    f" coalesce((SELECT p.operation FROM @.parts p WHERE p.failure = f.number AND p.outcome IN {_CLAIMS}),"
    " f.operation), f.edit_of, f.edited_as, f.source"
    " FROM @.failures f JOIN @.failure_contents c ON c.number = f.number"
)


def find(
    _now: float, chosen: Filter, *, after: int = 0, limit: int = 100, newest_first: bool = False
) -> Script[list[FailedMessage]]:
    """Return failed messages in the order in which they were first seen."""
    found = yield from condition(chosen)
    if newest_first and after:
        found = found.also("f.number < ?", after)
    elif after:
        found = found.also("f.number > ?", after)
    order = "DESC" if newest_first else "ASC"
    rows = yield Sql(f"{_SUMMARY} WHERE {found.text} ORDER BY f.number {order} LIMIT ?", [*found.values, limit])
    return [_summary_of(row) for row in rows]


def _summary_of(row: Row) -> FailedMessage:
    return FailedMessage(
        number=row[0],
        id=row[1],
        message_id=row[2],
        queue=row[3],
        status=Status(row[4]),
        message_type=row[5],
        exception_type=row[6],
        exception_message=row[7],
        group=row[8],
        attempts=row[9],
        first_failed_at=utc(row[10]),
        failed_at=utc(row[11]),
        operation=row[12],
        edit_of=row[13],
        edited_as=row[14],
        source=row[15],
    )


def count(_now: float, chosen: Filter) -> Script[int]:
    """Count failed messages."""
    found = yield from condition(chosen)
    rows = yield Sql(f"SELECT count(*) FROM @.failures f WHERE {found.text}", found.values)
    number: int = rows[0][0]
    return number


class Page(NamedTuple):
    """Which part of a list, and in what order."""

    after: str | None
    limit: int
    largest_first: bool


def groups(_now: float, classifier: str, chosen: Filter, page: Page) -> Script[list[GroupInfo]]:
    """Return groups in order of their ids, or the largest first."""
    found = yield from condition(chosen)
    column = _COLUMN_GROUPS.get(classifier, "f.exception_group" if classifier == "exception" else "g.group_id")
    source = "@.failures f"
    if column == "g.group_id":
        source = "@.failures f JOIN @.failure_groups g ON g.failure = f.number JOIN @.groups t ON t.id = g.group_id"
        found = found.also("t.classifier = ?", classifier)
    if page.after is not None:
        found = found.also(f"{column} > ?", page.after)
    order = f"count(*) DESC, {column}" if page.largest_first else column
    rows = yield Sql(
        f"SELECT {column}, count(*), min(f.failed_at), max(f.failed_at) FROM {source} WHERE {found.text}"
        f" GROUP BY {column} ORDER BY {order} LIMIT ?",
        [*found.values, page.limit],
    )
    titles = yield from _titles([row[0] for row in rows])
    noted = yield from counts_of_notes([f"group:{row[0]}" for row in rows])
    return [
        GroupInfo(
            id=row[0],
            title=titles.get(row[0]) or row[0],
            classifier=classifier,
            count=row[1],
            first_failed_at=utc(row[2]),
            last_failed_at=utc(row[3]),
            notes=noted.get(f"group:{row[0]}", 0),
        )
        for row in rows
    ]


def sources_seen(_now: float) -> Script[list[str]]:
    """Return the queues that failures were found in."""
    rows = yield Sql("SELECT name FROM @.seen_names WHERE kind = 'source' ORDER BY name")
    return [row[0] for row in rows]


def ids(_now: float, beginning: str, limit: int = 2) -> Script[list[str]]:
    """Return the ids of failed messages that begin so; they are hexadecimal."""
    rows = yield Sql(
        "SELECT id FROM @.failure_contents WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
        [beginning, beginning + "g", limit],
    )
    return [row[0] for row in rows]


def _titles(ids: list[str]) -> Script[dict[str, str]]:
    rows = yield Sql("SELECT id, title FROM @.groups WHERE id IN @texts", [ids])
    return {row[0]: row[1] for row in rows}


def show(_now: float, id_: str) -> Script[FailedDetail | None]:
    """Return everything about one failed message."""
    rows = yield Sql(f"{_SUMMARY} WHERE c.id = ?", [id_])
    if not rows:
        return None
    summary = _summary_of(rows[0])
    rows = yield Sql(
        "SELECT c.properties, c.body, c.details, f.attempt_operation FROM @.failure_contents c"
        " JOIN @.failures f ON f.number = c.number WHERE c.number = ?",
        [summary.number],
    )
    properties, body, details, operation = rows[0]
    attempts = [FailedAttempt(failed_at=summary.failed_at, operation=operation, details=json.loads(details))]
    rows = yield Sql(
        "SELECT failed_at, operation, details FROM @.failure_attempts WHERE failure = ? ORDER BY failed_at DESC, key",
        [summary.number],
    )
    attempts += [FailedAttempt(failed_at=utc(row[0]), operation=row[1], details=json.loads(row[2])) for row in rows]
    parts = yield Sql(
        "SELECT p.operation, p.failure, p.outcome, p.reason, p.at FROM @.operations o CROSS JOIN @.parts p"
        " WHERE p.operation = o.number AND p.failure = ? ORDER BY o.number DESC",
        [summary.number],
    )
    return FailedDetail(
        summary=summary,
        message=stored.message_of(summary.message_id, properties, body),
        attempts=attempts,
        parts=[part_of(row, id_) for row in parts],
        notes=(yield from notes(_now, f"failure:{id_}")),
    )


def part_of(row: Row, id_: str) -> Part:
    """Return a part from its operation, failure, outcome, reason and time."""
    return Part(operation=row[0], failure=row[1], id=id_, outcome=Outcome(row[2]), reason=row[3], at=utc(row[4]))


def contents(_now: float, failures: Sequence[int]) -> Script[list[Message]]:
    """Return the messages of failures by their numbers."""
    rows = yield Sql(
        "SELECT number, message_id, properties, body FROM @.failure_contents WHERE number IN @ints",
        [list(failures)],
    )
    found = {row[0]: stored.message_of(row[1], row[2], row[3]) for row in rows}
    for number in failures:
        if number not in found:
            raise FailureNotFound(str(number))
    return [found[number] for number in failures]


# --- retention


def sweep(_now: float, settled_before: datetime, limit: int = 1_000) -> Script[int]:
    """Delete messages that were resolved or archived before then, unless an operation has them."""
    yield from next_change()
    rows = yield Sql(
        "SELECT f.number FROM @.failures f WHERE f.status IN (3, 4) AND f.settled_at < ?"
        f" AND NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.failure = f.number AND p.outcome IN {_CLAIMS})"
        " ORDER BY f.settled_at LIMIT ?",
        [settled_before.timestamp(), limit],
    )
    gone = [row[0] for row in rows]
    if gone:
        for table, column in _SWEPT:
            yield Sql(f"DELETE FROM @.{table} WHERE {column} IN @ints", [gone])
    return len(gone) + (yield from _sweep_operations(settled_before))


def _sweep_operations(ended_before: datetime) -> Script[int]:
    """Delete one operation that ended before then, unless nothing was heard yet of some of its messages."""
    rows = yield Sql(
        "SELECT o.number FROM @.operations o WHERE o.state IN (6, 7) AND o.ended_at < ? AND NOT EXISTS"
        f" (SELECT 1 FROM @.parts p WHERE p.operation = o.number AND p.outcome IN {_CLAIMS}) ORDER BY o.number LIMIT 1",
        [ended_before.timestamp()],
    )
    for row in rows:
        yield Sql("DELETE FROM @.parts WHERE operation = ?", [row[0]])
        yield Sql("DELETE FROM @.operations WHERE number = ?", [row[0]])
    return len(rows)


_SWEPT = (
    ("failure_contents", "number"),
    ("failure_attempts", "failure"),
    ("failure_groups", "failure"),
    ("failures", "number"),
)
