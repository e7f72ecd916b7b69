# SPDX-License-Identifier: MIT
"""Rules of redaction in SQL."""

from redrive.access.records import RedactionInfo, RedactionKind
from redrive.clock import utc
from redrive.engines.sql.script import Row, Script, Sql, now, plain

_COLUMNS = "number, kind, value, created_at, created_by"


def add_redaction(kind: RedactionKind, value: str, actor: str) -> Script[RedactionInfo]:
    """Store a rule; one that is there is returned as it is."""
    time = yield from now()
    (row,) = yield Sql(
        "INSERT INTO @.access_redactions (kind, value, created_at, created_by) VALUES (?, ?, ?, ?)"
        f" ON CONFLICT (kind, value) DO UPDATE SET value = excluded.value RETURNING {_COLUMNS}",
        [kind.value, plain(value), time, plain(actor)],
    )
    return _rule(row)


def redactions() -> Script[list[RedactionInfo]]:
    """Return all rules, the oldest first."""
    return [_rule(row) for row in (yield Sql(f"SELECT {_COLUMNS} FROM @.access_redactions ORDER BY number"))]


def remove_redaction(number: int) -> Script[RedactionInfo | None]:
    """Remove a rule; None: there is none of this number."""
    rows = yield Sql(f"DELETE FROM @.access_redactions WHERE number = ? RETURNING {_COLUMNS}", [number])
    return _rule(rows[0]) if rows else None


def _rule(row: Row) -> RedactionInfo:
    return RedactionInfo(
        number=row["number"],
        kind=RedactionKind(row["kind"]),
        value=row["value"],
        created_at=utc(row["created_at"]),
        created_by=row["created_by"],
    )
