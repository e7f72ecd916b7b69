# SPDX-License-Identifier: MIT
"""Saved views in SQL."""

from redrive.access import SavedView
from redrive.clock import utc
from redrive.engines.sql.script import Row, Script, Sql, now, plain, values_of

_COLUMNS = 'number, name, filter, grouped_by AS "by", owner, created_at'


def save_view(name: str, filter_: str, by: str, owner: str) -> Script[SavedView]:
    """Store a view; one of the same name and owner is replaced, and keeps its number."""
    time = yield from now()
    (row,) = yield Sql(
        "INSERT INTO @.saved_views (name, filter, grouped_by, owner, created_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (owner, name) DO UPDATE"
        " SET filter = excluded.filter, grouped_by = excluded.grouped_by, created_at = excluded.created_at"
        f" RETURNING {_COLUMNS}",
        [plain(name), plain(filter_), plain(by), plain(owner), time],
    )
    return _view(row)


def saved_views() -> Script[list[SavedView]]:
    """Return all views, in order of their names."""
    rows = yield Sql(f"SELECT {_COLUMNS} FROM @.saved_views ORDER BY name, number")
    return [_view(row) for row in rows]


def saved_view(number: int) -> Script[SavedView | None]:
    """Return a view; None: there is none with this number."""
    rows = yield Sql(f"SELECT {_COLUMNS} FROM @.saved_views WHERE number = ?", [number])
    return _view(rows[0]) if rows else None


def remove_view(number: int, owner: str) -> Script[bool]:
    """Remove a view of an owner; say whether it was there."""
    rows = yield Sql(
        "DELETE FROM @.saved_views WHERE number = ? AND owner = ? RETURNING number", [number, plain(owner)]
    )
    return bool(rows)


def _view(row: Row) -> SavedView:
    return SavedView(**values_of(row, created_at=utc(row["created_at"])))
