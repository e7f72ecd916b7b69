# SPDX-License-Identifier: MIT
"""``redrive pipeline resolve``, ``hold``, ``release`` and ``cancel``."""

from typing import Annotated, Literal

import typer

from redrive.cli.commands.pipeline.connection import check_destination, with_pipelines
from redrive.cli.commands.pipeline.task_by_task import change_tasks
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.options.pipeline import ChangeOptions, DestinationName, PipelineName, TaskId, TaskIds
from redrive.cli.output import console
from redrive.cli.output.sentences import count, verb
from redrive.pipeline import DestinationInfo, Pipelines, TaskInfo, views


@grouped
def resolve(
    task: TaskId,
    *,
    item: Annotated[list[int], typer.Option("--item", metavar="N", min=1, help="Which shipment; repeatable.")],
    as_: Annotated[
        Literal["sent", "not-sent"],
        typer.Option("--as", help="Whether it has arrived; what has not is sent again."),
    ],
    change: ChangeOptions,
    connection: BrokerConnection,
) -> None:
    """Say what has become of shipments with an unknown outcome.

    The task is done when all its shipments have arrived.

    Examples:
      redrive pipeline resolve TASK --item 3 --as sent
      redrive pipeline resolve TASK --item 1 --item 2 --as not-sent --reason 'asked'
    """

    async def work(pipelines: Pipelines) -> TaskInfo:
        return await pipelines.resolve(task, item, arrived=as_ == "sent", **change.who)

    found = with_pipelines(connection, work, change=change.noted(f"task:{task}"))
    if connection.as_json:
        console.print_json(views.record_view(found))
        return
    number = len(item)
    what = f"{count(number, 'shipment')} {verb(number, 'has')} arrived" if as_ == "sent" else "it is sent again"
    console.say(f"task {found.id}: {what}; the task is {found.state.word}")


@grouped
def hold(
    name: PipelineName, destination: DestinationName, *, change: ChangeOptions, connection: BrokerConnection
) -> None:
    """Let nothing be batched for a destination and sent to it.

    What is made for it is stored, and waits. Processes that run the pipeline
    follow within a second; what is being sent is finished.

    Example: redrive pipeline hold reports lab --reason 'the lab moves'
    """

    async def work(pipelines: Pipelines) -> DestinationInfo:
        await check_destination(pipelines, name, destination)
        await pipelines.hold(name, destination, **change.who)
        return await _found(pipelines, name, destination)

    info = with_pipelines(connection, work, change=change.noted(f"destination:{name}/{destination}"))
    _print(connection, info, f"{destination} is held: what is made for it waits")
    if not connection.as_json:
        console.hint(f"to go on: redrive pipeline release {name} {destination}")


@grouped
def release(
    name: PipelineName, destination: DestinationName, *, change: ChangeOptions, connection: BrokerConnection
) -> None:
    """Let a destination that was held go on.

    Example: redrive pipeline release reports lab
    """

    async def work(pipelines: Pipelines) -> DestinationInfo:
        await check_destination(pipelines, name, destination)
        await pipelines.release(name, destination, **change.who)
        return await _found(pipelines, name, destination)

    info = with_pipelines(connection, work, change=change.noted(f"destination:{name}/{destination}"))
    waiting = f"{count(info.waiting, 'task')} {'waits' if info.waiting == 1 else 'wait'} for a slot"
    _print(connection, info, f"{destination} is released; {waiting if info.waiting else 'nothing waits for a slot'}")


@grouped
def send_now(
    name: PipelineName, destination: DestinationName, *, change: ChangeOptions, connection: BrokerConnection
) -> None:
    """Let what waits for a slot of a destination be sent now.

    A process that runs the pipeline makes the batch. The next slot on the
    timetable comes as it would have.

    Example: redrive pipeline send-now reports lab --reason 'they ask for it'
    """

    async def work(pipelines: Pipelines) -> DestinationInfo:
        await check_destination(pipelines, name, destination)
        await pipelines.send_now(name, destination, **change.who)
        return await _found(pipelines, name, destination)

    info = with_pipelines(connection, work, change=change.noted(f"destination:{name}/{destination}"))
    _print(connection, info, f"{count(info.waiting, 'task')} for {destination} will be sent now")


async def _found(pipelines: Pipelines, name: str, destination: str) -> DestinationInfo:
    return next(each for each in await pipelines.destinations(name) if each.name == destination)


def _print(connection: BrokerConnection, info: DestinationInfo, sentence: str) -> None:
    if connection.as_json:
        console.print_json(views.record_view(info))
    else:
        console.say(sentence)


@grouped
def cancel(tasks: TaskIds, *, change: ChangeOptions, connection: BrokerConnection) -> None:
    """Let nothing more be done with tasks. resend and revive bring them back.

    Example: redrive pipeline cancel TASK --reason 'test data'
    """

    async def work(pipelines: Pipelines, task: str) -> TaskInfo:
        return await pipelines.cancel(task, **change.who)

    change_tasks(connection, tasks, work, "cancelled", change)
