# SPDX-License-Identifier: MIT
"""Where the queues and the failed messages are, and the names that a shell completes."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from redrive import connect, connection_url
from redrive.errors import InvalidSetting, RedriveError

URL_VARIABLE = "REDRIVE_URL"
STORE_VARIABLE = "REDRIVE_STORE"
DEFAULT_URL = "sqlite:///redrive.db"


def complete_queue(context: typer.Context) -> list[str]:
    """Return the names of the queues, for a shell; none if they cannot be found out quickly."""
    url = typed_url(context)
    try:
        return [] if missing_file(url) else asyncio.run(_names(url))
    except RedriveError:
        return []


async def _names(url: str) -> list[str]:
    async with connect(url) as broker:
        return [queue.name for queue in await broker.queues()]


Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help=f"Where the queues are; ${URL_VARIABLE}, or else {DEFAULT_URL}."),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", help=f"Where failed messages are; ${STORE_VARIABLE}, or else where the queues are."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="Its name.", autocompletion=complete_queue)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@dataclass(frozen=True, slots=True)
class BrokerConnection:
    """Where the queues are, and whether the answer is JSON."""

    url: Url = None
    as_json: AsJson = False

    @property
    def broker_url(self) -> str:
        """The URL of the queues: from the command, from the environment, or the default."""
        return _broker_url(self.url)


@dataclass(frozen=True, slots=True)
class RecoveryConnection:
    """Where the queues and the failed messages are, and whether the answer is JSON."""

    url: Url = None
    store: Store = None
    as_json: AsJson = False

    @property
    def broker_url(self) -> str:
        """The URL of the queues: from the command, from the environment, or the default."""
        return _broker_url(self.url)

    @property
    def store_url(self) -> str | None:
        """The URL of the failed messages: from the command or from the environment; None: where the queues are."""
        return _store_url(self.store)


def _broker_url(given: str | None) -> str:
    return given if given is not None else os.environ.get(URL_VARIABLE) or DEFAULT_URL  # an empty --url is refused


def _store_url(given: str | None) -> str | None:
    return given if given is not None else os.environ.get(STORE_VARIABLE) or None


def typed_url(context: typer.Context) -> str:
    """Return the URL of the queues on a command line that is still being typed.

    A completion is called before the command, so there is no group yet, only what the parser has read so far.
    """
    here: typer.Context | None = context
    while here is not None:
        if here.params.get("url") is not None:
            return str(here.params["url"])
        here = here.parent  # type: ignore[assignment]  # typer's contexts have typer's contexts around them
    return _broker_url(None)


def typed_store(context: typer.Context) -> str | None:
    """Return the URL of the failed messages on a command line that is still being typed."""
    return _store_url(context.params.get("store"))


def missing_file(url: str) -> Path | None:
    """Return the file that a SQLite URL names, if it does not exist; a URL that is not valid is not checked here."""
    try:
        parts = connection_url.parts_of("url", url)
        path = connection_url.sqlite_path("url", url, parts) if parts.scheme == "sqlite" else ":memory:"
    except InvalidSetting:
        return None
    return None if path == ":memory:" or Path(path).exists() else Path(path)
