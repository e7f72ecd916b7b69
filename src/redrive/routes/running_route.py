# SPDX-License-Identifier: MIT
"""One version of a route, running in this process."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from redrive.routes.environment import PartEnvironment
from redrive.routes.ledger import StoredRoute
from redrive.routes.leg_runner import LegRunner
from redrive.routes.route import Route
from redrive.routes.stored_legs import StoredLegs

if TYPE_CHECKING:
    from redrive.worker import Worker


class RunningRoute:
    """One version of a route: a worker for each queue of its legs, which deliver until they are stopped.

    Args:
        stored: the route as it is stored.
        runner: delivers its events.
        legs: delivers those of its events that are stored.
        environment: what it works with.
    """

    def __init__(self, stored: StoredRoute, runner: LegRunner, legs: StoredLegs, environment: PartEnvironment) -> None:
        self.stored = stored
        self.runner = runner
        self._legs = legs
        self._environment = environment
        self._workers: dict[str, tuple[Worker, asyncio.Task[None]]] = {}
        self._ending: list[tuple[Worker, asyncio.Task[None]]] = []

    @property
    def route(self) -> Route:
        """The route."""
        return self.runner.route

    def serve(self, queues: Sequence[str]) -> None:
        """Deliver what is in some queues and in no others, and start workers again that have ended."""
        for queue in set(self._workers) - set(queues):
            self._ending.append(self._workers.pop(queue))
            self._ending[-1][0].stop()
        for queue in queues:
            running = self._workers.get(queue)
            if running is None or running[1].done():
                worker = self._legs.worker(queue)
                task = asyncio.create_task(worker.run(self._environment.broker), name=f"redrive-route-{queue}")
                self._workers[queue] = worker, task

    def errors(self, queues: Sequence[str] | None = None) -> list[Exception]:
        """Return the errors that workers of some queues, or of all, have ended with."""
        tasks = [task for queue, (_, task) in self._workers.items() if queues is None or queue in queues]
        found = [task.exception() for task in tasks if task.done() and not task.cancelled()]
        return [error for error in found if isinstance(error, Exception)]

    async def stop(self) -> None:
        """Take no more legs, finish those that are on their way, and disconnect."""
        running = [*self._workers.values(), *self._ending]
        for worker, task in running:
            worker.stop()
            await asyncio.wait([task])
        for _, task in running:
            if not task.cancelled():
                task.exception()  # it was reported when it was seen, or the route is gone anyway
        await self.runner.close()
