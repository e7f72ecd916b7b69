# SPDX-License-Identifier: MIT
"""Which pipeline, destination and tasks a command is about."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import typer

from redrive import connect, open_pipelines
from redrive.cli.audit import AuditedChange
from redrive.cli.exit_status import ExitStatus
from redrive.cli.options.connection import missing_file, typed_url
from redrive.cli.options.request import Actor, Reason, actor_name
from redrive.cli.output import console
from redrive.errors import RedriveError
from redrive.pipeline import TaskState

STATES = [each.word for each in TaskState]
_BULK = "Many tasks"


def complete_pipeline(context: typer.Context) -> list[str]:
    """Return the names of the pipelines, for a shell; none if they cannot be found out quickly."""
    url = typed_url(context)
    try:
        return [] if missing_file(url) else asyncio.run(_pipelines(url))
    except RedriveError:
        return []


async def _pipelines(url: str) -> list[str]:
    async with connect(url) as broker, open_pipelines(broker) as pipelines:
        return await pipelines.names()


def complete_destination(context: typer.Context) -> list[str]:
    """Return the destinations of the pipeline that was named, for a shell."""
    url, name = typed_url(context), context.params.get("name") or context.params.get("pipeline")
    try:
        return [] if missing_file(url) or not name else asyncio.run(_destinations(url, str(name)))
    except RedriveError:
        return []


async def _destinations(url: str, name: str) -> list[str]:
    async with connect(url) as broker, open_pipelines(broker) as pipelines:
        return [each.name for each in await pipelines.destinations(name)]


def complete_state(incomplete: str) -> list[str]:
    """Return the states of a task, for a shell."""
    return [each for each in STATES if each.startswith(incomplete)]


PlanTarget = Annotated[
    str,
    typer.Argument(metavar="PLAN", help="The pipeline: a .toml file, or app:pipe for the variable pipe in app.py."),
]
PipelineName = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="The pipeline.", autocompletion=complete_pipeline)
]
AnyPipeline = Annotated[
    str | None,
    typer.Argument(
        metavar="PIPELINE", help="Only of this pipeline.", autocompletion=complete_pipeline, show_default=False
    ),
]
DestinationName = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="The destination.", autocompletion=complete_destination)
]
OfDestination = Annotated[
    str | None,
    typer.Option(
        "--destination", "-d", metavar="NAME", help="Only for this destination.", autocompletion=complete_destination
    ),
]
OfState = Annotated[
    list[str] | None,
    typer.Option(
        "--state", metavar="WORD", help=f"Only in this state: {', '.join(STATES)}.", autocompletion=complete_state
    ),
]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The id of the task.")]
TaskIds = Annotated[list[str], typer.Argument(metavar="TASK", help="The ids of the tasks.", show_default=False)]
SomeTaskIds = Annotated[
    list[str] | None, typer.Argument(metavar="TASK", help="The ids of the tasks.", show_default=False)
]
OfPipeline = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        "-p",
        metavar="PIPELINE",
        help="All tasks of this pipeline.",
        autocompletion=complete_pipeline,
        rich_help_panel=_BULK,
    ),
]
BulkDestination = Annotated[
    str | None,
    typer.Option(
        "--destination",
        "-d",
        metavar="NAME",
        help="Only those for this destination.",
        autocompletion=complete_destination,
        rich_help_panel=_BULK,
    ),
]
BulkState = Annotated[
    Literal["failed", "unknown"],
    typer.Option("--state", help="Those that failed, or those with an unknown outcome.", rich_help_panel=_BULK),
]
BulkRate = Annotated[
    str | None,
    typer.Option("--rate", metavar="RATE", help="At most so many at a time: 40/s, 600/m.", rich_help_panel=_BULK),
]


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Who changes something, and why."""

    reason: Reason = ""
    actor: Actor = None

    @property
    def who(self) -> dict[str, str]:
        """The arguments of ``Pipelines`` that say who changes something, and why."""
        return {"actor": actor_name(self.actor), "reason": self.reason}

    def noted(self, subject: str) -> AuditedChange:
        """Return the change of something, for the audit trail."""
        return AuditedChange("pipelines.change", subject, self.reason, self.actor)


def states_of(words: list[str] | None) -> list[TaskState]:
    """Return the states that an option names; it may be given several times, or with commas."""
    named = [word for text in words or () for word in text.replace(",", " ").split()]
    for word in named:
        if word not in STATES:
            problem = f"--state {word!r}: there are {', '.join(STATES)}"
            raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
    return [TaskState[word.upper()] for word in named]


def per_second(text: str | None) -> float | None:
    """Return the rate that an option states; a number alone is one a second."""
    if text is None:
        return None
    number, _, unit = text.partition("/")
    spans = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0}
    try:
        rate = float(number) / spans[unit.strip().lower()]
    except (ValueError, KeyError):
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise console.refusal(f"--rate {text!r}: write 40/s, 600/m or 100/h", ExitStatus.NOT_UNDERSTOOD)
    return rate


def instant_in(zone: str, text: str) -> datetime:
    """Return the instant that ``--from`` states; without an offset it is on the clocks of a zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        problem = f"--from {text!r}: write a date such as 2026-10-31, or 2026-10-31T22:00"
        raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD) from None
    return at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))
