# SPDX-License-Identifier: MIT
"""One receiver, running in this process."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from redrive.clock import pause
from redrive.printable import one_line
from redrive.retry import AttemptFailure, Exponential, RetryAfter
from redrive.routes.environment import PartEnvironment
from redrive.routes.events import ReceiverBroken
from redrive.routes.intakes import DirectIntake, DurableIntake, LinkedIntake, ReportingIntake, Runners
from redrive.routes.plan import ReceiverPlan

_RESTART: Final = Exponential(min=1.0, max=60.0, max_attempts=None)


class RunningReceiver:
    """A receiver that runs until it is stopped; one that ends with an error is started again.

    Args:
        plan: the receiver and its routes.
        environment: what it works with.
        runners: the routes at work.
        opening: returns the block that its parts are opened in.
    """

    def __init__(
        self,
        plan: ReceiverPlan,
        environment: PartEnvironment,
        runners: Runners,
        opening: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.plan = plan
        self._environment = environment
        self._opening = opening
        self._intake = _intake_of(plan, environment, runners)
        self._task = asyncio.create_task(self._run(), name=f"redrive-receiver-{plan.name}")

    def update(self, plan: ReceiverPlan) -> None:
        """Give its events to other routes from now on."""
        self.plan = plan
        self._intake.update(plan)

    async def stop(self) -> None:
        """Take no more events, and finish those that are on their way."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if isinstance(self._intake, DirectIntake):
            await self._intake.finished()

    async def _run(self) -> None:
        failures = 0
        while True:
            began = self._environment.clock.monotonic()
            try:
                with self._opening():
                    receiver = self.plan.receiver.open(self._environment)
                await receiver.run(ReportingIntake(self._intake, self.plan, self._environment))
            except Exception as error:  # noqa: BLE001 - it is reported, and the receiver is started again
                failures = 1 if self._environment.clock.monotonic() - began > _RESTART.max else failures + 1
                answer = _RESTART.decide(AttemptFailure(failures, chance=self._environment.chance()))
                delay = answer.delay if isinstance(answer, RetryAfter) else _RESTART.max
                problem = one_line(f"{type(error).__name__}: {error}", 500)
                self._environment.report(ReceiverBroken(self.plan.application, self.plan.name, problem, delay))
                await pause(self._environment.clock, delay)
            else:
                return  # it has delivered all that its source will ever have


def _intake_of(
    plan: ReceiverPlan, environment: PartEnvironment, runners: Runners
) -> DurableIntake | LinkedIntake | DirectIntake:
    match plan.receiver.delivery:
        case "durable":
            return DurableIntake(plan, environment)
        case "linked":
            return LinkedIntake(plan, environment, runners)
        case "direct":
            return DirectIntake(plan, environment, runners)
