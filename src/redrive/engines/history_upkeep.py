# SPDX-License-Identifier: MIT
"""What upkeep does for the history: once a minute, one of many processes notes depths, and rolls old rows up."""

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from redrive.broker.port import Database, Engine, WorkerReport
from redrive.broker.tallies import Key
from redrive.engines.sql.history import due, workers
from redrive.engines.tally_buffer import TallyBuffer
from redrive.errors import RedriveError

_ROUNDS = 50
"""How many times in a minute rows are rolled up, a bounded number of them each time."""

_logger = logging.getLogger("redrive.history")


class HistoryVerbs:
    """The verbs of an engine that has a history and knows its workers: of ``Tallying`` and ``Attendance``."""

    _history: "HistoryUpkeep"

    def tally(self, counts: Mapping[Key, int]) -> None:
        """Count what was done."""
        self._history.tallies.add(counts)

    async def flush_tallies(self) -> None:
        """Store what was counted."""
        await self._history.tallies.flush()

    async def worker_present(self, report: WorkerReport, seconds: float) -> None:
        """Note what a worker says."""
        await self._history.run(lambda: workers.present(report, seconds))

    async def worker_absent(self, session: str) -> None:
        """Note that a worker has ended."""
        await self._history.run(lambda: workers.absent(session))


class HistoryEngine(Engine, Database, Protocol):
    """An engine that is a database."""


class HistoryUpkeep:
    """The part of an engine that keeps its history.

    Args:
        engine: the engine.

    Attributes:
        run: runs a script in a transaction.
        tallies: what it has counted, and not stored yet.
    """

    def __init__(self, engine: HistoryEngine) -> None:
        self._engine = engine
        self._has_begun = False
        self.run = engine.run
        self.tallies = TallyBuffer(engine.run)

    async def round(self) -> None:
        """Note the depths of all queues, if no process has done so in this minute, and roll up what is old.

        Not in an engine's first round: a program that sends one message and ends need not count all others.
        """
        await self.tallies.flush()
        if not self._has_begun:
            self._has_begun = True
            return
        engine = self._engine
        if await engine.look(due.has_operations):
            await self._sample()
        if not await engine.look(due.is_due):
            return
        from redrive.engines.sql.history import rounds
        from redrive.history import gauges_of

        queues = await engine.inspect()
        routes = await self._queues_of_routes()
        gauges = gauges_of(queues, routes, await engine.look(due.time))
        if await engine.run(lambda: rounds.note(gauges)):
            for _ in range(_ROUNDS):
                if await engine.run(rounds.roll_up):
                    break
            await engine.run(rounds.forget_samples)

    async def _sample(self) -> None:
        """Note what has become of the messages of operations; it is counted beside the writer."""
        from redrive.engines.sql.history import samples

        if found := await self._engine.look(samples.changed):
            await self._engine.run(lambda: samples.keep(found))

    async def _queues_of_routes(self) -> dict[str, Sequence[str]]:
        if not await self._engine.look(due.has_routes):
            return {}
        from redrive.engines.sql.routes import changes
        from redrive.routes import queues_by_route

        return queues_by_route(await self._engine.look(changes.routes))

    async def finish(self) -> None:
        """Store what was counted before the engine is closed; if that fails, it is lost, and the engine is closed."""
        self._has_begun = False
        try:
            await self.tallies.flush()
        except RedriveError as error:
            _logger.warning("the last second of the history is lost: %s", error)
