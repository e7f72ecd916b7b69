# SPDX-License-Identifier: MIT
"""Reaching a broker from a command: where it is, opening it, and the names that a shell completes."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from redrive import connect, connection_url, duration
from redrive.broker import Broker
from redrive.cli import screen
from redrive.cli.exit_status import ExitStatus
from redrive.errors import InvalidSetting, RedriveError
from redrive.printable import one_line

T = TypeVar("T")

VARIABLE = "REDRIVE_URL"
DEFAULT_URL = "sqlite:///redrive.db"


def complete_queue(context: typer.Context) -> list[str]:
    """Return the names of the queues there are, for a shell; nothing if that cannot be found out quickly."""
    url = url_of(context)
    try:
        return [] if missing_file(url) else asyncio.run(_names(url))
    except RedriveError:
        return []


Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help=f"Where the queues are; ${VARIABLE}, or else {DEFAULT_URL}."),
]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="Its name.", autocompletion=complete_queue)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def url_of(context: typer.Context) -> str:
    """Return the URL that was given: to the command, to the one around it, in the environment, or the default."""
    here: typer.Context | None = context
    while here is not None:
        if here.params.get("url") is not None:  # an empty one, of a variable that is not set, is refused
            return str(here.params["url"])
        here = here.parent  # type: ignore[assignment]  # typer's contexts have typer's contexts around them
    return os.environ.get(VARIABLE) or DEFAULT_URL


def wants_json(context: typer.Context) -> bool:
    """Say whether JSON was asked for, of the command or of the one around it."""
    around = context.parent is not None and context.parent.params.get("as_json")
    return bool(context.params.get("as_json") or around)


def with_broker(context: typer.Context, do: Callable[[Broker], Awaitable[T]], *, may_create: bool = False) -> T:
    """Open the broker, do something with it, close it; an error is told and ends the command.

    Args:
        context: the command's.
        do: what to do.
        may_create: whether a database that is not there is made; to look at one that is not there is a mistake.
    """
    url = url_of(context)
    if not may_create:
        check_there(url)
    try:
        return asyncio.run(_connected(url, do))
    except RedriveError as error:
        raise screen.failure(error) from None


def check_there(url: str) -> None:
    """End the command if a URL names a database that is not there; whoever has mistyped it wants no empty one."""
    if missing := missing_file(url):
        raise screen.refusal(
            f"there is no database {one_line(missing)}; say where it is with --url or ${VARIABLE}, "
            "or make one by declaring a queue: redrive queues declare NAME"
        )


def seconds(option: str, text: str | None) -> float | None:
    """Return the seconds that an option stands for, None for ``none``."""
    if text is None or text.lower() == "none":
        return None
    try:
        number = float(text)
    except ValueError:
        number = _parsed(option, text)
    if not 0 <= number < float("inf"):
        problem = f"--{option} {text!r}: write 0 or more seconds, or 100ms, 30s, 2m, 1h, 1d"
        raise screen.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
    return number


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone."""
    if yes:
        return
    if not is_a_person_there():
        raise screen.refusal("nobody is there to be asked; add --yes if you are sure")
    typer.confirm(one_line(question), abort=True, err=True)


def is_a_person_there() -> bool:
    """Say whether somebody can answer."""
    return sys.stdin.isatty()


def _parsed(option: str, text: str) -> float:
    try:
        return duration.parse(option, text)
    except RedriveError as error:
        raise screen.failure(error) from None


async def _connected(url: str, do: Callable[[Broker], Awaitable[T]]) -> T:
    async with connect(url) as broker:
        return await do(broker)


async def _names(url: str) -> list[str]:
    async with connect(url) as broker:
        return [queue.name for queue in await broker.queues()]


def missing_file(url: str) -> Path | None:
    """Return the file that a SQLite URL names, if it is not there; what is wrong with a URL is not said here."""
    try:
        parts = connection_url.parts_of("url", url)
        path = connection_url.sqlite_path("url", url, parts) if parts.scheme == "sqlite" else ":memory:"
    except InvalidSetting:
        return None
    return None if path == ":memory:" or Path(path).exists() else Path(path)
