# SPDX-License-Identifier: MIT
"""What people write down, and what is written down about what they do, in SQL."""

from redrive.clock import utc
from redrive.engines.sql.script import Script, Sql, plain
from redrive.errors import NoteNotFound
from redrive.recovery.records import AuditEntry, Note

# --- notes


def note(now: float, subject: str, text: str, actor: str) -> Script[Note]:
    """Write a note."""
    rows = yield Sql(
        "INSERT INTO @.notes (subject, text, actor, at) VALUES (?, ?, ?, ?) RETURNING number",
        [subject, plain(text), actor, now],
    )
    number: int = rows[0][0]
    yield from write_audit(now, actor, "note", subject, "", f"note {number}")
    return Note(number=number, subject=subject, text=plain(text), actor=actor, at=utc(now))


def notes(_now: float, subject: str) -> Script[list[Note]]:
    """Return the notes about something."""
    rows = yield Sql(
        "SELECT number, subject, text, actor, at FROM @.notes WHERE subject = ? ORDER BY number", [subject]
    )
    return [Note(number=row[0], subject=row[1], text=row[2], actor=row[3], at=utc(row[4])) for row in rows]


def counts_of_notes(subjects: list[str]) -> Script[dict[str, int]]:
    """Return how many notes there are about each."""
    rows = yield Sql("SELECT subject, count(*) FROM @.notes WHERE subject IN @texts GROUP BY subject", [subjects])
    return {row[0]: row[1] for row in rows}


def drop_note(now: float, number: int, actor: str) -> Script[None]:
    """Remove a note; the trail keeps what it said."""
    rows = yield Sql("DELETE FROM @.notes WHERE number = ? RETURNING subject, text", [number])
    if not rows:
        raise NoteNotFound(number)
    yield from write_audit(now, actor, "drop-note", rows[0][0], "", f"note {number} removed: {rows[0][1]}")


# --- the audit trail


def write_audit(  # noqa: PLR0917 - an entry, in the order of its columns
    now: float, actor: str, action: str, subject: str, reason: str, outcome: str
) -> Script[None]:
    """Note who did what, why, and what came of it."""
    yield Sql(
        "INSERT INTO @.audit (at, actor, action, subject, reason, outcome) VALUES (?, ?, ?, ?, ?, ?)",
        [now, actor, action, subject, reason, outcome],
    )


def audit(now: float, entry: AuditEntry) -> Script[None]:
    """Add an entry to the audit trail."""
    yield from write_audit(now, entry.actor, entry.action, entry.subject, entry.reason, entry.outcome)


def trail(
    _now: float, *, subject: str | None = None, before: int | None = None, limit: int = 100
) -> Script[list[AuditEntry]]:
    """Return the audit trail, the newest entry first."""
    where, values = "TRUE", list[object]()
    if subject is not None:
        where += " AND subject = ?"
        values.append(subject)
    if before is not None:
        where += " AND number < ?"
        values.append(before)
    rows = yield Sql(
        "SELECT number, at, actor, action, subject, reason, outcome FROM @.audit"
        f" WHERE {where} ORDER BY number DESC LIMIT ?",
        [*values, limit],
    )
    return [
        AuditEntry(
            number=row[0], at=utc(row[1]), actor=row[2], action=row[3], subject=row[4], reason=row[5], outcome=row[6]
        )
        for row in rows
    ]
