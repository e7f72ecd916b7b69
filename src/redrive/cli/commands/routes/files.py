# SPDX-License-Identifier: MIT
"""``redrive routes check`` and ``add``: what a file of routes would change, and changing it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from redrive.cli.audit import AuditedChange
from redrive.cli.commands.routes.connection import routes_in, with_routes
from redrive.cli.exit_status import ExitStatus
from redrive.cli.options.connection import BrokerConnection, missing_file
from redrive.cli.options.groups import grouped
from redrive.cli.options.route import RouteFile
from redrive.cli.output import console
from redrive.cli.output.sentences import count
from redrive.printable import one_line
from redrive.routes import Route, RouteInfo, Routes

Only = Annotated[bool, typer.Option("--only", help="Also drain and remove all other routes of its application.")]


@dataclass(frozen=True, slots=True)
class RouteChange:
    """What a file does to a route.

    Attributes:
        route: the route's name.
        application: whose it is.
        change: ``added``, ``changed``, ``removed`` or ``unchanged``.
        parts: what differs, if it is changed: ``source``, ``filters``, ``sender``, or the name of a setting.
    """

    route: str
    application: str
    change: str
    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = f": {', '.join(self.parts)}" if self.parts else ""
        return f"{self.change:<9}  {self.route}{more}"


@grouped
def check(file: RouteFile, *, only: Only = False, connection: BrokerConnection) -> None:
    """Check a file of routes, and show what adding it would change.

    If the database exists, the routes are checked together with those that
    are there, and with the queues they name. Nothing is changed.

    Examples:
      redrive routes check routes.toml
      redrive routes check routes.yaml --only --json
    """
    wanted = _wanted(file, only=only)

    async def look(routes: Routes) -> list[RouteChange]:
        await routes.check(*wanted)
        return compared(await routes.find(), wanted, only=only)

    missing = missing_file(connection.broker_url)
    changes = None if missing else with_routes(connection, look, file=file)
    if connection.as_json:
        console.print_json(_view(file, changes or compared([], wanted, only=only)))
        return
    console.say(f"{file}: {count(len(wanted), 'route')}: valid")
    if changes is None:
        console.hint(f"there is no database {missing}, so queues and other routes were not looked at")
    _print_changes(changes or [])


@grouped
def add(file: RouteFile, *, only: Only = False, connection: BrokerConnection) -> None:
    """Add the routes of a file, and change those that differ; all or none.

    The database is created if it does not exist. Processes that run routes
    follow within a second. An event that is on its way is delivered by the
    version that it began with.

    Examples:
      redrive routes add routes.toml
      redrive routes add routes.toml --only
    """
    wanted = _wanted(file, only=only)

    async def change(routes: Routes) -> list[RouteChange]:
        changes = compared(await routes.find(), wanted, only=only)
        await routes.apply(*wanted, remove_others_of=wanted[0].application if only else None)
        return changes

    names = ", ".join(each.name for each in wanted)
    noted = AuditedChange("routes.write", f"route:{names}")
    changes = with_routes(connection, change, file=file, may_create=True, change=noted)
    if connection.as_json:
        console.print_json(_view(file, changes))
        return
    _print_changes(changes)
    if any(each.change in ("added", "changed") for each in changes):
        console.hint("processes that run routes follow within a second; start one: redrive routes run")


def _wanted(file: Path, *, only: bool) -> list[Route]:
    found = routes_in(file)
    if not found:
        more = "; to end a route: redrive routes remove NAME" if only else "; write [routes.some-name]"
        raise console.refusal(one_line(f"{file} has no routes{more}"), ExitStatus.NOT_UNDERSTOOD)
    return found


def compared(there: Iterable[RouteInfo], wanted: Sequence[Route], *, only: bool) -> list[RouteChange]:
    """Return what routes that are wanted change about those that are there."""
    known = {(each.route.application, each.route.name): each for each in there}
    changes = [_change(route, known.pop((route.application, route.name), None)) for route in wanted]
    for application, name in known if only else ():
        if application == wanted[0].application:
            changes.append(RouteChange(name, application, "removed"))
    return changes


def _change(route: Route, there: RouteInfo | None) -> RouteChange:
    if there is None:
        return RouteChange(route.name, route.application, "added")
    before, after = there.route.to_table(), route.to_table()
    parts = sorted(name for name in before | after if before.get(name) != after.get(name))
    if there.state not in ("running", "paused"):
        parts.append("runs again")
    return RouteChange(route.name, route.application, "changed" if parts else "unchanged", tuple(parts))


def _print_changes(changes: Sequence[RouteChange]) -> None:
    for each in changes:
        console.say(str(each))


def _view(file: Path, changes: Sequence[RouteChange]) -> dict[str, object]:
    return {"file": str(file), "changes": [{**asdict(each), "parts": list(each.parts)} for each in changes]}
