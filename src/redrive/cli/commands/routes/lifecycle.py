# SPDX-License-Identifier: MIT
"""``redrive routes pause``, ``resume``, ``drain``, ``remove`` and ``replay``."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from redrive.cli import bulk
from redrive.cli.audit import AuditedChange
from redrive.cli.commands.routes.connection import with_route
from redrive.cli.commands.routes.inspection import queue_of
from redrive.cli.options.connection import BrokerConnection, Yes
from redrive.cli.options.groups import grouped
from redrive.cli.options.route import Application, RouteName
from redrive.cli.options.time import seconds
from redrive.cli.output import console
from redrive.cli.output.prompt import confirm
from redrive.cli.output.sentences import count
from redrive.routes import RouteInfo, Routes, views
from redrive.routes.removal import changed_route


@grouped
def pause(
    name: RouteName,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; show displays it.")] = "",
    application: Application = None,
    connection: BrokerConnection,
) -> None:
    """Stop delivering on a route. Its events are stored, and wait.

    Example: redrive routes pause big-orders --reason 'the warehouse moves'
    """
    info = _changed(
        connection, name, application, lambda routes, whose: routes.pause(name, whose, reason=reason), reason
    )
    waits = "its events are stored, and wait" if info.queue else "it stores nothing, so its events are lost meanwhile"
    _print(connection, info, f"route {name} is paused: {waits}")


@grouped
def resume(name: RouteName, *, application: Application = None, connection: BrokerConnection) -> None:
    """Deliver again on a route that was paused, or that was being drained.

    Example: redrive routes resume big-orders
    """
    info = _changed(connection, name, application, lambda routes, whose: routes.resume(name, whose))
    _print(connection, info, f"route {name} is running; {_waiting(info)}")


@grouped
def drain(
    name: RouteName,
    *,
    within: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long it may take; what is left then becomes dead.", show_default=False),
    ] = None,
    application: Application = None,
    connection: BrokerConnection,
) -> None:
    """Give a route no more events; it is removed when it has delivered what it has.

    A process that runs routes delivers them. Until then resume brings the
    route back.

    Examples:
      redrive routes drain big-orders
      redrive routes drain big-orders --within 5m
    """
    limit = seconds("within", within)
    info = _changed(connection, name, application, lambda routes, whose: routes.drain(name, whose, within=limit))
    _print(connection, info, _ending(info))


@grouped
def remove(name: RouteName, *, yes: Yes = False, application: Application = None, connection: BrokerConnection) -> None:
    """Remove a route now. Events that wait on it become dead letters of its queue.

    To deliver them first: redrive routes drain NAME

    Example: redrive routes remove big-orders --yes
    """
    info = with_route(connection, name, application, _same)
    waits = "1 event that waits becomes a dead letter." if info.waiting == 1 else ""
    waits = waits or f"{count(info.waiting, 'event')} that wait become dead letters."
    confirm(f"Remove route {name}? {waits if info.waiting else 'Nothing waits on it.'}", yes=yes)
    info = _changed(connection, name, application, lambda routes, whose: routes.remove(name, whose))
    _print(connection, info, _ending(info))


@grouped
def replay(
    name: RouteName,
    *,
    max_messages: Annotated[
        int | None,
        typer.Option("--max", "-n", metavar="N", min=1, help="How many at most, oldest first; all by default."),
    ] = None,
    yes: Yes = False,
    application: Application = None,
    connection: BrokerConnection,
) -> None:
    """Try the dead events of a route again, on that route alone.

    Other routes, which have delivered them, get nothing. Events keep their
    ids, so a destination that has one already can tell.

    Examples:
      redrive routes replay big-orders
      redrive routes replay big-orders --max 1 --yes
    """
    queue = with_route(connection, name, application, _queue)
    bulk.resubmit(connection, queue, max_messages=max_messages, yes=yes, words=bulk.replay_words(name))


async def _same(_routes: Routes, info: RouteInfo) -> RouteInfo:
    return info


async def _queue(_routes: Routes, info: RouteInfo) -> str:
    return queue_of(info)


def _changed(
    connection: BrokerConnection,
    name: str,
    application: str | None,
    change: Callable[[Routes, str], Awaitable[None]],
    reason: str = "",
) -> RouteInfo:
    """Change a route; return what it is then."""

    async def work(routes: Routes, info: RouteInfo) -> RouteInfo:
        return await changed_route(routes, info, lambda _name, whose: change(routes, whose))

    noted = AuditedChange("routes.change", f"route:{name}", reason)
    return with_route(connection, name, application, work, change=noted)


def _ending(info: RouteInfo) -> str:
    name = info.route.name
    if info.state == "removed":
        return f"route {name} is removed" + (f", with {_dead(info)}" if info.dead else "")
    now = "drained" if info.state == "draining" else "removed"
    return f"route {name} is being {now}; {_waiting(info)}; a process that runs routes finishes it: redrive routes run"


def _dead(info: RouteInfo) -> str:
    return f"{count(info.dead, 'dead event')}: redrive dead list {info.queue}"


def _waiting(info: RouteInfo) -> str:
    number = info.waiting
    return f"{count(number, 'event')} {'waits' if number == 1 else 'wait'}" if number else "nothing waits"


def _print(connection: BrokerConnection, info: RouteInfo, sentence: str) -> None:
    if connection.as_json:
        console.print_json(views.route_view(info))
    else:
        console.say(sentence)
