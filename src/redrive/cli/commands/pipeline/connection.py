# SPDX-License-Identifier: MIT
"""Opening the pipelines for a command, and finding the plan of one; an error ends the command."""

import importlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from redrive.broker import Broker, rules
from redrive.cli.audit import AuditedChange, in_trail
from redrive.cli.commands.routes.connection import find_functions
from redrive.cli.exit_status import ExitStatus
from redrive.cli.facades import open_pipelines
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.output import console
from redrive.errors import DestinationNotFound, PipelineNotFound, RedriveError, UsageError
from redrive.pipeline import Pipeline, PipelinePlan, Pipelines, read_pipeline
from redrive.printable import one_line

T = TypeVar("T")


def with_pipelines(
    connection: BrokerConnection, do: Callable[[Pipelines], Awaitable[T]], *, change: AuditedChange | None = None
) -> T:
    """Open the pipelines, do something with them, close them; an error is printed and ends the command.

    Args:
        connection: where they are.
        do: what to do.
        change: what it changes, for the audit trail; None: nothing.
    """

    async def work(broker: Broker) -> T:
        async with open_pipelines(broker) as pipelines:
            try:
                return await in_trail(broker, change, lambda: do(pipelines))
            except PipelineNotFound as error:
                raise no_pipeline(error.pipeline, await pipelines.names()) from None

    return with_broker(connection, work)


def no_pipeline(name: str, names: list[str], *, noun: str = "pipeline") -> Exception:
    """Print that there is no such pipeline, with the one that was perhaps meant; return what to raise."""
    near = rules.similar(name, names)
    perhaps = "" if near is None else f"did you mean {near!r}? Otherwise "
    problem = f"there is no {noun} {name!r}; {perhaps}redrive pipeline list shows all pipelines"
    return console.refusal(one_line(problem, 500), ExitStatus.NOT_FOUND)


async def check_destination(pipelines: Pipelines, pipeline: str, destination: str | None) -> None:
    """Refuse a destination that a pipeline does not have, and name those that it has."""
    known = tuple(each.name for each in await pipelines.destinations(pipeline))
    if destination is not None and destination not in known:
        raise DestinationNotFound(pipeline, destination, known)


def plan_in(target: str) -> PipelinePlan:
    """Return the pipeline of a file, or of a variable of a module; an error is printed and ends the command."""
    find_functions()
    try:
        is_file = target.lower().endswith(".toml") or Path(target).is_file() or ":" not in target
        return read_pipeline(Path(target)) if is_file else _loaded(target)
    except RedriveError as error:
        raise console.failure(error) from None


def _loaded(target: str) -> PipelinePlan:
    module_name, _, name = target.partition(":")
    if not name or not all(part.isidentifier() for part in module_name.split(".")):
        raise UsageError(f"{target!r} names no pipeline; write a file such as reports.toml, or module:variable")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # something that the module itself imports
        raise UsageError(f"there is no module {module_name!r} in {Path.cwd()}") from None
    found = getattr(module, name, None)
    if isinstance(found, Pipeline):
        return found.plan
    if isinstance(found, PipelinePlan):
        return found
    names = [each for each, value in vars(module).items() if isinstance(value, Pipeline | PipelinePlan)]
    raise UsageError(f"{module_name!r} has no Pipeline called {name!r}; it has: {', '.join(names) or 'none'}")
