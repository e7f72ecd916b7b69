# SPDX-License-Identifier: MIT
"""Numbers as a line of small bars, for a terminal. Pure: no I/O, no clock."""

from collections.abc import Sequence
from typing import Final

_BARS: Final = "▁▂▃▄▅▆▇█"
_NOTHING: Final = " "


def sparkline(values: Sequence[int | None], width: int = 60) -> str:
    """Return a bar for each number, or for several of them if there are more than fit; a gap stays a gap."""
    if not values:
        return ""
    columns = _columns(values, max(1, width))
    highest = max((value for value in columns if value is not None), default=0)
    return "".join(_bar(value, highest) for value in columns)


def _columns(values: Sequence[int | None], width: int) -> list[int | None]:
    count = min(width, len(values))
    columns: list[int | None] = []
    for place in range(count):
        part = values[place * len(values) // count : (place + 1) * len(values) // count]
        known = [value for value in part if value is not None]
        columns.append(max(known) if known else None)
    return columns


def _bar(value: int | None, highest: int) -> str:
    if value is None:
        return _NOTHING
    if value <= 0 or highest <= 0:
        return _BARS[0]
    return _BARS[min(len(_BARS) - 1, 1 + (value * (len(_BARS) - 2)) // highest)]
