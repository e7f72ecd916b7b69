# SPDX-License-Identifier: MIT
"""Bodies, headers, exceptions and notes as a terminal may show them."""

import json
from collections.abc import Iterable
from typing import Any

from rich.text import Text

from redrive.cli.output.redaction import redaction
from redrive.cli.output.table import age
from redrive.printable import one_line, printable
from redrive.recovery import Note


def body_text(body: bytes, most: int | None = None) -> Text:
    """Return a body: text without control characters, or how many bytes it has."""
    body = redaction().body(body)
    try:
        return Text(printable(body.decode()[:most]))
    except UnicodeDecodeError:
        return Text(f"{len(body):,} bytes, not text; --json shows them", style="dim")


def body_line(body: bytes) -> Text:
    """Return the beginning of a body, for a column."""
    text = body_text(body, most=400)
    return Text(" ".join(text.plain.split()), style=text.style, no_wrap=True, overflow="ellipsis")


def body_lines(body: bytes) -> Text:
    """Return a body, JSON indented, unless that would change a digit of it."""
    body = redaction().body(body)
    try:
        text = body.decode()
        lines = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        if _exact(lines) == _exact(text):
            return Text(printable(lines))
    except (ValueError, RecursionError):
        pass
    return body_text(body)


def _exact(text: str) -> Any:  # noqa: ANN401 - whatever JSON has
    return json.loads(text, parse_float=str, parse_int=str, object_pairs_hook=list)


def header_text(name: str, value: object, *, whole: bool = False) -> Text:
    """Return a header; of a stack trace and other long ones only the number of lines, unless it is wanted whole."""
    shown = redaction().headers({name: str(value)})[name]
    text, title = printable(shown).rstrip(), one_line(name, 200)
    if "\n" not in text:
        return Text.assemble((f"{title}: ", "dim"), text)
    if whole:  # indented, so that no line of it looks like one of ours
        return Text.assemble((f"{title}:\n", "dim"), indented(text))
    return Text.assemble((f"{title}: ", "dim"), (f"{len(text.splitlines())} lines", "dim"))


def indented(text: str) -> str:
    """Return a text of several lines, each indented."""
    return "\n".join(f"  {line}" for line in text.splitlines())


def exception_line(exception_type: str, message: str) -> Text:
    """Return an exception, short enough for a column: its class without the module, and its message."""
    name = one_line(exception_type.rpartition(".")[2], 200)
    line = one_line(" ".join(redaction().text(message).split()))
    text = Text.assemble((name, "bold"), f": {line}" if name and line else line)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text if text.plain else Text("-", style="dim")


def note_lines(notes: Iterable[Note]) -> list[Text]:
    """Return notes, one a line."""
    return [
        Text.assemble(
            (f"  {each.number} · {age(each.at)} ago · {one_line(each.actor, 100)}: ", "dim"),
            indented(printable(each.text)).lstrip(),
        )
        for each in notes
    ]
