# SPDX-License-Identifier: MIT
"""What the commands print: tables for people, JSON for scripts, errors that name the fix."""

import json
import os
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from redrive.cli.exit_status import ExitStatus, advice, status_of
from redrive.clock import system_clock
from redrive.errors import RedriveError
from redrive.printable import one_line, printable

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
"""The option that every command has."""


class _Terminal(Console):
    """A console that prints nothing raw: whatever a message brings along is spelled out on its way to the terminal.

    What may only be a part of a line goes through ``one_line`` before; here lines stay lines.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for each in super().render(renderable, options):
            yield each if each.control else Segment(printable(each.text), each.style)


def out(*, markup: bool = False) -> Console:
    """Return the console for results; made anew, so that it is as wide as the terminal is now."""
    return _Terminal(highlight=False, markup=markup)


def err() -> Console:
    """Return the console for everything that is not a result."""
    return _Terminal(stderr=True, highlight=False, markup=False)


def say(text: str) -> None:
    """Print a sentence, whole, on one line, whatever is in it."""
    out().print(one_line(text, 100_000), soft_wrap=True)


def hint(text: str, style: str = "dim") -> None:
    """Print a sentence beside the result, for a person."""
    err().print(one_line(text, 100_000), style=style, soft_wrap=True)


def print_json(value: object) -> None:
    """Print JSON."""
    typer.echo(json.dumps(value, indent=2).replace("\x7f", "\\u007f"))


def json_line(value: object) -> str:
    """Return JSON on one line, with all letters as they are; what could change a terminal is escaped as JSON does."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(letter: str) -> str:
    halves = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[at : at + 4]}" for at in range(0, len(halves), 4))


def refusal(problem: str, status: int = ExitStatus.ERROR) -> typer.Exit:
    """Say what is wrong; return what to raise."""
    err().print(Text.assemble(("error: ", "red"), problem), soft_wrap=True)
    return typer.Exit(int(status))


def failure(error: RedriveError) -> typer.Exit:
    """Say what went wrong and which command mends it; return what to raise."""
    return refusal(advice(error), status_of(error))


# --- messages


def age(instant: datetime | None) -> str:
    """Return how long ago something was, as shortly as a column needs it."""
    return "-" if instant is None else length(system_clock.time() - instant.timestamp())


def length(seconds: float) -> str:
    """Return a length of time, as shortly as a column needs it."""
    left = max(0.0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if left >= 2 * size:
            return f"{left / size:.0f} {unit}"
    return f"{left:.0f} s"


def shown(body: bytes, most: int | None = None) -> Text:
    """Return a body as a terminal may show it: text without control characters, or how many bytes it has."""
    try:
        return Text(printable(body.decode()[:most]))
    except UnicodeDecodeError:
        return Text(f"{len(body):,} bytes, not text; --json shows them", style="dim")


def body_line(body: bytes) -> Text:
    """Return the beginning of a body, for a column."""
    text = shown(body, most=400)
    return Text(" ".join(text.plain.split()), style=text.style, no_wrap=True, overflow="ellipsis")


def told_header(name: str, value: object, *, whole: bool = False) -> Text:
    """Return a header as a terminal may show it; a stack trace and other long ones only if wanted whole."""
    text, title = printable(str(value)).rstrip(), one_line(name, 200)
    if "\n" not in text:
        return Text.assemble((f"{title}: ", "dim"), text)
    if whole:  # indented, so that no line of it looks like one of ours
        return Text.assemble((f"{title}:\n", "dim"), indented(text))
    return Text.assemble((f"{title}: ", "dim"), (f"{len(text.splitlines())} lines", "dim"))


def indented(text: str) -> str:
    """Return a text of several lines, as a part of something."""
    return "\n".join(f"  {line}" for line in text.splitlines())


# --- tables and progress


_ROOM_LEFT = 12
"""What is long gives way to what is exact, down to this many columns."""

_WIDTH_OF_A_PIPE = 200


def table(*columns: str, right: tuple[str, ...] = (), long: tuple[str, ...] = ()) -> Table:
    """Return an empty table as all commands have them.

    Args:
        columns: their names.
        right: those that are aligned to the right: numbers.
        long: those that are cut when a line is too long for the terminal: texts. Numbers and names never are.
    """
    made = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=column not in long,
            overflow="ellipsis" if column == "id" else "fold",
            max_width=12 if column == "id" else None,
        )
    return made


def print_table(made: Table) -> None:
    """Print a table, or, where the terminal is too narrow for it, each of its lines as a list of what it says."""
    console = out()
    needed = sum(map(_needed, made.columns)) + 2 * (len(made.columns) - 1)
    if needed > console.width and console.is_terminal:
        _print_lists(console, made)
        return
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH_OF_A_PIPE
    console.width = max(console.width, needed)
    console.print(made)


def _needed(column: Column) -> int:
    """Return how wide a column has to be."""
    lines = [line for cell in (column.header, *column.cells) for line in _plain(cell).splitlines()]
    widest = max(map(cell_len, lines), default=0)
    most = widest if column.no_wrap else _ROOM_LEFT
    return min(widest, column.max_width or most)


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _print_lists(console: Console, made: Table) -> None:
    names = [_plain(each.header) for each in made.columns]
    wide = max(map(len, names))
    for number, row in enumerate(zip(*(each.cells for each in made.columns), strict=True)):
        if number:
            console.print()
        for name, cell in zip(names, row, strict=True):
            shown = cell.copy() if isinstance(cell, Text) else Text(str(cell))
            shown.no_wrap, shown.overflow = False, "fold"
            console.print(Text.assemble((f"{name:<{wide}}  ", "dim"), shown), soft_wrap=True)


def progress() -> Progress:
    """Return a progress bar for bulk work; it shows itself to people only."""
    console = err()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
