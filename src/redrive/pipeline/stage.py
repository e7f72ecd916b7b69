# SPDX-License-Identifier: MIT
"""What all stages share: their environment, and how a failure becomes a decision of the worker."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from redrive.broker import Broker, random_id
from redrive.clock import Clock
from redrive.errors import QueueNotFound, TaskConflict, Unavailable
from redrive.pipeline.fresh_inputs import FreshInputs
from redrive.pipeline.ledger import PipelineLedger, SlotTaken
from redrive.pipeline.new_tasks import TaskMaker, task_id
from redrive.pipeline.plan import PipelinePlan
from redrive.pipeline.task_token import TaskToken
from redrive.printable import one_line
from redrive.telemetry import Event
from redrive.worker import Context, Decision, HandlerFailure, MoveToError, Postpone, RedeliverLater

T = TypeVar("T")
MOST_DEATHS = 3
"""How often a process may die at one task before the task is set aside."""

_STORE_IS_AWAY = 5.0
_MOVED = 1.0
_FOLLOWS = 1.0
_LEFT_TO_OTHERS = 5.0
_BESIDE_A_SUSPECT = 1.0

Handle: TypeAlias = Callable[[bytes, Context], Awaitable[None]]
"""A stage's function of a message's body and its context."""


class StageError(Exception):
    """A stage has failed at a task.

    Args:
        reason: why.
        decision: what becomes of its message.
        is_reported: whether the stage has reported it, so that the worker does not report it once more.
    """

    def __init__(self, reason: str, decision: Decision, *, is_reported: bool = False) -> None:
        super().__init__(reason)
        self.decision = decision
        self.is_reported = is_reported


class Quarantine:
    """Lets a message be handled alone if this is its last chance: else what is beside a killer would share its blame.

    One for all stages of a process, as they all end with it.
    """

    def __init__(self) -> None:
        self._others = 0
        self._alone = asyncio.Event()
        self._alone.set()
        self._has_suspect = False

    async def handle(self, handle: Handle, body: bytes, context: Context) -> None:
        """Handle a message as soon as it may be.

        Args:
            handle: what handles it.
            body: its body.
            context: its context.

        Raises:
            StageError: it comes while another one is to be alone; it is delivered again soon, and nothing is counted.
        """
        if self._has_suspect:
            raise StageError("another task is to be alone", Postpone(_BESIDE_A_SUSPECT))
        if context.delivery_count == MOST_DEATHS:
            self._has_suspect = True
            try:
                await self._alone.wait()
                await handle(body, context)
            finally:
                self._has_suspect = False
            return
        self._others += 1
        self._alone.clear()
        try:
            await handle(body, context)
        finally:
            self._others -= 1
            if not self._others:
                self._alone.set()


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
        refused_version: a later version that is stored and cannot run here; 0: there is none.
        nudge: lets the decider look at once.
        fresh: what was submitted here a moment ago.
        quarantine: lets a message be handled alone if processes have died at it.
    """

    broker: Broker
    ledger: PipelineLedger
    clock: Clock
    chance: Callable[[], float]
    report: Callable[[Event], None]
    plan: PipelinePlan
    version: int
    nudge: Callable[[], None]
    refused_version: int = 0
    fresh: FreshInputs = field(default_factory=FreshInputs)
    quarantine: Quarantine = field(default_factory=Quarantine)

    def new_id(self, random_part: str | None = None) -> str:
        """Return an id for a task.

        Args:
            random_part: the random part; None: any.
        """
        return task_id(self.clock.time(), random_id() if random_part is None else random_part)

    def check_version(self, version: int) -> None:
        """See that a task was made by this version of the pipeline, or an earlier one.

        Raises:
            StageError: a later one has made it, which another process runs: it is left to that, and nothing is counted.
        """
        if version > self.version:
            reason = f"version {version} of the pipeline has made it, and version {self.version} runs here"
            is_refused = version <= self.refused_version
            raise StageError(reason, Postpone(_LEFT_TO_OTHERS if is_refused else _FOLLOWS))

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


def message_of(body: bytes, read: Callable[[bytes], T]) -> T:
    """Return what a stage's message carries.

    Raises:
        StageError: it is no message of a stage; it is set aside at once, and can be recovered by a process that knows
            it.
    """
    try:
        return read(body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"it is no message of a pipeline: {said(error)}"
        raise StageError(reason, MoveToError("Unreadable", reason)) from error


def token_of(body: bytes) -> TaskToken:
    """Return what the message for a task carries; raises ``StageError`` if it is none."""
    return message_of(body, TaskToken.from_bytes)


def said(error: BaseException) -> str:
    """Return what an exception of a user's function says, on one line."""
    return one_line(f"{type(error).__name__}: {error}", 1_000)
