# SPDX-License-Identifier: MIT
"""What SQLite's errors mean to a user. They stop here: no ``sqlite3`` exception leaves the engine."""

import sqlite3

from redrive.errors import EngineBusy, EngineUnavailable, StorageDamaged, StorageFull, StorageReadOnly

_PRIMARY_CODE = 0xFF
_MEANINGS: dict[int, tuple[type[EngineUnavailable], str]] = {
    sqlite3.SQLITE_BUSY: (
        EngineBusy,
        "another process keeps the database locked; close it, or use PostgreSQL to share",
    ),
    sqlite3.SQLITE_LOCKED: (EngineBusy, "the database is locked by another connection of this process"),
    sqlite3.SQLITE_FULL: (StorageFull, "the disk is full; free some space, nothing acknowledged is lost"),
    sqlite3.SQLITE_CORRUPT: (StorageDamaged, "the database is corrupt; restore it from a backup"),
    sqlite3.SQLITE_NOTADB: (StorageDamaged, "the file is not a database; check the path, or move the file away"),
    sqlite3.SQLITE_READONLY: (
        StorageReadOnly,
        "the database cannot be written; check the permissions of file and folder",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        StorageReadOnly,
        "the database cannot be opened; check that its folder exists and is writable",
    ),
    sqlite3.SQLITE_PERM: (
        StorageReadOnly,
        "the database may not be accessed; check the permissions of file and folder",
    ),
}


def is_busy(error: sqlite3.Error) -> bool:
    """Say whether another process holds the lock we need."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def translated(error: sqlite3.Error | UnicodeDecodeError, path: str) -> EngineUnavailable:
    """Return the error to raise for one of SQLite's."""
    if isinstance(error, UnicodeDecodeError):  # even the text of its error was damaged
        return StorageDamaged(f"{path}: {_MEANINGS[sqlite3.SQLITE_CORRUPT][1]} ({error})")
    kind, meaning = _MEANINGS.get(_code(error), (EngineUnavailable, "the database failed"))
    return kind(f"{path}: {meaning} ({error})")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
