# SPDX-License-Identifier: MIT
"""All failed tasks of a pipeline, as one operation: their messages are dead letters, and are recovered."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from redrive.cli.commands.pipeline.connection import check_destination, with_pipelines
from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import OpenRecovery, with_recovery
from redrive.cli.options.connection import BrokerConnection, RecoveryConnection
from redrive.cli.options.request import RequestOptions, RunOptions
from redrive.cli.options.sources import Sources
from redrive.cli.output import console
from redrive.cli.output.dry_run import Forecast, check_any, forecast
from redrive.cli.output.prompt import confirm
from redrive.cli.output.sentences import count, verb
from redrive.cli.watch import run_operation
from redrive.pipeline import Pipelines, TaskState
from redrive.printable import one_line
from redrive.recovery import Filter, Operation


@dataclass(frozen=True, slots=True)
class FailedTasks:
    """The failed tasks of a pipeline.

    Attributes:
        pipeline: the pipeline.
        destination: only those for this destination; None: all.
        queues: how many there are, by the queue of their stage; queues without any are there, too.
        broken: how many broke a merge: these have no message, and are revived.
    """

    pipeline: str
    destination: str | None
    queues: Mapping[str, int]
    broken: int

    @property
    def total(self) -> int:
        """How many can be sent or processed again."""
        return sum(self.queues.values())

    @property
    def where(self) -> str:
        """Whose they are, in words."""
        return f"pipeline {self.pipeline}" + (f" for {self.destination}" if self.destination else "")

    @property
    def hint(self) -> str:
        """A sentence about those that are not sent; empty if there are none."""
        if not self.broken:
            return ""
        more = f" --destination {self.destination}" if self.destination else ""
        broke = f"{count(self.broken, 'task')} broke a merge, and {verb(self.broken, 'is')} not sent"
        return f"{broke}; to batch again: redrive pipeline revive --pipeline {self.pipeline}{more}"

    def view(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "pipeline": self.pipeline,
            "destination": self.destination,
            "tasks": self.total,
            "by_queue": {queue: number for queue, number in self.queues.items() if number},
            "broken": self.broken,
        }


def resend_failed(
    connection: RecoveryConnection,
    pipeline: str,
    destination: str | None,
    *,
    rate: float | None,
    request: RequestOptions,
    course: RunOptions,
) -> None:
    """Request that all failed tasks of a pipeline are sent or processed again, and watch the results."""
    wait = course.wait_s
    found = with_pipelines(
        BrokerConnection(connection.url), lambda pipelines: _failed(pipelines, pipeline, destination)
    )
    if course.dry_run:
        _print_dry_run(found, as_json=connection.as_json)
        return
    if not found.total:
        problem = f"no task of {found.where} has failed that can be sent again"
        raise console.refusal(one_line("; ".join(filter(None, (problem, found.hint)))), ExitStatus.NOTHING_CHOSEN)
    console.warn(found.hint)
    confirm(f"Send {count(found.total, 'failed task')} of {found.where} again?", yes=course.yes)
    sources = Sources(dead_letters=list(found.queues))
    chosen = Filter(queues=tuple(found.queues))

    async def look(opened: OpenRecovery) -> Forecast:
        await opened.ingest()
        seen = await forecast(opened, chosen, await opened.recovery.dry_run(chosen), [], request.key)
        return replace(seen, hint="")  # failures of other queues are not meant

    async def ask(opened: OpenRecovery) -> Operation:
        operation = await opened.recovery.recover(chosen, rate=rate, **request.who)
        verbs = "   ".join(f"redrive operations {verb} {operation.number}" for verb in ("watch", "pause", "cancel"))
        console.hint(f"operation {operation.number}: {verbs}")
        console.hint("a process that runs the pipeline does the work: redrive pipeline run PLAN")
        return operation

    _check(with_recovery(connection, look, sources.without_ingest))
    run_operation(connection, sources, wait, ask, is_left=lambda _operation: course.detach)


def _check(seen: Forecast) -> None:
    """Refuse a request that would send nothing."""
    if not seen.is_repeated and not seen.found.matched and seen.sent is not None and seen.sent.holders:
        number = seen.sent.holders[0].operation
        problem = f"operation {number} has sent the messages of these tasks already, and nothing has come of it yet"
        way_on = f"run the pipeline: redrive pipeline run PLAN\n  redrive operations show {number}"
        raise console.refusal(f"{problem}; {way_on}", ExitStatus.NOTHING_CHOSEN)
    check_any(seen)


async def _failed(pipelines: Pipelines, pipeline: str, destination: str | None) -> FailedTasks:
    await check_destination(pipelines, pipeline, destination)
    counts = await pipelines.counts(pipeline)
    queues = {
        queue: counts.get((stage, name, TaskState.FAILED), 0)
        for queue, (stage, name) in (await pipelines.failure_queues(pipeline, destination)).items()
    }
    broken = sum(
        number
        for (stage, name, state), number in counts.items()
        if stage == "batch" and state is TaskState.FAILED and destination in (None, name)
    )
    return FailedTasks(pipeline, destination, queues, broken)


def _print_dry_run(found: FailedTasks, *, as_json: bool) -> None:
    if as_json:
        console.print_json(found.view())
        return
    console.say(f"{count(found.total, 'failed task')} of {found.where} would be sent again")
    for queue, number in found.queues.items():
        if number:
            console.say(f"  {number:,} to {queue}")
    console.warn(found.hint)
