# SPDX-License-Identifier: MIT
"""Opening the routes for a command, and reading the files that describe them; an error ends the command."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from redrive.broker import Broker, rules
from redrive.cli.audit import AuditedChange, in_trail
from redrive.cli.exit_status import ExitStatus
from redrive.cli.facades import open_routes
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.output import console
from redrive.cli.output.sentences import some
from redrive.errors import InvalidRoute, RedriveError, RouteNotFound
from redrive.printable import one_line
from redrive.routes import Route, RouteInfo, Routes, read_routes
from redrive.routes.route_file import located

T = TypeVar("T")


def with_routes(
    connection: BrokerConnection,
    do: Callable[[Routes], Awaitable[T]],
    *,
    file: Path | None = None,
    may_create: bool = False,
    change: AuditedChange | None = None,
) -> T:
    """Open the routes, do something with them, close them; an error is printed and ends the command.

    Args:
        connection: where they are.
        do: what to do.
        file: the file that the routes come from, for errors that name its line.
        may_create: whether a database that does not exist is created.
        change: what it changes, for the audit trail; None: nothing.
    """

    async def work(broker: Broker) -> T:
        async with open_routes(broker) as routes:
            try:
                return await do(routes)
            except InvalidRoute as error:
                raise error if file is None else located(error, file) from None

    return with_broker(connection, work, may_create=may_create, change=change)


def with_route(
    connection: BrokerConnection,
    name: str,
    application: str | None,
    do: Callable[[Routes, RouteInfo], Awaitable[T]],
    *,
    change: AuditedChange | None = None,
) -> T:
    """Find a route and do something with it, as ``with_routes`` does.

    Args:
        connection: where it is.
        name: its name.
        application: whose it is; None: the one application that has a route of that name.
        do: what to do.
        change: what it changes, for the audit trail; None: nothing.
    """

    async def work(broker: Broker) -> T:
        async with open_routes(broker) as routes:
            info = await routes.show(name, application or await _owner(routes, name))
            return await in_trail(broker, change, lambda: do(routes, info))

    return with_broker(connection, work)


async def _owner(routes: Routes, name: str) -> str:
    stored = await routes.ledger.routes()
    owners = [each.application for each in stored if each.name == name]
    if len(owners) > 1:
        problem = f"{some(owners, 10)} each have a route {name!r}; say which you mean: --application NAME"
        raise console.refusal(one_line(problem), ExitStatus.NOT_UNDERSTOOD)
    if not owners:
        raise RouteNotFound(name, similar=rules.similar(name, [each.name for each in stored]))
    return owners[0]


def routes_in(file: Path) -> list[Route]:
    """Return the routes of a file; an error is printed with its line and ends the command."""
    try:
        return read_routes(file)
    except RedriveError as error:
        raise console.failure(error) from None


def find_functions() -> None:
    """Let routes call functions of modules in the current directory, as a worker does."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
