# SPDX-License-Identifier: MIT
"""The settings a transaction needs. Each transaction sets them: a database, a role or a user may have other defaults.

A statement that is a transaction of its own cannot set them, but saves two round trips. So the engine reads the
defaults of a new connection once: if they are as needed, a single statement is sent by itself, otherwise in a
transaction. The engine does not set them for the connection: behind PgBouncer in transaction mode other programs use
it, too.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from redrive.engines.postgres import errors

# A machine that freezes in the middle of a transaction must not block other processes for hours with the locks it
# holds. How long a statement may take is decided in this process, where the caller waits.
_NEEDED = {"idle_in_transaction_session_timeout": "60s", "statement_timeout": "0", "lock_timeout": "0"}
_LATER_NEEDED = {"transaction_timeout": "0"}
"""Settings that older servers do not know; a transaction only sets them where the server has another value."""

_LONG_ENOUGH_MS = 10_000
"""A single statement takes milliseconds."""

_ASK = "SELECT name, reset_val, pg_is_in_recovery() AS only_reads FROM pg_catalog.pg_settings WHERE name = ANY ($1)"
_ASKED = (
    "default_transaction_isolation",
    "default_transaction_read_only",
    "statement_timeout",
    "lock_timeout",
    "transaction_timeout",
)


class Connection(asyncpg.Connection):
    """A connection that knows what its server does by default.

    Attributes:
        has_usual_defaults: whether a statement that is a transaction of its own is one as we need it.
        settings: statements that set what a transaction needs, each with a semicolon behind it.
        access: what has to be said so that a transaction may write.
    """

    has_usual_defaults = False
    settings = ""
    access = ""

    async def ask_defaults(self, url: str) -> None:
        """Find out what a new connection does by default."""
        given = {name for name, _ in parse_qsl(urlsplit(url).query)}
        self.settings = settings_for({}, given)
        async with in_transaction(self):
            rows = await self.fetch(_ASK, list(_ASKED))
        found = {row["name"]: row["reset_val"] for row in rows}
        # a standby refuses the words themselves; what it says to a write is clearer
        needs_no_word = rows[0]["only_reads"] or found["default_transaction_read_only"] == "off"
        self.access = "" if needs_no_word else " READ WRITE"
        self.has_usual_defaults = are_usual(found)
        self.settings = settings_for(found, given)


def are_usual(found: Mapping[str, str]) -> bool:
    """Say whether the defaults of a connection are those that single statements need."""
    return (
        found["default_transaction_isolation"] == "read committed"
        and found["default_transaction_read_only"] == "off"
        and all(
            not 0 < int(found.get(name, 0)) < _LONG_ENOUGH_MS
            for name in ("statement_timeout", "lock_timeout", "transaction_timeout")
        )
    )


def settings_for(found: Mapping[str, str], given: set[str]) -> str:
    """Return the statements that set what a transaction needs, but for what the URL says otherwise."""
    needed = _NEEDED | {name: value for name, value in _LATER_NEEDED.items() if found.get(name, "0") != "0"}
    return "".join(f"SET LOCAL {name} = '{value}'; " for name, value in needed.items() if name not in given)


def begin(connection: Connection) -> str:
    """Return the statements that begin a transaction, with a semicolon behind them."""
    return f"BEGIN ISOLATION LEVEL READ COMMITTED{connection.access}; {connection.settings}"


@asynccontextmanager
async def in_transaction(connection: Connection) -> AsyncGenerator[None]:
    """Run a block in a transaction of its own, without a receipt."""
    await connection.execute(begin(connection))
    try:
        yield
    except Exception:
        with suppress(*errors.Trouble):  # then the connection is gone, and the transaction with it
            await connection.execute("ROLLBACK")
        raise
    await connection.execute("COMMIT")


@asynccontextmanager
async def as_needed(connection: Connection) -> AsyncGenerator[None]:
    """Run single statements: as they are, or in a transaction where they would be another kind of it by default."""
    if connection.has_usual_defaults:
        yield
        return
    async with in_transaction(connection):
        yield
