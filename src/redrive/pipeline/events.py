# SPDX-License-Identifier: MIT
"""The events that pipelines report, each a value like those in ``redrive.telemetry``."""

import logging
from dataclasses import dataclass
from typing import ClassVar

from redrive.telemetry import Event


@dataclass(frozen=True, slots=True)
class PipelineEvent(Event):
    """What all events about a pipeline have in common.

    Attributes:
        pipeline: the pipeline's name.
    """

    labels: ClassVar[tuple[str, ...]] = ("pipeline",)

    pipeline: str


@dataclass(frozen=True, slots=True)
class TaskEnded(PipelineEvent):
    """A stage has done a task. One for each task.

    Attributes:
        task: the task's id.
        stage: which stage: ``process``, ``batch`` or ``send``.
        destination: its destination, if it has one.
        action: what the history calls it.
    """

    name = "redrive.pipeline.task_ended"
    level = logging.DEBUG
    labels = (*PipelineEvent.labels, "stage", "destination", "action")

    task: str
    stage: str
    destination: str
    action: str

    def __str__(self) -> str:
        to = f" for {self.destination}" if self.destination else ""
        return f"{self.pipeline}: {self.stage} of task {self.task}{to} is done"


@dataclass(frozen=True, slots=True)
class TaskFailed(PipelineEvent):
    """An attempt of a stage failed. One for each attempt.

    Attributes:
        task: the task's id.
        stage: which stage: ``process``, ``batch`` or ``send``.
        destination: its destination, if it has one.
        action: what the history calls it: ``process_warning``, ``send_error``.
        reason: why.
        delay: seconds until it is tried again; None if it is not.
    """

    name = "redrive.pipeline.task_failed"
    level = logging.WARNING
    labels = (*PipelineEvent.labels, "stage", "destination", "action")

    task: str
    stage: str
    destination: str
    action: str
    reason: str
    delay: float | None

    def __str__(self) -> str:
        then = "it is not tried again" if self.delay is None else f"again in {self.delay:.3g} s"
        to = f" for {self.destination}" if self.destination else ""
        return f"{self.pipeline}: {self.stage} of task {self.task}{to} failed: {self.reason}; {then}"


@dataclass(frozen=True, slots=True)
class SlotServed(PipelineEvent):
    """A slot of a destination was served, or could not be.

    Attributes:
        destination: the destination.
        at: the slot, in seconds since 1970.
        outcome: ``served``, ``empty`` or ``failed``.
        tasks: how many tasks were batched.
        broken: how many tasks break the merge, and have failed.
        reason: why it failed.
    """

    name = "redrive.pipeline.slot_served"
    labels = (*PipelineEvent.labels, "destination", "outcome")

    destination: str
    at: float
    outcome: str
    tasks: int
    broken: int
    reason: str

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.pipeline}: a slot of {self.destination} is {self.outcome}, with {self.tasks} tasks{why}"


@dataclass(frozen=True, slots=True)
class TasksExpired(PipelineEvent):
    """Tasks have waited for longer than the backstop of their destination: a person has to revive or cancel them.

    Attributes:
        tasks: how many.
    """

    name = "redrive.pipeline.tasks_expired"
    level = logging.ERROR

    tasks: int

    def __str__(self) -> str:
        return f"{self.pipeline}: {self.tasks} tasks have waited for too long; redrive pipeline stuck lists them"


@dataclass(frozen=True, slots=True)
class DestinationStopped(PipelineEvent):
    """A destination is away or back, held or released, or cannot be used in this process.

    Attributes:
        destination: the destination; empty: the whole pipeline.
        state: ``away``, ``back``, ``held``, ``running`` or ``broken``.
        reason: why.
    """

    name = "redrive.pipeline.destination_changed"
    level = logging.WARNING
    labels = (*PipelineEvent.labels, "destination", "state")

    destination: str
    state: str
    reason: str

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        who = f"{self.pipeline}: destination {self.destination}" if self.destination else f"pipeline {self.pipeline}"
        return f"{who} is {self.state}{why}"
