# SPDX-License-Identifier: MIT
"""``redrive pipeline list`` and ``show``: what pipelines do, and everything about one or about a task."""

from typing import Annotated

import typer

from redrive.cli.commands.pipeline.connection import no_pipeline, with_pipelines
from redrive.cli.commands.pipeline.lineage import TraceFound, print_trace, traced
from redrive.cli.commands.queues import hand_down
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.options.pipeline import complete_pipeline
from redrive.cli.output import console
from redrive.cli.output.pipeline_tables import (
    PipelineSummary,
    destinations_table,
    history_lines,
    pipelines_table,
    plan_lines,
    shipments_table,
    task_lines,
    trouble_lines,
)
from redrive.cli.output.table import print_table
from redrive.clock import utc
from redrive.errors import TaskNotFound
from redrive.pipeline import DestinationInfo, Pipelines, ShipmentState, TaskDetail, TaskState, views


@grouped
def pipeline(context: typer.Context, *, connection: BrokerConnection) -> None:
    """Run pipelines, find work that is stuck, and send again what failed.

    A pipeline receives, processes, batches and sends. Each stage stores what
    it has done, so that only what failed is done again.

    Examples:
      redrive pipeline check reports.toml
      redrive pipeline run reports.toml --listen 127.0.0.1:8080
      redrive pipeline
      redrive pipeline stuck
      redrive pipeline resend --pipeline reports --dry-run
    """
    if context.invoked_subcommand is not None:
        hand_down(context, connection)
        return
    print_pipelines(connection)


@grouped
def list_pipelines(connection: BrokerConnection) -> None:
    """List the pipelines, and how many of their tasks are in which state.

    ready: to be processed or sent; waiting: for a slot; failed, unknown and
    expired need a person.

    Example: redrive pipeline list --json
    """
    print_pipelines(connection)


def print_pipelines(connection: BrokerConnection) -> None:
    """Print all pipelines."""

    async def look(pipelines: Pipelines) -> list[PipelineSummary]:
        return [await _summary(pipelines, name) for name in await pipelines.names()]

    found = with_pipelines(connection, look)
    if connection.as_json:
        console.print_json([_summary_view(each) for each in found])
    elif found:
        print_table(pipelines_table(found))
    else:
        console.say("no pipelines yet; run one: redrive pipeline run FILE")


async def _summary(pipelines: Pipelines, name: str) -> PipelineSummary:
    plan, infos = await pipelines.plan_of(name), await pipelines.destinations(name)
    now = await pipelines.ledger.now()
    timings = {each.name: each.timing for each in plan.destinations.values() if each.timing is not None}
    return PipelineSummary(
        plan=plan,
        infos=tuple(infos),
        counts=await pipelines.counts(name),
        next_slots={name: utc(timing.next_after(now)) for name, timing in timings.items()},
        problems={each.name: problem for each in infos if (problem := await _problem(pipelines, each))},
    )


async def _problem(pipelines: Pipelines, info: DestinationInfo) -> str:
    """Return why the last attempt failed of a task that is to be sent; empty if there is none."""
    ready = await pipelines.tasks(info.pipeline, destination=info.name, states=[TaskState.READY], limit=1)
    for task in ready:
        for each in await pipelines.ledger.shipments(task.id):
            if each.attempt and each.reason:
                return each.reason
    return ""


def _summary_view(summary: PipelineSummary) -> dict[str, object]:
    return views.pipeline_view(summary.plan, summary.infos, summary.counts, summary.next_slots)


# --- one of them


@grouped
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="PIPELINE|TASK", help="The pipeline, or a task.", autocompletion=complete_pipeline),
    ],
    *,
    lineage: Annotated[
        bool, typer.Option("--lineage", help="Also where its items come from and have gone to.")
    ] = False,
    connection: BrokerConnection,
) -> None:
    """Show a pipeline and what waits in it, or a task and its history.

    Passwords and secrets in a pipeline are not shown. A task is shown with
    what its destination said of each shipment.

    Examples:
      redrive pipeline show reports
      redrive pipeline show TASK --lineage
    """

    async def look(pipelines: Pipelines) -> PipelineSummary | tuple[TaskDetail, TraceFound | None]:
        names = await pipelines.names()
        if name in names:
            return await _summary(pipelines, name)
        try:
            return await pipelines.show(name), await traced(pipelines, name) if lineage else None
        except TaskNotFound:
            raise no_pipeline(name, names, noun="pipeline or task") from None

    found = with_pipelines(connection, look)
    if isinstance(found, PipelineSummary):
        _print_pipeline(found, as_json=connection.as_json)
    else:
        _print_task(*found, as_json=connection.as_json)


def _print_pipeline(summary: PipelineSummary, *, as_json: bool) -> None:
    if as_json:
        console.print_json(_summary_view(summary))
        return
    for line in plan_lines(summary.plan):
        console.out().print(line, soft_wrap=True)
    console.say("")
    print_table(destinations_table(summary))
    for line in trouble_lines(summary):
        console.out().print(line, soft_wrap=True)


def _print_task(detail: TaskDetail, trace: TraceFound | None, *, as_json: bool) -> None:
    if as_json:
        console.print_json(views.detail_view(detail, None if trace is None else trace.trace))
        return
    for line in task_lines(detail.task):
        console.out().print(line, soft_wrap=True)
    if detail.shipments:
        console.say("")
        print_table(shipments_table(detail.shipments))
    console.say("")
    for line in history_lines(detail.history, of_task=True):
        console.out().print(line, soft_wrap=True)
    if trace is not None:
        console.say("")
        print_trace(trace)
    console.hint(_ways_on(detail))


def _ways_on(detail: TaskDetail) -> str:
    """Return what a person can do with a task."""
    task = detail.task
    if task.state in (TaskState.FAILED, TaskState.EXPIRED, TaskState.CANCELLED):
        verb = "revive" if task.stage == "batch" else "resend"
        return f"do it again: redrive pipeline {verb} {task.id}"
    if task.state is TaskState.UNKNOWN:
        number = next((each.index for each in detail.shipments if each.state is ShipmentState.UNKNOWN), 1)
        resolve = f"redrive pipeline resolve {task.id} --item {number} --as sent"
        return f"if it has arrived: {resolve}; to send it again: redrive pipeline resend {task.id} --items unknown"
    return f"where its items are: redrive pipeline trace {task.id}"
