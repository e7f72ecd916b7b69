# SPDX-License-Identifier: MIT
"""Runs scripts of many callers, and the sends and completions that go with them, in one transaction for all of them.

That is a single statement if all scripts begin with ``Guarded``: their changes, their new rows and the call of
``exchange`` are parts of it, so it takes one round trip. What a script returns is asked of it before, as if everything
were as it expects; if a row is not, the statement fails. Then, as whenever one of a group fails, each is run by itself,
and the one whose row was another is run step by step.
"""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import asyncpg

from redrive.engines.postgres import errors
from redrive.engines.postgres.connections import Again, Connections
from redrive.engines.postgres.driver import Connection
from redrive.engines.postgres.exchange import Exchange
from redrive.engines.postgres.group_commit import Lane, Request
from redrive.engines.postgres.groups import Groups, Refused
from redrive.engines.postgres.requests import ScriptRequest
from redrive.engines.postgres.session_settings import as_needed, begin
from redrive.engines.sql.dialects import lists
from redrive.engines.sql.runner import PostgresDriver
from redrive.engines.sql.script import DONE, Guarded, Together
from redrive.engines.sql.together import at_once, run_together, together_at_once

T = TypeVar("T")
MakeDriver = Callable[[Connection], PostgresDriver]

_WIDTH = 2


class ScriptLanes:
    """Runs scripts in groups, two groups at the same time.

    The server needs about as long for a group as this process needs to make the next one. With two groups neither waits
    for the other; with more, they wait for each other at the server.

    Args:
        make_groups: returns what runs one group after another.
        make_driver: returns what runs the statements of a script.
    """

    def __init__(self, make_groups: Callable[[], "ScriptGroups"], make_driver: MakeDriver) -> None:
        self._free = [make_groups() for _ in range(_WIDTH)]
        for groups in self._free:
            groups.make_driver = make_driver
        self._database = self._free[0].database
        self._lane: Lane[Any] = Lane(self._run, width=_WIDTH)

    @property
    def is_waited_for(self) -> bool:
        """Whether a request waits for the next group to begin."""
        return self._lane.is_waited_for

    def submit(self, ask: Request[T]) -> Coroutine[Any, Any, T]:
        """Run a request with the next group; return its result, to be awaited."""
        self._database.check_loop()
        return self._lane.submit(ask)

    async def run(self, script: Together) -> Any:  # noqa: ANN401 - what the script returns
        """Run a script with the next group; return its result."""
        return await self.submit(ScriptRequest(script))

    async def finish(self) -> None:
        """Wait until everything that was submitted is done."""
        await self._lane.close()

    async def _run(self, group: list[Any]) -> None:
        groups = self._free.pop()
        try:
            await groups.carry_out(group)
        finally:
            self._free.append(groups)


class ScriptGroups(Groups):
    """Runs scripts in groups, one group after another; between groups it holds no connection."""

    make_driver: MakeDriver

    async def _exchange_once(self, group: list[Any]) -> None:
        try:
            await super()._exchange_once(group)
        finally:
            await self.let_go(is_good=True)

    async def _fetched(self, connection: Connection, exchange: Exchange, values: Sequence[object]) -> list[Any]:
        asks = [ask for ask in exchange.applies if isinstance(ask, ScriptRequest)]
        is_plain = not exchange.is_noted and not any(ask.in_steps for ask in asks)
        if is_plain and (steps := _guarded(asks)):
            return await self._fetched_at_once(connection, asks, steps, values)
        return await self._fetched_in_steps(connection, asks, exchange, values)

    async def _fetched_at_once(
        self, connection: Connection, asks: Sequence[ScriptRequest], steps: Sequence[Guarded], values: Sequence[object]
    ) -> list[Any]:
        changes, inserts = together_at_once(steps)
        text = at_once(tuple(changes), tuple(inserts), f"{self.database.schema}.", self.exchange_sql)
        columns = [column for change, rows in changes.items() for column in lists(change.columns, rows)]
        columns += [column for table, rows in inserts.items() for column in lists(table.columns, rows)]
        try:
            async with as_needed(connection):
                rows: list[Any] = await connection.fetch(text, *values, *columns)
        except asyncpg.DivisionByZeroError as error:
            if len(asks) > 1:
                raise Refused(error) from error
            asks[0].in_steps = True
            raise Again(error) from error
        return [row for row in rows if row[0] is not None]

    async def _fetched_in_steps(
        self, connection: Connection, asks: Sequence[ScriptRequest], exchange: Exchange, values: Sequence[object]
    ) -> list[Any]:
        await connection.execute(begin(connection))
        try:
            results = await run_together([ask.script() for ask in asks], self.make_driver(connection))
            rows = await self._noted(connection, exchange, values)
            await _commit(connection)
        except Exception as error:
            with suppress(*errors.Trouble):  # then the connection is gone, and the transaction with it
                await connection.execute("ROLLBACK")
            if isinstance(error, errors.Trouble):
                raise
            raise Refused(error) from error
        for ask, result in zip(asks, results, strict=True):
            ask.value = result
        return rows

    async def _find_out(self, exchange: Exchange, number: int, error: BaseException) -> None:
        await self.let_go(is_good=not errors.is_connection_lost(error))  # to find out needs another one
        await super()._find_out(exchange, number, error)


def _guarded(asks: Sequence[ScriptRequest]) -> list[Guarded] | None:
    """Return the only steps of scripts, and note what each returns; None if one has others."""
    steps: list[Guarded] = []
    for ask in asks:
        script = ask.script()
        step = next(script)
        if not isinstance(step, Guarded):
            return None
        steps.append(step)
        try:
            script.send(DONE)
        except StopIteration as end:
            ask.value = end.value
        else:
            raise AssertionError("a guarded step is the last one of its script")
    return steps


async def _commit(connection: Connection) -> None:
    if await connection.execute("COMMIT") != "COMMIT":
        raise asyncpg.InFailedSQLTransactionError("a statement had failed, so it was rolled back")


class _Look(Request[Any]):
    """A script of one statement that reads."""

    __slots__ = ("script",)

    def __init__(self, script: Together) -> None:
        super().__init__()
        self.script = script


class Looks:
    """Runs scripts of one statement that read, in groups.

    Args:
        database: where.
        make_driver: returns what runs the statements of a script.
    """

    def __init__(self, database: Connections, make_driver: MakeDriver) -> None:
        self._database = database
        self._make_driver = make_driver
        self._lane: Lane[Any] = Lane(self._run)

    async def look(self, script: Together) -> Any:  # noqa: ANN401 - what the script returns
        """Run a script with the next group; return its result."""
        self._database.check_loop()
        return await self._lane.submit(_Look(script))

    async def finish(self) -> None:
        """Wait until everything that was submitted is done."""
        await self._lane.close()

    async def _run(self, group: list[Any]) -> None:
        try:
            await self._run_all(group)
        except Exception as error:
            if len(group) == 1 or isinstance(error, errors.Trouble):
                raise
            for ask in group:
                await self._run_one(ask)

    async def _run_one(self, ask: _Look) -> None:
        try:
            await self._run_all([ask])
        except Exception as error:  # noqa: BLE001 - the caller gets it, whatever it is
            ask.fail(error)

    async def _run_all(self, group: Sequence[_Look]) -> None:
        async def read(connection: Connection) -> list[Any]:
            async with as_needed(connection):
                return await run_together([ask.script() for ask in group], self._make_driver(connection))

        results = await self._database.until_done(lambda: self._database.lent(read))
        for ask, result in zip(group, results, strict=True):
            ask.give(result)
