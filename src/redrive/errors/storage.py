# SPDX-License-Identifier: MIT
"""Databases and brokers that do not answer as they should."""

from redrive.errors.branches import Unavailable, UsageError


class EngineUnavailable(Unavailable, code="engine-unavailable"):
    """The store does not answer as it should. Nothing that was acknowledged is lost, and the failed call was not done.

    Attributes:
        may_be_done: whether the call may have been done nevertheless, because its outcome could not be found out. Then
            repeat it with care.
    """

    may_be_done = False


class EngineBusy(EngineUnavailable, code="engine-busy"):
    """Another process kept the store locked for longer than this one waits."""


class StorageDamaged(EngineUnavailable, code="storage-damaged"):
    """The file is not a database, or is corrupt. Restore it from a backup, or move it away to start empty."""


class StorageFull(EngineUnavailable, code="storage-full"):
    """There is no room left on the disk. What was acknowledged is safe; free some space and try again."""


class StorageReadOnly(EngineUnavailable, code="storage-read-only"):
    """This process cannot write the database, or the folder it is in."""


class StorageReplaced(UsageError, code="storage-replaced"):
    """A database file was deleted or replaced while it was open; calls since then may be stored in no file at all.

    Attributes:
        path: the file.
        problem: what happened to it.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"{self.path} {self.problem} while it was open, and this was not stored where others find it: stop every "
            "program that uses the file, put the right one in its place, and start them again; replace a database only "
            "while no program has it open"
        )


class SchemaMismatch(UsageError, code="schema-mismatch"):
    """Another version of Redrive made the database, and this version cannot use it.

    Attributes:
        found: the schema's version.
        known: the newest version that this Redrive knows.
        problem: the difference, if it is not the version.
    """

    def __init__(self, found: int, known: int, problem: str = "") -> None:
        super().__init__(found, known, problem)
        self.found = found
        self.known = known
        self.problem = problem

    def __str__(self) -> str:
        if self.problem:
            return (
                f"the database has schema {self.found}, and its tables are not those of that schema: {self.problem}; "
                "it was made by an unreleased version of Redrive, or changed since: use that version, or a new database"
            )
        return f"the database has schema {self.found}, this Redrive knows up to {self.known}; install a newer Redrive"


class LeaseLost(Unavailable, code="lease-lost"):
    """Another process has taken over this process's work, or the lease ended; nothing was changed."""
