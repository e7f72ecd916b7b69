# SPDX-License-Identifier: MIT
"""How a table is laid out: numbers and names are never cut, texts give way, a narrow terminal gets lists."""

import os
from datetime import datetime

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from redrive.cli.output import console
from redrive.cli.output.sentences import length
from redrive.clock import system_clock

_LEAST_WIDTH = 12
"""A column of texts gives way to exact columns, down to this many characters."""

_PIPE_WIDTH = 200


def age(instant: datetime | None) -> str:
    """Return how long ago something was, short enough for a column."""
    return "-" if instant is None else length(system_clock.time() - instant.timestamp())


def table(*columns: str, right: tuple[str, ...] = (), long: tuple[str, ...] = ()) -> Table:
    """Return an empty table in the style of all commands.

    Args:
        columns: their names.
        right: columns of numbers, aligned to the right.
        long: columns of texts, which are cut if a line is too long for the terminal. Numbers and names never are.
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
    """Print a table; on a terminal that is too narrow for it, print each row as a list."""
    terminal = console.out()
    needed = sum(map(_needed, made.columns)) + 2 * (len(made.columns) - 1)
    if needed > terminal.width and terminal.is_terminal:
        _print_lists(terminal, made)
        return
    if not terminal.is_terminal and "COLUMNS" not in os.environ:
        terminal.width = _PIPE_WIDTH
    terminal.width = max(terminal.width, needed)
    terminal.print(made)


def _needed(column: Column) -> int:
    """Return how wide a column has to be."""
    lines = [line for cell in (column.header, *column.cells) for line in _plain(cell).splitlines()]
    widest = max(map(cell_len, lines), default=0)
    most = widest if column.no_wrap else _LEAST_WIDTH
    return min(widest, column.max_width or most)


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _print_lists(terminal: Console, made: Table) -> None:
    names = [_plain(each.header) for each in made.columns]
    wide = max(map(len, names))
    for number, row in enumerate(zip(*(each.cells for each in made.columns), strict=True)):
        if number:
            terminal.print()
        for name, cell in zip(names, row, strict=True):
            shown = cell.copy() if isinstance(cell, Text) else Text(str(cell))
            shown.no_wrap, shown.overflow = False, "fold"
            terminal.print(Text.assemble((f"{name:<{wide}}  ", "dim"), shown), soft_wrap=True)
