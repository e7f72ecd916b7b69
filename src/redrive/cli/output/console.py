# SPDX-License-Identifier: MIT
"""The terminal: results on standard output, everything else on standard error, nothing raw on either."""

import json
import logging
from collections.abc import Iterable

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from redrive.cli.exit_status import ExitStatus, status_of
from redrive.cli.output.error_text import error_text
from redrive.cli.output.redaction import redaction
from redrive.errors import RedriveError
from redrive.printable import one_line, printable


class _Terminal(Console):
    """A console that prints nothing raw: control characters from messages are spelled out.

    Text that has to stay on its line goes through ``one_line`` before; here lines stay lines.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for each in super().render(renderable, options):
            yield each if each.control else Segment(printable(each.text), each.style)


def out(*, markup: bool = False) -> Console:
    """Return the console for results; a new one each time, so that it is as wide as the terminal is now."""
    return _Terminal(highlight=False, markup=markup)


def err() -> Console:
    """Return the console for everything that is not a result."""
    return _Terminal(stderr=True, highlight=False, markup=False)


def say(text: str) -> None:
    """Print a sentence as a result, on one line."""
    out().print(one_line(text, 100_000), soft_wrap=True)


def hint(text: str, style: str = "dim") -> None:
    """Print a sentence beside the result, on one line."""
    err().print(one_line(text, 100_000), style=style, soft_wrap=True)


def warn(text: str) -> None:
    """Print a hint that should not be overlooked; nothing for an empty text."""
    if text:
        hint(text, "yellow")


def print_json(value: object) -> None:
    """Print JSON."""
    print_plain_json(redaction().view(value))


def print_plain_json(value: object) -> None:
    """Print JSON that has nothing of messages, and in which nothing is hidden: a rule that matches would spoil it."""
    typer.echo(json.dumps(value, indent=2).replace("\x7f", "\\u007f"))


def json_line(value: object) -> str:
    """Return JSON on one line, with all letters as they are; what could change a terminal is escaped as JSON does."""
    text = json.dumps(redaction().view(value), ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(letter: str) -> str:
    halves = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[at : at + 4]}" for at in range(0, len(halves), 4))


def refusal(problem: str, status: int = ExitStatus.ERROR) -> typer.Exit:
    """Print what is wrong; return what to raise."""
    err().print(Text.assemble(("error: ", "red"), problem), soft_wrap=True)
    return typer.Exit(int(status))


def failure(error: RedriveError) -> typer.Exit:
    """Print what went wrong and which command fixes it; return what to raise."""
    return refusal(error_text(error), status_of(error))


def silence_log() -> None:
    """Keep events out of the terminal, unless logging is configured: commands report what matters."""
    layer = logging.getLogger("redrive")
    if not layer.handlers and not logging.getLogger().handlers:
        layer.addHandler(logging.NullHandler())
