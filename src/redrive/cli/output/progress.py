# SPDX-License-Identifier: MIT
"""Bars: of bulk work on a queue, and of an operation with a sign for each outcome."""

from typing import TYPE_CHECKING

from rich.text import Text

from redrive.cli.output import console
from redrive.recovery import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as ProgressBar

SEGMENTS = (
    ("succeeded", "█", "green"),
    ("done", "█", "green"),
    ("closed", "■", "green"),
    ("superseded", "□", "dim"),
    ("waiting", "▓", "cyan"),
    ("failed_again", "▒", "red"),
    ("failed", "x", "bold red"),
    ("skipped", "░", "yellow"),
    ("cancelled", "-", "dim"),
    ("remaining", "·", "dim"),
)
"""The parts of an operation's bar. Each has its own sign, so that the bar can be read without colours."""

_WORDS = {
    "waiting": "sent",
    "failed_again": "failed again",
    "closed": "closed by a person",
    "superseded": "sent once more since",
}


def progress_bar() -> "ProgressBar":
    """Return a progress bar for bulk work; it appears on a terminal only."""
    # here: most commands draw no bar, and loading it takes longer than many of them do
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as ProgressBar

    terminal = console.err()
    return ProgressBar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=terminal,
        transient=True,
        disable=not terminal.is_terminal,
    )


def operation_bar(progress: Progress, width: int) -> Text:
    """Return an operation's figures as a bar of signs."""
    cells = _cells([int(getattr(progress, name)) for name, _, _ in SEGMENTS], width)
    bar = Text(no_wrap=True)
    for (_, sign, style), number in zip(SEGMENTS, cells, strict=True):
        bar.append(sign * number, style)
    return bar


def _cells(counts: list[int], width: int) -> list[int]:
    """Return how many cells of a bar each count gets: at least one if it is not 0, and all cells together."""
    total = sum(counts)
    if not total:
        return [0] * (len(counts) - 1) + [width]
    cells = [max(1, count * width // total) if count else 0 for count in counts]
    while sum(cells) != width:
        biggest = max(range(len(cells)), key=lambda place: (cells[place], counts[place]))
        cells[biggest] += 1 if sum(cells) < width else -1
    return cells


def legend(progress: Progress) -> Text:
    """Return the figures that are not 0, each with its sign in the bar."""
    text = Text()
    for name, sign, style in SEGMENTS:
        if number := int(getattr(progress, name)):
            text.append("  " if text else "")
            text.append(f"{sign} ", style)
            text.append(f"{_WORDS.get(name, name)} {number:,}")
    return text
