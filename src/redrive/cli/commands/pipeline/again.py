# SPDX-License-Identifier: MIT
"""``redrive pipeline resend`` and ``revive``: do again what failed, one task, several, or all of a pipeline."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from redrive.cli.commands.pipeline.bulk_resend import resend_failed
from redrive.cli.commands.pipeline.connection import check_destination, with_pipelines
from redrive.cli.commands.pipeline.task_by_task import change_tasks, tasks_in
from redrive.cli.exit_status import ExitStatus
from redrive.cli.options.connection import BrokerConnection, RecoveryConnection, Yes
from redrive.cli.options.groups import grouped
from redrive.cli.options.pipeline import (
    BulkDestination,
    BulkRate,
    BulkState,
    ChangeOptions,
    OfPipeline,
    SomeTaskIds,
    per_second,
)
from redrive.cli.options.request import RequestOptions, RunOptions
from redrive.cli.output import console
from redrive.cli.output.prompt import confirm
from redrive.cli.output.sentences import count, verb
from redrive.pipeline import Pipelines, TaskInfo, TaskState
from redrive.printable import one_line

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; nothing is changed.")]


@dataclass(frozen=True, slots=True)
class ResendOptions:
    """What of a task is sent again."""

    items: Annotated[
        Literal["failed", "unknown", "all"],
        typer.Option("--items", help="What failed, what has an unknown outcome, or all shipments."),
    ] = "failed"
    again: Annotated[
        bool, typer.Option("--again", help="With --items all: also what has arrived, with another delivery id.")
    ] = False


@grouped
def resend(
    tasks: SomeTaskIds = None,
    *,
    what: ResendOptions,
    pipeline: OfPipeline = None,
    destination: BulkDestination = None,
    state: BulkState = "failed",
    rate: BulkRate = None,
    request: RequestOptions,
    course: RunOptions,
    connection: RecoveryConnection,
) -> None:
    """Send tasks again, or process them again; all that failed with --pipeline.

    What has arrived is not sent again. All failed tasks of a pipeline are an
    operation, as redrive recover makes one: it has a number, and can be
    watched, paused and cancelled. A process with redrive pipeline run does
    the work.

    Examples:
      redrive pipeline resend TASK
      redrive pipeline resend TASK --items unknown --reason 'the lab has nothing'
      redrive pipeline resend --pipeline reports --dry-run
      redrive pipeline resend --pipeline reports -d lab --rate 40/s --yes
      redrive pipeline resend --pipeline reports --state unknown --yes
    """
    speed, change = per_second(rate), ChangeOptions(request.reason, request.actor)
    here = BrokerConnection(connection.url, connection.as_json)
    _check_either(tasks, pipeline)
    if pipeline is not None and state == "failed":
        resend_failed(connection, pipeline, destination, rate=speed, request=request, course=course)
        return
    if speed is not None:
        problem = "--rate is for all failed tasks of a pipeline; a destination has a rate of its own"
        raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
    which = what.items
    if pipeline is not None:
        which, states = "unknown", [TaskState.UNKNOWN]
        tasks = _chosen(here, pipeline, destination, states, course=course, question="Send {} again?", is_batch=False)
    elif course.dry_run:
        raise console.refusal("--dry-run is for --pipeline PIPELINE", ExitStatus.NOT_UNDERSTOOD)

    async def work(pipelines: Pipelines, task: str) -> TaskInfo:
        return await pipelines.resend(task, which=which, again=what.again, **change.who)

    if tasks:
        change_tasks(here, tasks, work, "ready to be done again", change)


@grouped
def revive(
    tasks: SomeTaskIds = None,
    *,
    pipeline: OfPipeline = None,
    destination: BulkDestination = None,
    change: ChangeOptions,
    dry_run: DryRun = False,
    yes: Yes = False,
    connection: BrokerConnection,
) -> None:
    """Let tasks that have expired, or broke a merge, wait for the next slot.

    Without TASK, all of a pipeline or of one of its destinations.

    Examples:
      redrive pipeline revive TASK
      redrive pipeline revive --pipeline reports --destination lab --dry-run
      redrive pipeline revive --pipeline reports --reason 'back again' --yes
    """
    _check_either(tasks, pipeline)
    if pipeline is not None:
        states, course = [TaskState.EXPIRED, TaskState.FAILED], RunOptions(dry_run=dry_run, yes=yes)
        tasks = _chosen(connection, pipeline, destination, states, course=course, question="Revive {}?", is_batch=True)
    elif dry_run:
        raise console.refusal("--dry-run is for --pipeline PIPELINE", ExitStatus.NOT_UNDERSTOOD)

    async def work(pipelines: Pipelines, task: str) -> TaskInfo:
        return await pipelines.revive(task, **change.who)

    if tasks:
        change_tasks(connection, tasks, work, "waiting for a slot", change)


def _check_either(tasks: list[str] | None, pipeline: str | None) -> None:
    if bool(tasks) == (pipeline is not None):
        problem = "say which: TASK..., or --pipeline PIPELINE for all of them; redrive pipeline stuck lists them"
        raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD)


def _chosen(
    connection: BrokerConnection,
    pipeline: str,
    destination: str | None,
    states: list[TaskState],
    *,
    course: RunOptions,
    question: str,
    is_batch: bool,
) -> list[str]:
    """Return the tasks of a pipeline in some states, after the person has agreed; none for a dry run."""

    async def look(pipelines: Pipelines) -> list[str]:
        await check_destination(pipelines, pipeline, destination)
        return await tasks_in(pipelines, pipeline, destination, states, is_batch=is_batch)

    found = with_pipelines(connection, look)
    words = " or ".join(each.word for each in states)
    where = f"pipeline {pipeline}" + (f" for {destination}" if destination else "")
    if course.dry_run:
        if connection.as_json:
            console.print_json({"tasks": found})
        else:
            number = len(found)
            console.say(f"{count(number, 'task')} of {where} {verb(number, 'is')} {words}")
        return []
    if not found:
        raise console.refusal(one_line(f"no task of {where} is {words}"), ExitStatus.NOTHING_CHOSEN)
    confirm(question.format(count(len(found), "task")), yes=course.yes)
    return found
