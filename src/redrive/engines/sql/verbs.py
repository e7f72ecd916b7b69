# SPDX-License-Identifier: MIT
"""A port's verbs, one line each: ``find = reads(failures.find)``, ``record = writes(failure_records.record)``."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from redrive.broker.port import Database
from redrive.engines.sql.script import Script, Together, now

if TYPE_CHECKING:
    from types import CoroutineType

P = ParamSpec("P")
T = TypeVar("T")
Verb: TypeAlias = "Callable[Concatenate[SqlStore, P], CoroutineType[Any, Any, T]]"
"""A method with the arguments and the result of a script."""


def writes(script: Callable[P, Script[T]], *, together: bool = False) -> "Verb[P, T]":
    """Return a verb that runs a script in a durable transaction; the script may be run again from its beginning.

    Args:
        script: the script.
        together: whether it may be run in one transaction with others.
    """

    async def verb(store: "SqlStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.database.run(_begun(lambda: script(*args, **kwargs), together=together))

    verb.__doc__ = script.__doc__
    return verb  # type: ignore[return-value]  # mypy has no CoroutineType for what an async function makes


def reads(script: Callable[P, Script[T]], *, together: bool = False) -> "Verb[P, T]":
    """Return a verb that runs a script that only reads, from one snapshot.

    Args:
        script: the script.
        together: whether it is one statement, which may be run together with others.
    """

    async def verb(store: "SqlStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.database.look(_begun(lambda: script(*args, **kwargs), together=together))

    verb.__doc__ = script.__doc__
    return verb  # type: ignore[return-value]  # mypy has no CoroutineType for what an async function makes


def joins(
    script: Callable[P, Script[Any]], *, together: bool = False
) -> "Callable[Concatenate[SqlStore, P], Callable[[Any], object]]":
    """Return a verb that returns a script as a part of a transaction with effects (``inside=``).

    Args:
        script: the script.
        together: whether it may be run in one transaction with others.
    """

    def verb(store: "SqlStore", /, *args: P.args, **kwargs: P.kwargs) -> Callable[[Any], object]:
        return store.database.scripted(_begun(lambda: script(*args, **kwargs), together=together))

    verb.__doc__ = script.__doc__
    return verb


def _begun(script: Callable[[], Script[T]], *, together: bool) -> Callable[[], Script[T]]:
    return Together(script) if together else script


class SqlStore:
    """A port whose verbs are scripts on a database.

    Args:
        database: the database.
        is_shared: whether its owner opens and closes it.
    """

    def __init__(self, database: Database, *, is_shared: bool = False) -> None:
        self.database = database
        self._is_shared = is_shared

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        if not self._is_shared:
            await self.database.open()

    async def close(self) -> None:
        """Disconnect."""
        if not self._is_shared:
            await self.database.close()

    now = reads(now, together=True)
