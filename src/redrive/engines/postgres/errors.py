# SPDX-License-Identifier: MIT
"""What PostgreSQL's errors mean to a user. They stop here: no exception of the driver leaves the engine."""

import asyncpg

from redrive.errors import (
    EngineBusy,
    EngineUnavailable,
    RedriveError,
    StorageDamaged,
    StorageFull,
    StorageReadOnly,
    UsageError,
)

LOCK_LOST, QUEUES_CHANGED = "RD001", "RD002"
"""What our own functions raise, as SQLSTATE."""

_ENDED = frozenset(("57P01", "57P02", "57P03", "57P05", "25P03", "25P04"))
"""How a server ends connections: shutting down or starting, or after idling or taking too long by its settings."""

_SERIALIZATION, _DEADLOCK = "40001", "40P01"

_EXACT: dict[str, tuple[type[RedriveError], str]] = {
    "57014": (EngineBusy, "a statement was cancelled, by statement_timeout or by another session"),
    "55P03": (EngineBusy, "a lock was not available within lock_timeout"),
    "53300": (EngineBusy, "the server takes no more connections; raise max_connections or lower pool_size"),
    "53100": (StorageFull, "the server's disk is full; free some space, nothing acknowledged is lost"),
    "25006": (StorageReadOnly, "the server only reads; name the primary, or add target_session_attrs=read-write"),
    "28P01": (UsageError, "the password is wrong"),
    "28000": (UsageError, "the server does not let this user in; see its pg_hba.conf"),
    "3D000": (UsageError, "there is no such database; create it first"),
    "42501": (UsageError, "the user may not do that; see the page about PostgreSQL for the grants it needs"),
    "3F000": (UsageError, "the schema is gone; open the broker again to create it"),
    "42P01": (UsageError, "a table is missing; was the schema dropped? Open the broker again to create it"),
    "42883": (UsageError, "a function is missing; is that connection one to the broker's own database?"),
    "26000": (
        UsageError,
        "a prepared statement is gone; behind PgBouncer in transaction mode add statement_cache_size=0 to the URL",
    ),
    "42P05": (
        UsageError,
        "a prepared statement is there twice; behind PgBouncer in transaction mode add statement_cache_size=0",
    ),
}
_CLASSES: dict[str, tuple[type[RedriveError], str]] = {
    "XX": (StorageDamaged, "the server reports an internal error or damaged data; see its log"),
    "08": (EngineUnavailable, "the connection is gone"),
    "57": (EngineUnavailable, "the server is shutting down or starting"),
    "53": (EngineUnavailable, "the server is short of something"),
    # what the same call will never do, however often it is tried
    "22": (UsageError, "a value is none that PostgreSQL can store or compare; correct what was given"),
    "42": (UsageError, "the schema is not as this Redrive made it; was it changed by hand?"),
    "54": (UsageError, "a value is larger than PostgreSQL can take; make it smaller"),
}

Trouble = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""All that can come out of the driver: OSError is a connection that fails, TimeoutError one that does not answer."""


def sqlstate(error: BaseException) -> str:
    """Return PostgreSQL's code of an error; an empty text if it has none."""
    return str(getattr(error, "sqlstate", None) or "")


def is_connection_lost(error: BaseException) -> bool:
    """Say whether an error leaves it open what became of the statement, as the connection is gone."""
    if isinstance(error, asyncpg.PostgresError):
        return sqlstate(error)[:2] == "08" or sqlstate(error) in _ENDED
    return isinstance(error, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError)


def is_worth_repeating(error: BaseException) -> bool:
    """Say whether the same transaction may work if it is simply done again."""
    return sqlstate(error) in (_SERIALIZATION, _DEADLOCK)


def translated(error: BaseException, where: str) -> RedriveError:
    """Return the error to raise for one of the driver's."""
    if isinstance(error, RedriveError):
        return error
    code = sqlstate(error)
    kind, meaning = _EXACT.get(code) or _CLASSES.get(code[:2]) or (EngineUnavailable, "the database does not answer")
    return kind(f"{where}: {meaning} ({type(error).__name__}: {error})")
