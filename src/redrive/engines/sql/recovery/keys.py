# SPDX-License-Identifier: MIT
"""The key that seals the tags of recovered copies, in SQL. It is made once, and never changes."""

from redrive.engines.sql.script import Script, Sql

_NAME = "tags"


def known(_now: float) -> Script[bytes | None]:
    """Return the key, if it has been made."""
    rows = yield Sql("SELECT value FROM @.ledger_keys WHERE name = ?", [_NAME])
    return bytes.fromhex(rows[0][0]) if rows else None


def made(key: bytes) -> Script[bytes]:
    """Store a key, unless another process was quicker; return the one that counts."""
    yield Sql("INSERT INTO @.ledger_keys (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", [_NAME, key.hex()])
    rows = yield Sql("SELECT value FROM @.ledger_keys WHERE name = ?", [_NAME])
    return bytes.fromhex(rows[0][0])
