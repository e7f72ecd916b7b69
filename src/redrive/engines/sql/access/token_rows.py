# SPDX-License-Identifier: MIT
"""Tokens of programs in SQL."""

from datetime import datetime

from redrive.access.records import Rights, TokenInfo
from redrive.clock import utc
from redrive.engines.sql.access.last_admin import keep_an_admin
from redrive.engines.sql.access.rights import rights_columns, rights_of_row
from redrive.engines.sql.script import Row, Script, Sql, now, plain

_COLUMNS = "id, name, role, queues, may_see_bodies, created_at, created_by, expires_at, used_at, revoked_at"


def add_token(
    token_id: str, secret_hash: str, name: str, rights: Rights, *, actor: str, expires_at: datetime | None
) -> Script[TokenInfo]:
    """Store a token."""
    time = yield from now()
    ends = None if expires_at is None else expires_at.timestamp()
    (row,) = yield Sql(
        "INSERT INTO @.access_tokens"
        " (id, hash, name, role, queues, may_see_bodies, created_at, created_by, expires_at)"
        f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING {_COLUMNS}",
        [token_id, secret_hash, plain(name), *rights_columns(rights), time, plain(actor), ends],
    )
    return _token(row)


def tokens() -> Script[list[TokenInfo]]:
    """Return all tokens, the newest first."""
    rows = yield Sql(f"SELECT {_COLUMNS} FROM @.access_tokens ORDER BY created_at DESC, id")
    return [_token(row) for row in rows]


def token_of(secret_hash: str) -> Script[TokenInfo | None]:
    """Return the token with a secret, if it has neither ended nor been revoked."""
    time = yield from now()
    rows = yield Sql(
        f"SELECT {_COLUMNS} FROM @.access_tokens"
        " WHERE hash = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)",
        [secret_hash, time],
    )
    return _token(rows[0]) if rows else None


def use_token(token_id: str) -> Script[None]:
    """Note that a token was used."""
    time = yield from now()
    yield Sql("UPDATE @.access_tokens SET used_at = ? WHERE id = ?", [time, token_id])


def revoke_token(token_id: str, *, even_last: bool = False) -> Script[TokenInfo | None]:
    """End a token; one that was revoked before stays as it was."""
    time = yield from now()
    if not even_last:
        yield from keep_an_admin(time, token=plain(token_id))
    rows = yield Sql(
        f"UPDATE @.access_tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? RETURNING {_COLUMNS}",
        [time, plain(token_id)],
    )
    return _token(rows[0]) if rows else None


def _token(row: Row) -> TokenInfo:
    times = {name: None if row[name] is None else utc(row[name]) for name in ("expires_at", "used_at", "revoked_at")}
    return TokenInfo(
        id=row["id"],
        name=row["name"],
        rights=rights_of_row(row),
        created_at=utc(row["created_at"]),
        created_by=row["created_by"],
        **times,
    )
