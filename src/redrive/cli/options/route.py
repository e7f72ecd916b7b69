# SPDX-License-Identifier: MIT
"""Which route a command is about, and the files that describe routes."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from redrive import connect, open_routes
from redrive.cli.options.connection import missing_file, typed_url
from redrive.errors import RedriveError


def complete_route(context: typer.Context) -> list[tuple[str, str]]:
    """Return the names of the routes, for a shell; none if they cannot be found out quickly."""
    url = typed_url(context)
    try:
        return [] if missing_file(url) else asyncio.run(_names(url))
    except RedriveError:
        return []


async def _names(url: str) -> list[tuple[str, str]]:
    async with connect(url) as broker, open_routes(broker) as routes:
        return [(each.name, f"{each.application}, {each.state}") for each in await routes.ledger.routes()]


RouteName = Annotated[str, typer.Argument(metavar="NAME", help="The route.", autocompletion=complete_route)]
Application = Annotated[
    str | None,
    typer.Option("--application", "-a", metavar="TEXT", help="Whose route; needed if several have one of that name."),
]
OfApplication = Annotated[
    str | None, typer.Option("--application", "-a", metavar="TEXT", help="Only routes of this application.")
]
RouteFile = Annotated[Path, typer.Argument(metavar="FILE", help="A file of routes: .toml or .yaml.")]
