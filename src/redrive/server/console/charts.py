# SPDX-License-Identifier: MIT
"""Drawings of the pages: numbers in, SVG out, coloured by classes of the stylesheet. Pure: no I/O, no clock.

No drawing has a style of its own, because pages may not (``style-src 'self'``). Charts have no ``viewBox``: everything
is in percent of the room that they get, so that text keeps its size on a phone.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from markupsafe import Markup, escape

from redrive.printable import printable

Part: TypeAlias = tuple[str, int, bool]
"""A part of a bar: the class of its colour, how many, and whether it is hatched, as what still waits is."""

_LANES: Final = (10, 26, 42, 58, 74)
_TOP: Final = 15.0
_FOOT: Final = 88.0
_TICKS: Final = 4
_THINNEST: Final = 0.6


@lru_cache(maxsize=1_000)  # a page has a hundred, of a few kinds; what a label says may be anything
def icon(name: str, size: str = "", label: str = "", *, sprite: str = "") -> Markup:
    """Return an icon of the sprite.

    Args:
        name: which, as Lucide calls it.
        size: the class of its size: ``sm``, ``lg``, or empty.
        label: what a screen reader says; empty: nothing, as the text beside it says it.
        sprite: the address of the sprite.
    """
    said = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
    return Markup('<svg class="i {}" {}><use href="{}#{}"/></svg>').format(size, said, sprite, name)


def spark(values: Sequence[float | None], kind: str = "idle", label: str = "") -> Markup:
    """Return a small line: how a number went; where nothing is known, it is drawn as nothing.

    Args:
        values: the numbers, the oldest first.
        kind: the class of its colour: ``bad``, ``ok``, ``warn``, ``info``, ``idle``.
        label: what a screen reader says.
    """
    numbers = [each or 0 for each in values] or [0, 0]
    if len(numbers) == 1:
        numbers *= 2
    top, step = max(numbers) or 1, 100 / (len(numbers) - 1)
    points = [f"{i * step:.2f} {24.5 - each / top * 22:.2f}" for i, each in enumerate(numbers)]
    line = "M" + " L".join(points)
    return Markup(  # noqa: S704 - numbers, and what is escaped here
        f'<svg class="spark {escape(kind)}" viewBox="0 0 100 26" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(printable(label))}"><path class="area" d="{line} L100 26 L0 26 Z"/>'
        f'<path class="line" d="{line}"/></svg>'
    )


def outcome_bar(parts: Sequence[Part], total: int, size: str = "", label: str = "") -> Markup:
    """Return a bar whose parts add up to a whole; what is missing is the empty track.

    Args:
        parts: its parts.
        total: the whole.
        size: the class of its size: ``thin``, ``big``, or empty.
        label: what a screen reader says.
    """
    drawn: list[str] = []
    x = 0.0
    for kind, count, is_hatched in parts:
        if count <= 0 or total <= 0:
            continue
        width = max(count / total * 100, _THINNEST)
        place = f'x="{x:.2f}%" y="-1" width="{width:.2f}%" height="120%"'
        drawn.append(f'<rect class="{escape(kind)}" {place}/>')
        if is_hatched:
            drawn.append(f'<rect class="f-hatch" fill="url(#hatch)" {place}/>')
        x += width
    shapes = Markup("").join(Markup(each) for each in drawn)  # noqa: S704 - numbers, and what is escaped above
    return Markup('<svg class="bar {}" role="img" aria-label="{}">{}</svg>').format(size, printable(label), shapes)


HATCH: Final = Markup(
    '<svg class="sprite" width="0" height="0" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="6"/>'
    "</pattern></defs></svg>"
)
"""The pattern of what still waits; once on every page."""


def stacked_bars(
    series: Sequence[tuple[str, Sequence[int | None]]],
    labels: Sequence[tuple[int, str]] = (),
    marks: Sequence[tuple[int, str]] = (),
    size: str = "",
    unit: str = "",
) -> Markup:
    """Return bars over time, one upon the other, with flags above and a scale beside them.

    Args:
        series: for each colour its class and its numbers, all of the same length.
        labels: what stands below which bar.
        marks: the flags: at which bar, and what they say.
        size: the class of its size: ``low``, or empty.
        unit: what the numbers are, for the text that shows at a bar.
    """
    count = len(series[0][1])
    sums = [sum(each[i] or 0 for _, each in series) for i in range(count)]
    top = round_number(max(sums, default=0))
    shapes = [_grid_line(tick) for tick in range(_TICKS + 1)]
    shapes += [_stack(series, i, 100 / count, top, f"{sums[i]:,} {unit}") for i in range(count)]
    shapes += [_below(i, text, 100 / count) for i, text in labels]
    shapes += [_flag((i + 0.5) * 100 / count, text) for i, text in marks]
    axis = Markup("").join(_scale(tick, top) for tick in range(_TICKS + 1))
    return Markup(
        '<div class="plot"><svg class="chart {size}" aria-hidden="true">{axis}</svg><svg class="chart {size}" '
        'role="img" aria-label="Chart; its figures are there as a table.">{shapes}</svg></div>'
    ).format(size=size, axis=axis, shapes=Markup("").join(shapes))


def round_number(highest: float) -> int:
    """Return the top of a scale: the next number that people can divide by four in their heads, without a rest."""
    size = 1
    while True:
        for factor in (4, 8, 12 if size == 1 else 10, 20):
            if factor * size >= highest:
                return factor * size
        size *= 10


def _height(tick: float) -> float:
    return _FOOT - (_FOOT - _TOP) * tick / _TICKS


def _grid_line(tick: int) -> Markup:
    return Markup('<line class="grid" x1="0" x2="100%" y1="{y:.2f}%" y2="{y:.2f}%"/>').format(y=_height(tick))


def _scale(tick: int, top: int) -> Markup:
    text = _short(top * tick / _TICKS)
    return Markup('<text x="100%" dx="-8" y="{:.2f}%" dy="4" text-anchor="end">{}</text>').format(_height(tick), text)


def _short(value: float) -> str:
    return f"{value / 1_000:g}k" if value >= 1_000 else f"{value:g}"


def _stack(series: Sequence[tuple[str, Sequence[int | None]]], place: int, width: float, top: int, said: str) -> Markup:
    y, rects = _FOOT, list[str]()
    for kind, values in series:
        height = (_FOOT - _TOP) * (values[place] or 0) / top
        if height > 0:
            y -= height
            where = f'x="{place * width + width * 0.12:.2f}%" y="{y:.2f}%" width="{width * 0.76:.2f}%"'
            rects.append(f'<rect class="{escape(kind)}" {where} height="{height:.2f}%"/>')
    return Markup(f'<g class="b"><title>{escape(said)}</title>{"".join(rects)}</g>')  # noqa: S704 - as in spark


def _below(place: int, text: str, width: float) -> Markup:
    at = place * width
    anchor, x = ("start", 0.0) if at < 4 else ("end", 100.0) if at > 94 else ("middle", at + width / 2)
    return Markup('<text x="{:.2f}%" y="99%" dy="-1" text-anchor="{}">{}</text>').format(x, anchor, text)


def _flag(x: float, text: str) -> Markup:
    width = 12 + 6.4 * len(text)
    return Markup(
        '<line class="mark" x1="{x:.2f}%" x2="{x:.2f}%" y1="17" y2="88%"/><svg x="{x:.2f}%" y="2" overflow="visible">'
        '<rect class="flag" x="{left:.1f}" y="0" width="{width:.1f}" height="16" rx="4"/>'
        '<text class="flag-t" x="0" y="11.6" text-anchor="middle">{text}</text></svg>'
    ).format(x=x, left=-width / 2, width=width, text=text)


# --- the graph of a journey


def journey_row(
    lanes: Sequence[tuple[int, str, str]],
    dot: tuple[int, int] | None = None,
    *,
    is_hollow: bool = False,
    forks: Sequence[tuple[int, int, str]] = (),
    joins: Sequence[tuple[int, int, str]] = (),
) -> Markup:
    """Return one row of the graph of a journey.

    Args:
        lanes: the lines that pass: the lane, the class of the colour, and which part is drawn: ``dash`` (it waits),
            ``up`` (it ends at the dot), ``down`` (it begins there), or several of them.
        dot: the lane of the dot, and the number of its colour.
        is_hollow: whether the dot is hollow: something that is not known for certain.
        forks: curves that leave the dot: from a lane to a lane, with the class of the colour.
        joins: curves that end at the dot.
    """
    shapes: list[Markup] = []
    for lane, kind, part in lanes:
        shapes.append(
            Markup('<line class="{}{}" x1="{x}" x2="{x}" y1="{}" y2="{}"/>').format(
                kind,
                " dash" if "dash" in part else "",
                "20" if "down" in part else "0",
                "20" if "up" in part else "100%",
                x=_lane(lane),
            )
        )
    shapes += [
        Markup(
            '<path class="{c}" d="M{a} 20 C{a} 34 {b} 24 {b} 42"/>'
            '<line class="{c}" x1="{b}" x2="{b}" y1="41" y2="100%"/>'
        ).format(c=kind, a=_lane(start), b=_lane(end))
        for start, end, kind in forks
    ]
    shapes += [
        Markup('<path class="{}" d="M{a} 0 C{a} 16 {b} 4 {b} 20"/>').format(kind, a=_lane(start), b=_lane(end))
        for start, end, kind in joins
    ]
    if dot is not None:
        kind, radius = (f"hollow o{dot[1]}", 4.5) if is_hollow else (f"p{dot[1]}", 5.5)
        shapes.append(Markup('<circle class="{}" cx="{}" cy="20" r="{}"/>').format(kind, _lane(dot[0]), radius))
    return Markup('<svg aria-hidden="true">{}</svg>').format(Markup("").join(shapes))


def _lane(lane: int) -> int:
    return _LANES[min(lane, len(_LANES) - 1)]
