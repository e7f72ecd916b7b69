# SPDX-License-Identifier: MIT
"""What recovery knows of messages, in SQL: their failures, and the operations they were in."""

import json
from collections.abc import Sequence
from typing import Any, Final

from redrive.broker.headers import PARENT
from redrive.engines.sql.script import Row, Script, Sql
from redrive.journey.records import FailureAttempt, FailurePart, FailureRecord
from redrive.recovery.states import Outcome, Status

_FAILURES: Final = (
    "SELECT f.number, c.id, c.message_id, c.properties, f.queue, f.status, f.settled_at, f.edit_of, f.edited_as,"
    " f.failed_at, f.attempt_operation, f.exception_type, c.exception_message"
    " FROM @.failure_contents c JOIN @.failures f ON f.number = c.number"
)
_LONGEST: Final = 500


def failures(ids: Sequence[str]) -> Script[list[FailureRecord]]:
    """Return what is known of messages with these ids, and of copies of them that were edited."""
    rows = yield Sql(f"{_FAILURES} WHERE c.message_id IN @texts ORDER BY f.number", [list(ids)])
    listed = {row["number"]: row for row in rows}
    if others := sorted({each for row in rows for each in (row["edit_of"], row["edited_as"]) if each is not None}):
        edits = yield Sql(f"{_FAILURES} WHERE c.id IN @texts OR c.message_id IN @texts", [others, others])
        listed |= {row["number"]: row for row in edits}
    found: list[FailureRecord] = []
    for number in sorted(listed):
        found.append((yield from _failure(listed[number])))  # noqa: PERF401 - a comprehension cannot yield
    return found


def _failure(row: Row) -> Script[FailureRecord]:
    earlier = yield Sql(
        "SELECT failed_at, operation, details FROM @.failure_attempts WHERE failure = ? ORDER BY failed_at",
        [row["number"]],
    )
    parts = yield Sql(
        "SELECT o.number, o.kind, o.actor, o.reason, o.requested_at, p.outcome, p.at FROM @.operations o"
        " JOIN @.parts p ON p.operation = o.number AND p.failure = ? ORDER BY o.number",
        [row["number"]],
    )
    attempts = [FailureAttempt(at=at, operation=number, exception=_said(details)) for at, number, details in earlier]
    last = f"{row['exception_type']}: {row['exception_message']}"[:_LONGEST]
    attempts.append(FailureAttempt(at=row["failed_at"], operation=row["attempt_operation"], exception=last))
    headers: dict[str, Any] = json.loads(row["properties"]).get("headers", {}) if row["properties"] else {}
    parent = headers.get(PARENT)
    return FailureRecord(
        id=row["id"],
        message_id=row["message_id"],
        parent=parent if isinstance(parent, str) else None,
        queue=row["queue"],
        status=Status(row["status"]).word,
        settled_at=row["settled_at"],
        edit_of=row["edit_of"],
        edited_as=row["edited_as"],
        attempts=tuple(sorted(attempts, key=lambda each: each.at)),
        parts=tuple(_part(part) for part in parts),
    )


def _part(row: Row) -> FailurePart:
    return FailurePart(
        operation=row["number"],
        kind=row["kind"],
        actor=row["actor"],
        reason=row["reason"],
        requested_at=row["requested_at"],
        outcome=Outcome(row["outcome"]).word,
        at=row["at"],
    )


def _said(details: str) -> str:
    read: dict[str, Any] = json.loads(details)
    return f"{read.get('exception_type') or ''}: {read.get('exception_message') or ''}"[:_LONGEST]
