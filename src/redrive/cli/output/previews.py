# SPDX-License-Identifier: MIT
"""What a transform would change about messages, as differences."""

from collections.abc import Iterable

from rich.text import Text

from redrive.cli.output import console
from redrive.cli.output.redaction import redaction
from redrive.printable import one_line
from redrive.recovery import Preview

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_previews(previews: Iterable[Preview], *, to_stderr: bool = False) -> None:
    """Print what would change about messages."""
    terminal = console.err() if to_stderr else console.out()
    for each in previews:
        shown = redaction().changes(each.changes)
        terminal.print(Text(one_line(each.id), style="bold"), soft_wrap=True)
        lines = shown or ([] if each.problem else ["nothing changes"])
        for line in lines:
            terminal.print(Text(f"  {one_line(line, 10_000)}", style=_STYLES.get(line[:1], "")), soft_wrap=True)
        if each.problem:
            terminal.print(Text(f"  cannot be changed: {one_line(each.problem)}", style="red"), soft_wrap=True)
