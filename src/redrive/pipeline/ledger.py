# SPDX-License-Identifier: MIT
"""The ledger port of layer 4: tasks, their history, slots and shipments. Pure: no I/O, no clock.

Each verb is one transaction, except those that return ``OwnSql``: they are a part of a transaction with effects, such
as the completion of a message, and are given to it as ``inside=``.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from redrive.pipeline.infos import ActionInfo, DestinationInfo, LineageEdge, SlotInfo
from redrive.pipeline.records import (
    NewAction,
    NewTask,
    SendResult,
    SendWork,
    ShipmentInfo,
    ShipmentResult,
    SlotKey,
    TaskInfo,
    TaskItem,
    WaitingTask,
)
from redrive.pipeline.states import TaskState
from redrive.pipeline.task_token import TaskToken
from redrive.worker.recoverability import OwnSql


class Accepted(NamedTuple):
    """What was submitted with a key.

    Attributes:
        task: the id of its process task.
        digest: the hash of its body.
    """

    task: str
    digest: str


class SubmissionSeen(Exception):
    """The same submission was accepted before.

    Attributes:
        task: the id of its process task.
    """

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task


class SlotTaken(Exception):
    """Another process has opened or served a slot, or the destination is held."""

    def __init__(self, at: float) -> None:
        super().__init__(at)
        self.at = at


class PipelineLedger(Protocol):
    """Tasks, their history, slots and shipments."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def now(self) -> float:
        """Return the time of the store, in seconds since 1970."""
        ...

    # --- pipelines and destinations

    async def declare(self, pipeline: str, definition: str, destinations: Sequence[str]) -> int:
        """Store a version of a pipeline, if it differs from the last; return its number."""
        ...

    async def versions(self, pipeline: str) -> list[tuple[int, str]]:
        """Return the versions of a pipeline, the newest first."""
        ...

    async def pipelines(self) -> list[tuple[str, int]]:
        """Return the names of all pipelines, and their last versions."""
        ...

    async def destinations(self, pipeline: str, counted: Sequence[str] | None = None) -> list[DestinationInfo]:
        """Return the destinations of a pipeline, with what waits for those that are counted, or for all."""
        ...

    async def hold(self, pipeline: str, destination: str, action: NewAction, *, is_held: bool) -> None:
        """Hold a destination, or release it."""
        ...

    # --- receiving and processing

    def accept(self, task: NewTask, key: str | None, digest: str, action: NewAction) -> OwnSql:
        """Store a submission; raises ``SubmissionSeen`` or ``SubmissionConflict`` if its key is not new."""
        ...

    async def submission(self, pipeline: str, key: str) -> Accepted | None:
        """Return what was submitted with a key."""
        ...

    async def process_input(self, token: TaskToken) -> tuple[int, list[TaskItem]] | None:
        """Return the version that made a process task, and its items; None if its message is out of date."""
        ...

    def finish_process(self, token: TaskToken, pipeline: str, children: Sequence[NewTask], action: NewAction) -> OwnSql:
        """End a process task, and store what it has made."""
        ...

    def warn(self, token: TaskToken, action: NewAction) -> OwnSql:
        """Note that an attempt failed; the task stays as it is."""
        ...

    def fail(self, token: TaskToken, reason: str, action: NewAction) -> OwnSql:
        """Note that a task failed for good."""
        ...

    # --- slots

    def open_slot(self, slot: SlotKey, closed_by: str) -> OwnSql:
        """Open a slot, once; raises ``SlotTaken``."""
        ...

    def open_now(self, slot: SlotKey, action: NewAction) -> OwnSql:
        """Open a slot that a person wants now; raises ``SlotTaken``."""
        ...

    async def slots(self, pipeline: str, destination: str, limit: int) -> list[SlotInfo]:
        """Return the last slots of a destination, the newest first."""
        ...

    async def is_open(self, slot: SlotKey) -> bool:
        """Say whether a slot is still to be served."""
        ...

    async def waiting(self, pipeline: str, destination: str, limit: int) -> list[WaitingTask]:
        """Return the tasks that wait for a slot and have not expired, the oldest first, with their items."""
        ...

    def serve_slot(
        self,
        slot: SlotKey,
        members: Sequence[str],
        children: Sequence[NewTask],
        broken: Mapping[str, str],
        *,
        is_empty: bool = False,
    ) -> OwnSql:
        """Serve a slot: what waited is done, what was made of it is stored; what breaks the merge has failed."""
        ...

    def fail_slot(self, slot: SlotKey, reason: str) -> OwnSql:
        """Note that a slot cannot be served: what waits, waits for the next one."""
        ...

    async def expire(self, pipeline: str, limit: int) -> list[str]:
        """Let tasks expire that have waited for too long; return their ids."""
        ...

    # --- sending

    async def begin_send(self, token: TaskToken, per_second: float | None, version: int) -> SendWork | None:
        """Note that the shipments of a task are about to be sent; None if its message is out of date.

        A task that a later version of the pipeline has made stays as it is: nothing of it is to be sent.
        """
        ...

    def finish_send(self, token: TaskToken, result: SendResult, pipeline: str, destination: str) -> OwnSql:
        """Store what came of an attempt to send, and what follows."""
        ...

    def put_back(self, token: TaskToken, results: Sequence[ShipmentResult], action: NewAction | None) -> OwnSql:
        """Store what came of shipments of a task that stays as it is: its destination was away."""
        ...

    async def shipments(self, task: str) -> list[ShipmentInfo]:
        """Return the shipments of a task, in order."""
        ...

    # --- people

    def rerun(self, token: TaskToken, items: Sequence[int], action: NewAction, *, again: bool) -> OwnSql:
        """Let a task that has ended, or failed, be ready again."""
        ...

    async def revive(self, token: TaskToken, due_at: float, not_after: float | None, action: NewAction) -> None:
        """Let a task wait for a slot again."""
        ...

    async def cancel(self, token: TaskToken, action: NewAction) -> None:
        """Let nothing more be done with a task."""
        ...

    async def resolve_sent(self, token: TaskToken, items: Sequence[int], action: NewAction) -> bool:
        """Note that shipments have arrived, because a person says so; return whether the task is done with that."""
        ...

    async def prune(self, ended_before: float, limit: int, pipeline: str | None = None) -> int:
        """Remove a bounded number of tasks that ended before an instant; return how many."""
        ...

    # --- questions

    async def task(self, id: str) -> TaskInfo:  # noqa: A002 - what it is
        """Return a task; raises ``TaskNotFound``."""
        ...

    async def tasks(
        self,
        pipeline: str | None = None,
        destination: str | None = None,
        states: Sequence[TaskState] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> list[TaskInfo]:
        """Return tasks, the newest first."""
        ...

    async def stuck(self, overdue: float, limit: int, pipeline: str | None = None) -> list[TaskInfo]:
        """Return what should have been done ``overdue`` seconds ago, and what a person has to look at."""
        ...

    async def counts(self, pipeline: str) -> dict[tuple[str, str, TaskState], int]:
        """Return how many tasks there are, by stage, destination and state."""
        ...

    async def history(self, task: str | None, pipeline: str | None, limit: int) -> list[ActionInfo]:
        """Return the history of a task, from its beginning, or what was done last in a pipeline."""
        ...

    async def lineage(self, item: str) -> list[LineageEdge]:
        """Return every step of an item, or of all items of a task, forward and back."""
        ...
