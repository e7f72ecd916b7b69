# SPDX-License-Identifier: MIT
"""The key that seals the tags of recovered copies, in SQL. It is made once, and never changes."""

from redrive.engines.sql.script import Script, Sql, scalar

_NAME = "tags"


def key(fresh: bytes) -> Script[bytes]:
    """Store a new key, unless there is one already; return the stored one."""
    yield Sql("INSERT INTO @.ledger_keys (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", [_NAME, fresh.hex()])
    return bytes.fromhex((yield from scalar(Sql("SELECT value FROM @.ledger_keys WHERE name = ?", [_NAME]))))
