# SPDX-License-Identifier: MIT
"""Notes that people write, and the audit trail of what they do, in SQL."""

from redrive.clock import utc
from redrive.engines.sql.script import Script, Sql, now, plain, scalar, values_of
from redrive.errors import NoteNotFound
from redrive.recovery.port import AuditEntry, Note, TrailFilter

# --- notes


def note(subject: str, text: str, actor: str) -> Script[Note]:
    """Write a note."""
    time = yield from now()
    number: int = yield from scalar(
        Sql(
            "INSERT INTO @.notes (subject, text, actor, at) VALUES (?, ?, ?, ?) RETURNING number",
            [subject, plain(text), actor, time],
        )
    )
    yield from write_audit(actor, "note", subject, "", f"note {number}")
    return Note(number=number, subject=subject, text=plain(text), actor=actor, at=utc(time))


def notes(subject: str) -> Script[list[Note]]:
    """Return the notes about something, the oldest first."""
    rows = yield Sql(
        "SELECT number, subject, text, actor, at FROM @.notes WHERE subject = ? ORDER BY number", [subject]
    )
    return [Note(**values_of(row, at=utc(row["at"]))) for row in rows]


def counts_of_notes(subjects: list[str]) -> Script[dict[str, int]]:
    """Return how many notes there are about each subject."""
    rows = yield Sql("SELECT subject, count(*) FROM @.notes WHERE subject IN @texts GROUP BY subject", [subjects])
    return dict(rows)


def drop_note(number: int, actor: str) -> Script[None]:
    """Remove a note; the audit trail keeps its text."""
    rows = yield Sql("DELETE FROM @.notes WHERE number = ? RETURNING subject, text", [number])
    if not rows:
        raise NoteNotFound(number)
    ((subject, text),) = rows
    yield from write_audit(actor, "drop-note", subject, "", f"note {number} removed: {text}")


# --- the audit trail


def write_audit(actor: str, action: str, subject: str, reason: str, outcome: str) -> Script[None]:
    """Add an entry: who did what, why, and with what result."""
    time = yield from now()
    yield Sql(
        "INSERT INTO @.audit (at, actor, action, subject, reason, outcome) VALUES (?, ?, ?, ?, ?, ?)",
        [time, actor, action, subject, reason, outcome],
    )


def audit(entry: AuditEntry) -> Script[None]:
    """Add an entry to the audit trail."""
    yield from write_audit(entry.actor, entry.action, entry.subject, entry.reason, entry.outcome)


def trail(wanted: TrailFilter, *, before: int | None = None, limit: int = 100) -> Script[list[AuditEntry]]:
    """Return entries of the audit trail, the newest first."""
    asked: dict[str, object] = {
        "subject = ?": wanted.subject,
        "actor = ?": wanted.actor,
        "action = ?": wanted.action,
        "at >= ?": wanted.since and wanted.since.timestamp(),
        "at < ?": wanted.until and wanted.until.timestamp(),
        "number < ?": before,
    }
    stated = {text: value for text, value in asked.items() if value is not None}
    rows = yield Sql(
        "SELECT number, at, actor, action, subject, reason, outcome FROM @.audit"
        f" WHERE {' AND '.join(['TRUE', *stated])} ORDER BY number DESC LIMIT ?",
        [*stated.values(), limit],
    )
    return [AuditEntry(**values_of(row, at=utc(row["at"]))) for row in rows]
