# SPDX-License-Identifier: MIT
"""Which failed messages a command is about: a filter, options that are its terms, or a list of ids."""

import json
import re
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import OpenRecovery, is_id
from redrive.cli.options.connection import complete_queue
from redrive.cli.output import console
from redrive.clock import system_clock, utc
from redrive.printable import one_line
from redrive.recovery import Filter, Order, Outcome, Status

_PANEL = "Which messages"
_TERMS = ("status", "queue", "type", "exception", "group", "text", "message", "operation", "outcome")

Failure = Annotated[str, typer.Argument(metavar="ID", help="Its number or id, or the id that its sender gave it.")]

STATUSES = [each.word for each in Status]
OUTCOMES = [each.word for each in Outcome]


def _term(metavar: str, help_text: str, completion: Any = None) -> Any:  # noqa: ANN401 - what typer's own function takes
    return typer.Option(metavar=metavar, help=help_text, autocompletion=completion, rich_help_panel=_PANEL)


def complete_status(incomplete: str) -> list[str]:
    """Return the statuses of a failed message, for a shell."""
    return [each for each in (*STATUSES, "any") if each.startswith(incomplete)]


def complete_outcome(incomplete: str) -> list[str]:
    """Return the outcomes of a message in an operation, for a shell."""
    return [each for each in OUTCOMES if each.startswith(incomplete)]


def complete_order(incomplete: str) -> list[str]:
    """Return the orders of a list of failed messages, for a shell."""
    return [each.value for each in Order if each.value.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """A filter, in words or in options."""

    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILTER", show_default=False, help="Such as queue:orders exception:ValueError 'age<2h'."
        ),
    ] = None
    status: Annotated[list[str] | None, _term("WORD", "unresolved, archived …, any.", complete_status)] = None
    queue: Annotated[list[str] | None, _term("QUEUE", "The queue they failed in.", complete_queue)] = None
    type: Annotated[list[str] | None, _term("TYPE", "Their message type; order.* works.")] = None
    exception: Annotated[list[str] | None, _term("TYPE", "The exception; ValueError, shop.*")] = None
    group: Annotated[list[str] | None, _term("ID", "The group, as redrive failed groups shows it.")] = None
    text: Annotated[str | None, _term("TEXT", "A text in headers, body or exception.")] = None
    since: Annotated[str | None, _term("WHEN", "Failed then or later: 2026-11-01T10:00Z, or 2h for 2 hours ago.")] = (
        None
    )
    until: Annotated[str | None, _term("WHEN", "Failed before then; 30d for 30 days ago.")] = None
    message: Annotated[list[str] | None, _term("ID", "The id that the sender gave it.")] = None
    id: Annotated[list[str] | None, _term("ID", "Its number or id, whatever its status.")] = None
    operation: Annotated[str | None, _term("N", "Part of this operation.")] = None
    outcome: Annotated[list[str] | None, _term("WORD", "The outcome in that operation.", complete_outcome)] = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing was stated; an empty text, from a variable that is not set, states nothing."""
        return not self.stated.strip() and not self.id

    @property
    def stated(self) -> str:
        """The text of the filter, without ids."""
        terms = [*(self.words or ())]
        for name in _TERMS:
            given = getattr(self, name)
            values = given if isinstance(given, list) else [] if given is None else [given]
            terms += [f"{name}:" + ",".join(_quoted(each) for each in values)] if values else []
        terms += [_moment(self.since, "failed>=", "age<")] if self.since is not None else []
        terms += [_moment(self.until, "failed<", "age>")] if self.until is not None else []
        return " ".join(terms)

    def check(self) -> None:
        """Refuse a filter that is not valid."""
        Filter.parse(self.stated, now=utc(system_clock.time()))

    async def chosen(self, opened: OpenRecovery) -> Filter:
        """Return the filter.

        Numbers of failed messages are ids in it, and ages instants: a person who looks at what matches and then says
        yes means these messages.
        """
        text = self.stated
        if self.id:
            ids = ",".join([(await opened.failed_message(each)).summary.id for each in self.id])
            text = f"{'' if 'status:' in text else 'status:any '}{text} id:{ids}"
        return Filter.parse(text, now=utc(opened.broker.clock.time()))


@dataclass(frozen=True, slots=True)
class BulkOptions:
    """Further ways to say which messages an operation is about."""

    ids_from: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_PANEL,
            help="A file of ids, one a line, or of JSON lines with an id; - for standard input.",
        ),
    ] = None
    everything: Annotated[bool, typer.Option("--all", rich_help_panel=_PANEL, help="All that are unresolved.")] = False

    def check(self, which: FilterOptions) -> None:
        """Refuse what is not valid; a command that states no messages does not mean all of them."""
        if self.ids_from is not None and not which.is_everything:
            raise console.refusal("say either --ids-from or a filter, not both", ExitStatus.NOT_UNDERSTOOD)
        if self.ids_from is None and which.is_everything and not self.everything:
            raise console.refusal(
                "say which messages: a FILTER such as queue:orders, --group ID, --ids-from FILE, or --all of them;\n"
                "  redrive failed groups shows what there is",
                ExitStatus.NOT_UNDERSTOOD,
            )
        which.check()

    async def chosen(self, which: FilterOptions, opened: OpenRecovery) -> Filter | list[str]:
        """Return the filter or the ids."""
        return await which.chosen(opened) if self.ids_from is None else _ids(self.ids_from)


def _moment(text: str, date: str, age: str) -> str:
    """Return the term for an option that takes a date or an age."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return age + _quoted(text)
    return date + _quoted(text)


def _quoted(value: str) -> str:
    if not re.search(r"[\s\"']", value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _ids(file: Path) -> list[str]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise console.refusal(one_line(f"{file} cannot be read: {error}")) from None
    return [_id_in(line.strip()) for line in text.splitlines() if line.strip()]


def _id_in(line: str) -> str:
    if not line.startswith("{"):
        return line.lower() if is_id(line) else line
    try:
        return str(json.loads(line)["id"])
    except (ValueError, KeyError):
        return line[:60]
