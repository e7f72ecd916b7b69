# SPDX-License-Identifier: MIT
"""Which failed messages a command is about: a filter, options that are the same as its terms, or a list of ids."""

import json
import re
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from redrive.cli import screen
from redrive.cli.exit_status import ExitStatus
from redrive.cli.ledgers import Desk
from redrive.cli.reaching import complete_queue
from redrive.clock import system_clock, utc
from redrive.errors import FailureNotFound
from redrive.printable import one_line
from redrive.recovery import FailedDetail, Filter, Outcome, Status

_ID = re.compile(r"[0-9a-fA-F]{32}")
_ANYWHERE = frozenset(Status)
_TERMS = ("status", "queue", "type", "exception", "group", "text", "message", "operation", "outcome")

STATUSES = [each.word for each in Status]
OUTCOMES = [each.word for each in Outcome]


def _term(metavar: str, help_text: str, completion: Any = None) -> Any:  # noqa: ANN401 - what typer's own function takes
    return typer.Option(metavar=metavar, help=help_text, autocompletion=completion, rich_help_panel="Which messages")


def complete_status(incomplete: str) -> list[str]:
    """Return where a failed message can stand, for a shell."""
    return [each for each in (*STATUSES, "any") if each.startswith(incomplete)]


def complete_outcome(incomplete: str) -> list[str]:
    """Return what can become of a message in an operation, for a shell."""
    return [each for each in OUTCOMES if each.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class Which:
    """A filter, in words or in options."""

    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILTER", show_default=False, help="Such as queue:orders exception:ValueError 'age<2h'."
        ),
    ] = None
    status: Annotated[list[str] | None, _term("WORD", "unresolved, archived …, any.", complete_status)] = None
    queue: Annotated[list[str] | None, _term("QUEUE", "Where they failed.", complete_queue)] = None
    type: Annotated[list[str] | None, _term("TYPE", "What they are; order.* works.")] = None
    exception: Annotated[list[str] | None, _term("TYPE", "What was raised; ValueError, shop.*")] = None
    group: Annotated[list[str] | None, _term("ID", "As redrive failed groups shows it.")] = None
    text: Annotated[str | None, _term("TEXT", "In headers, body or exception.")] = None
    since: Annotated[str | None, _term("WHEN", "Failed then or later: 2026-11-01T10:00Z, or 2h ago: 2h.")] = None
    until: Annotated[str | None, _term("WHEN", "Failed before then, or longer ago: 30d.")] = None
    message: Annotated[list[str] | None, _term("ID", "The id its sender gave it.")] = None
    id: Annotated[list[str] | None, _term("ID", "Its number or id, wherever it stands.")] = None
    operation: Annotated[str | None, _term("N", "Part of this operation.")] = None
    outcome: Annotated[list[str] | None, _term("WORD", "What became of it there.", complete_outcome)] = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing was said; an empty text, of a variable that is not set, says nothing."""
        return not self.stated.strip() and not self.id

    @property
    def stated(self) -> str:
        """The text of the filter, but for ids."""
        terms = [*(self.words or ())]
        for name in _TERMS:
            given = getattr(self, name)
            values = given if isinstance(given, list) else [] if given is None else [given]
            terms += [f"{name}:" + ",".join(_quoted(each) for each in values)] if values else []
        terms += [_moment(self.since, "failed>=", "age<")] if self.since is not None else []
        terms += [_moment(self.until, "failed<", "age>")] if self.until is not None else []
        return " ".join(terms)

    def check(self) -> None:
        """Refuse a filter that cannot be understood."""
        Filter.parse(self.stated, now=utc(system_clock.time()))

    async def chosen(self, desk: Desk) -> Filter:
        """Return the filter.

        Numbers of failed messages are ids in it, and ages instants: whoever looks at what matches, and then says yes,
        means these.
        """
        text = self.stated
        if self.id:
            ids = ",".join([(await found(desk, each)).summary.id for each in self.id])
            text = f"{'' if 'status:' in text else 'status:any '}{text} id:{ids}"
        return Filter.parse(text, now=utc(desk.broker.clock.time()))


@dataclass(frozen=True, slots=True)
class Bulk:
    """Further ways to say which messages something is done with."""

    ids_from: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel="Which messages",
            help="Those with these ids, one a line, or JSON lines with an id; - for standard input.",
        ),
    ] = None
    everything: Annotated[
        bool, typer.Option("--all", rich_help_panel="Which messages", help="All that are unresolved.")
    ] = False

    def check(self, which: Which) -> None:
        """Refuse what cannot be understood; a command without any choice does not mean everything."""
        if self.ids_from is not None and not which.is_everything:
            raise screen.refusal("say either --ids-from or a filter, not both", ExitStatus.NOT_UNDERSTOOD)
        if self.ids_from is None and which.is_everything and not self.everything:
            raise screen.refusal(
                "say which: a FILTER such as queue:orders, --group ID, --ids-from FILE, or --all of them;\n"
                "  redrive failed groups shows what there is",
                ExitStatus.NOT_UNDERSTOOD,
            )
        which.check()

    async def chosen(self, which: Which, desk: Desk) -> Filter | list[str]:
        """Return what is meant."""
        return await which.chosen(desk) if self.ids_from is None else _ids(self.ids_from)


async def found(desk: Desk, named: str) -> FailedDetail:
    """Return the failed message with a number or an id, its own or its sender's."""
    if _ID.fullmatch(named):
        return await desk.recovery.show(named.lower())
    if named.isascii() and named.isdecimal():
        page = await desk.recovery.failed(Filter(status=_ANYWHERE), after=int(named) - 1, limit=1)
        if page and page[0].number == int(named):
            return await desk.recovery.show(page[0].id)
    page = await desk.recovery.failed(Filter(status=_ANYWHERE, message_ids=(named,)), limit=10)
    if len(page) > 1:
        numbers = ", ".join(str(each.number) for each in page)
        raise screen.refusal(f"several have the id {named!r}; say which number: {numbers}", ExitStatus.NOT_FOUND)
    if not page:
        raise FailureNotFound(named)
    return await desk.recovery.show(page[0].id)


def _moment(text: str, date: str, age: str) -> str:
    """Return the term for an option that takes a date, or how long ago."""
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
        raise screen.refusal(one_line(f"{file} cannot be read: {error}")) from None
    return [_id_in(line.strip()) for line in text.splitlines() if line.strip()]


def _id_in(line: str) -> str:
    if not line.startswith("{"):
        return line.lower() if _ID.fullmatch(line) else line
    try:
        return str(json.loads(line)["id"])
    except (ValueError, KeyError):
        return line[:60]
