# SPDX-License-Identifier: MIT
"""The queues that failures are read from before a command looks at failed messages."""

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from redrive.broker import dead_letter_queue
from redrive.cli.options.connection import complete_queue

SOURCES_VARIABLE = "REDRIVE_SOURCES"
_PANEL = "Reading new failures first"


def _queues(help_text: str) -> object:
    return typer.Option(metavar="QUEUE", autocompletion=complete_queue, help=help_text, rich_help_panel=_PANEL)


@dataclass(frozen=True, slots=True)
class Sources:
    """The queues that failures are read from."""

    source: Annotated[list[str] | None, _queues("Read failures from this queue only; repeatable.")] = None
    dead_letters: Annotated[list[str] | None, _queues("Read the dead letters of this queue; repeatable.")] = None
    dead: Annotated[
        bool, typer.Option("--dead", rich_help_panel=_PANEL, help="Also read the dead letters of all queues.")
    ] = False
    no_ingest: Annotated[
        bool, typer.Option("--no-ingest", rich_help_panel=_PANEL, help="Do not read new failures first.")
    ] = False

    @property
    def stated(self) -> tuple[str, ...]:
        """The queues that were named."""
        return (*(self.source or ()), *map(dead_letter_queue, self.dead_letters or ()))

    @property
    def without_ingest(self) -> "Sources":
        """The same, for a command that reads nothing first."""
        return replace(self, no_ingest=True)
