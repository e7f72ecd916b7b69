# SPDX-License-Identifier: MIT
"""What all stages share: their environment, and how a failure becomes a decision of the worker."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redrive.broker import Broker, random_id
from redrive.clock import Clock
from redrive.errors import QueueNotFound, TaskConflict, Unavailable
from redrive.pipeline.ledger import PipelineLedger, SlotTaken
from redrive.pipeline.new_tasks import TaskMaker, task_id
from redrive.pipeline.plan import PipelinePlan
from redrive.printable import one_line
from redrive.telemetry import Event
from redrive.worker import Decision, HandlerFailure, Postpone, RedeliverLater

MOST_DEATHS = 3
"""How often a process may die at one task before the task is set aside."""

_STORE_IS_AWAY = 5.0
_MOVED = 1.0


class StageError(Exception):
    """A stage has failed at a task; ``decision`` says what becomes of its message."""

    def __init__(self, reason: str, decision: Decision) -> None:
        super().__init__(reason)
        self.decision = decision


@dataclass(slots=True, kw_only=True)
class PipelineEnvironment:
    """What the stages of a pipeline work with.

    Attributes:
        broker: where its queues are.
        ledger: where its tasks are.
        clock: where time comes from.
        chance: where random numbers come from, 0 <= x < 1.
        report: takes telemetry events.
        plan: the pipeline as it is now; it may change while it runs.
        version: its version.
        nudge: lets the decider look at once.
    """

    broker: Broker
    ledger: PipelineLedger
    clock: Clock
    chance: Callable[[], float]
    report: Callable[[Event], None]
    plan: PipelinePlan
    version: int
    nudge: Callable[[], None]

    def new_id(self) -> str:
        """Return an id for a task."""
        return task_id(self.clock.time(), random_id())

    def maker(self) -> TaskMaker:
        """Return what makes the tasks that follow now."""
        return TaskMaker(plan=self.plan, version=self.version, now=self.clock.time())


def decide_stage(failure: HandlerFailure) -> Decision:
    """Return what becomes of a message that a stage could not settle; a store that is away uses up no attempt."""
    error = failure.error
    if isinstance(error, StageError):
        return error.decision
    if isinstance(error, TaskConflict | SlotTaken):
        return RedeliverLater(_MOVED)  # the next delivery finds it out of date, and drops it
    if isinstance(error, Unavailable | QueueNotFound):
        return Postpone(_STORE_IS_AWAY)
    return RedeliverLater(_STORE_IS_AWAY)


def message_of(body: bytes) -> Any:  # noqa: ANN401 - JSON values
    """Return what a stage's message carries."""
    return json.loads(body)


def said(error: BaseException) -> str:
    """Return what an exception of a user's function says, on one line."""
    return one_line(f"{type(error).__name__}: {error}", 1_000)
