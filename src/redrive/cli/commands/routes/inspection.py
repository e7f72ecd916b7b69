# SPDX-License-Identifier: MIT
"""``redrive routes list``, ``show`` and ``dead``: what routes do, what they have been, and what they could not do."""

from typing import Any

import typer

from redrive.cli.commands.dead import print_dead_letters
from redrive.cli.commands.queues import hand_down
from redrive.cli.commands.routes.connection import with_route, with_routes
from redrive.cli.facades import earlier_queues, route_history
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.options.page import Max, Start
from redrive.cli.options.route import Application, OfApplication, RouteName
from redrive.cli.output import console
from redrive.cli.output.route_tables import route_lines, routes_table, versions_table
from redrive.cli.output.sentences import some
from redrive.cli.output.table import print_table
from redrive.errors import RouteConflict
from redrive.routes import RouteInfo, Routes, views


@grouped
def routes(context: typer.Context, *, application: OfApplication = None, connection: BrokerConnection) -> None:
    """Send each event to many places, and replay where that failed.

    A route reads events from a source, such as an HTTP path or a queue, lets
    them pass filters, and sends them on. Files describe routes; add stores
    them in the database, and every process that runs routes follows.

    Examples:
      redrive routes check routes.toml
      redrive routes add routes.toml
      redrive routes test big-orders '{"total": 250}'
      redrive routes run --listen 127.0.0.1:8080
      redrive routes
      redrive routes dead big-orders
      redrive routes replay big-orders
    """
    if context.invoked_subcommand is not None:
        hand_down(context, connection, application=application)
        return
    print_routes(connection, application)


@grouped
def list_routes(*, application: OfApplication = None, connection: BrokerConnection) -> None:
    """List the routes, what waits on each, and how many of its events are dead.

    oldest is the age of the oldest event that could be delivered now.

    Examples:
      redrive routes list
      redrive routes list --application shop --json
    """
    print_routes(connection, application)


def print_routes(connection: BrokerConnection, application: str | None) -> None:
    """Print the routes of an application, or all."""
    found = with_routes(connection, lambda routes: routes.find(application))
    if connection.as_json:
        console.print_json([views.route_view(each) for each in found])
    elif found:
        print_table(routes_table(found))
    else:
        whose = "" if application is None else f" of application {application!r}"
        console.say(f"no routes{whose} yet; add some: redrive routes add FILE")


@grouped
def show(name: RouteName, *, application: Application = None, connection: BrokerConnection) -> None:
    """Show a route: its parts, its state, what waits on it, and its history.

    Passwords and secrets in it are not shown.

    Examples:
      redrive routes show big-orders
      redrive routes show big-orders --application shop --json
    """

    async def look(routes: Routes, info: RouteInfo) -> tuple[RouteInfo, list[dict[str, Any]]]:
        return info, await route_history(routes, info)

    info, history = with_route(connection, name, application, look)
    if connection.as_json:
        console.print_json({**views.route_view(info), "history": history})
        return
    for line in route_lines(info):
        console.out().print(line, soft_wrap=True)
    console.say("")
    print_table(versions_table(history))


@grouped
def dead(
    name: RouteName,
    *,
    application: Application = None,
    max_messages: Max = 20,
    start: Start = 0,
    connection: BrokerConnection,
) -> None:
    """List the events that a route could not deliver, and why.

    They wait until they are replayed on this route alone, or purged.

    Examples:
      redrive routes dead big-orders
      redrive routes dead big-orders --max 100 --json
    """

    async def look(routes: Routes, info: RouteInfo) -> tuple[str, tuple[str, ...]]:
        return queue_of(info), await earlier_queues(routes, info)

    queue, earlier = with_route(connection, name, application, look)
    none = f"route {name} has no dead events"
    print_dead_letters(connection, queue, max_messages=max_messages, start=start, none=none)
    if earlier:
        console.hint(f"older ones may be in {some(earlier)}, which it had before: redrive dead list QUEUE")


def queue_of(info: RouteInfo) -> str:
    """Return the queue of a route's legs.

    Raises:
        RouteConflict: it has none.
    """
    if info.queue is None:
        raise RouteConflict(info.route.name, "its delivery is direct, which stores nothing: it has no dead events")
    return info.queue
