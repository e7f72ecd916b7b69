# SPDX-License-Identifier: MIT
"""``redrive routes test`` and ``tap``: see what a route does with an event, on trial or live."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from redrive.broker import Message, rules
from redrive.cli.commands.routes.connection import find_functions, routes_in, with_route
from redrive.cli.exit_status import ExitStatus
from redrive.cli.facades import runnable
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.options.message import BodyOptions, MessageOptions
from redrive.cli.options.route import Application, RouteName
from redrive.cli.options.time import seconds
from redrive.cli.output import console
from redrive.cli.output.route_tables import leg_line, step_lines
from redrive.cli.output.sentences import length
from redrive.cli.stop_signals import interrupts, run_until_stopped
from redrive.clock import system_clock
from redrive.errors import RouteNotFound
from redrive.routes import Route, RouteInfo, Routes, views
from redrive.routes.trial import try_route


def _text(help_text: str, *names: str) -> Any:  # noqa: ANN401 - what typer's own function returns
    return typer.Option(*names, metavar="TEXT", help=help_text)


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """The event that goes through a route on trial."""

    event: Annotated[
        str | None, typer.Argument(metavar="EVENT", help="Its body, such as JSON; - for standard input.")
    ] = None
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read it from a file.")] = None
    id: Annotated[str, _text("Its id.")] = "test"
    subject: Annotated[str | None, _text("What it is about.")] = None
    content_type: Annotated[str | None, _text("The MIME type of the body.")] = None
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; repeatable.")
    ] = None

    def message(self) -> Message:
        """Return the event."""
        if (self.event is None) == (self.file is None):
            problem = "say which event: EVENT, - for standard input, or --file FILE"
            raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
        (body,) = BodyOptions(self.event, self.file).bodies()
        properties = MessageOptions(
            id=self.id, subject=self.subject, content_type=self.content_type, header=self.header
        )
        return properties.template()(body)


@grouped
def try_event(
    name: RouteName,
    trial: TrialOptions,
    *,
    definition: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take the route from this file, and need no database.", show_default=False),
    ] = None,
    application: Application = None,
    connection: BrokerConnection,
) -> None:
    """Send an event through a route on trial, and print every step.

    Nothing is sent, and filters that reach outside are not called.

    Examples:
      redrive routes test big-orders '{"total": 250}'
      redrive routes test big-orders --file order.json --header region=eu
      redrive routes test big-orders '{"total": 250}' --definition routes.toml
    """
    message = trial.message()
    find_functions()
    if definition is None:
        route = with_route(connection, name, application, _definition)
    else:
        route = _route_in(definition, name)
    steps = try_route(route, message, system_clock.time())
    if connection.as_json:
        console.print_json(views.steps_view(route, steps))
        return
    for line in step_lines(steps):
        console.out().print(line, soft_wrap=True)


async def _definition(_routes: Routes, info: RouteInfo) -> Route:
    return runnable(info.route)


def _route_in(file: Path, name: str) -> Route:
    found = {each.name: each for each in routes_in(file)}
    if name not in found:
        application = next(iter(found.values())).application if found else "default"
        raise console.failure(RouteNotFound(name, application, rules.similar(name, found)))
    return found[name]


@grouped
def tap(
    name: RouteName,
    *,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long; by default until Ctrl-C.", show_default=False)
    ] = None,
    application: Application = None,
    connection: BrokerConnection,
) -> None:
    """Follow a route: print a line for each event that it deals with, while it does.

    Processes that run routes report the steps; that slows them a little, and
    ends with this command.

    Examples:
      redrive routes tap big-orders
      redrive routes tap big-orders --for 30s --json
    """
    limit = seconds("for", for_)

    async def follow(routes: Routes, info: RouteInfo) -> None:
        end = "Ctrl-C ends it" if limit is None else f"for {length(limit)}"
        console.hint(f"following route {name}, {end}")
        await run_until_stopped(signals, _print_legs(routes, info, limit, as_json=connection.as_json))

    with interrupts() as signals:
        with_route(connection, name, application, follow)


async def _print_legs(routes: Routes, info: RouteInfo, limit: float | None, *, as_json: bool) -> None:
    async for seen in routes.tap(info.route.name, info.route.application, seconds=limit):
        if as_json:
            typer.echo(console.json_line(seen))
        else:
            console.out().print(leg_line(seen), soft_wrap=True)
