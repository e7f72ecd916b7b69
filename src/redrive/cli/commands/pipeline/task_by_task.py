# SPDX-License-Identifier: MIT
"""Changing one task after another: what was done is counted, also after Ctrl-C, and each failure is listed."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import typer

from redrive.cli.commands.pipeline.connection import with_pipelines
from redrive.cli.exit_status import ExitStatus, status_of
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.pipeline import ChangeOptions
from redrive.cli.output import console
from redrive.cli.output.progress import progress_bar
from redrive.cli.output.sentences import count
from redrive.cli.stop_signals import interrupts
from redrive.errors import RedriveError, TaskConflict, TaskNotFound
from redrive.pipeline import Pipelines, TaskInfo, TaskState, views
from redrive.printable import one_line

_PAGE = 1_000
_SHOWN_FAILURES = 20


@dataclass(slots=True)
class TaskChanges:
    """What came of a change of several tasks.

    Attributes:
        total: how many there are.
        done: those that are changed, as they are now.
        failed: those that are not, and why.
    """

    total: int
    done: list[TaskInfo] = field(default_factory=list[TaskInfo])
    failed: list[tuple[str, RedriveError]] = field(default_factory=list[tuple[str, RedriveError]])

    @property
    def left(self) -> int:
        """How many were not tried."""
        return self.total - len(self.done) - len(self.failed)

    def view(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "changed": [views.record_view(each) for each in self.done],
            "failed": [{"task": task, "error": error.code, "detail": str(error)} for task, error in self.failed],
            "not_tried": self.left,
        }


def change_tasks(
    connection: BrokerConnection,
    tasks: Sequence[str],
    do: Callable[[Pipelines, str], Awaitable[TaskInfo]],
    done: str,
    change: ChangeOptions,
) -> None:
    """Change tasks one after another, and print what came of it; Ctrl-C ends it after a task.

    Args:
        connection: where they are.
        tasks: their ids.
        do: changes one.
        done: what they are then: ``cancelled``.
        change: who changes them, and why.
    """
    wanted = list(dict.fromkeys(tasks))
    changes = TaskChanges(len(wanted))

    async def work(pipelines: Pipelines) -> None:
        with progress_bar() as bar, interrupts() as signals:
            shown = bar.add_task(done, total=len(wanted), visible=len(wanted) > 1)
            for task in wanted:
                if signals.count:
                    return
                try:
                    changes.done.append(await do(pipelines, task))
                except (TaskConflict, TaskNotFound) as error:
                    changes.failed.append((task, error))
                bar.advance(shown)

    subject = f"task:{wanted[0]}" if len(wanted) == 1 else count(len(wanted), "task")
    with_pipelines(connection, work, change=change.noted(subject))
    _conclude(connection, changes, done)


def _conclude(connection: BrokerConnection, changes: TaskChanges, done: str) -> None:
    if changes.total == 1 and changes.failed and not connection.as_json:
        raise console.failure(changes.failed[0][1])
    if connection.as_json:
        console.print_json(changes.view())
    elif changes.total == 1 and changes.done:
        console.say(f"task {changes.done[0].id} is {done}")
    else:
        left = f"; stopped, {changes.left:,} not tried" if changes.left else ""
        failed = f"; {len(changes.failed):,} not" if changes.failed else ""
        console.say(f"{count(len(changes.done), 'task')} {done}{failed}{left}")
    if not connection.as_json:
        for _, error in changes.failed[:_SHOWN_FAILURES]:
            console.warn(one_line(error, 500))
        if len(changes.failed) > _SHOWN_FAILURES:
            console.warn(f"and {len(changes.failed) - _SHOWN_FAILURES:,} more, see --json")
    if changes.left:
        raise typer.Exit(int(ExitStatus.INTERRUPTED))
    if changes.failed:
        alone = changes.total == 1
        raise typer.Exit(int(status_of(changes.failed[0][1]) if alone else ExitStatus.NOT_ALL))


async def tasks_in(
    pipelines: Pipelines, pipeline: str, destination: str | None, states: Sequence[TaskState], *, is_batch: bool
) -> list[str]:
    """Return the ids of all tasks in some states, the oldest first.

    Args:
        pipelines: the pipelines.
        pipeline: which one.
        destination: only those for this destination.
        states: the states.
        is_batch: whether those that wait for slots are meant, or all others.
    """
    found: list[str] = []
    before: str | None = None
    while page := await pipelines.tasks(pipeline, destination=destination, states=states, limit=_PAGE, before=before):
        found += [each.id for each in page if (each.stage == "batch") == is_batch]
        before = page[-1].id
    return found[::-1]
