# SPDX-License-Identifier: MIT
"""Templates into HTML: everything that a template writes is escaped, and a name that it does not have is an error.

What a template writes passes ``visible`` besides, so that no text of a message can hide or turn letters around. A block
of a template can be rendered alone, for a live update. Macros are there as ``ui`` in all templates, alone as well.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from redrive.server.console import body_text, charts, files, subjects, text_formats

_UNKNOWN: Final = Markup("&ndash;")
_TEMPLATES: Final = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Moment:
    """When and where a page is read.

    Attributes:
        now: the time.
        zone: the zone of the person who reads it.
    """

    now: datetime
    zone: tzinfo = UTC


_read_at: ContextVar[Moment] = ContextVar("read_at")


def render(template: str, context: Mapping[str, Any], moment: Moment, block: str = "") -> str:
    """Return the HTML of a template.

    Args:
        template: the name of its file.
        context: what it shows.
        moment: when and where it is read.
        block: the block to render alone; empty: the whole page.
    """
    found = environment().get_template(template)
    token = _read_at.set(moment)
    try:
        if not block:
            return found.render(context)
        return "".join(found.blocks[block](found.new_context(dict(context))))
    finally:
        _read_at.reset(token)


_OF_ALL_DICTS: Final = frozenset(dir(dict))


class _Environment(Environment):
    """Templates of which nearly all names are keys of views: they are looked up as such first, not as attributes.

    Not so names that every dict has: ``headers.items()`` is what it says, whatever headers a message has.
    """

    def getattr(self, obj: Any, attribute: str) -> Any:  # noqa: ANN401 - whatever a view has
        if type(obj) is dict and attribute in obj and attribute not in _OF_ALL_DICTS:
            return obj[attribute]
        return super().getattr(obj, attribute)


@cache
def environment() -> Environment:
    """Return the templates."""
    made = _Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=text_formats.visible,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.do"],
    )
    known: dict[str, Any] = made.globals
    filters: dict[str, Any] = made.filters
    known.update(_functions())
    filters.update(_filters())
    known["ui"] = made.get_template("macros.html").module
    return made


def _functions() -> dict[str, Any]:
    return {
        "icon": partial(charts.icon, sprite=files.address("vendor/icons.svg")),
        "spark": charts.spark,
        "outcome_bar": charts.outcome_bar,
        "stacked_bars": charts.stacked_bars,
        "journey_row": charts.journey_row,
        "hatch": charts.HATCH,
        "file": files.address,
        "link": subjects.link,
        "named": subjects.named,
        "page_of": subjects.page_of,
        "many": text_formats.many,
        "in_words": text_formats.in_words,
        "joined": text_formats.joined,
        "seconds_since": seconds_since,
        "chart_rows": chart_rows,
        "body_of": body_text.body_of,
        "frames_of": body_text.frames_of,
        "changes_since": body_text.changes_since,
        "diff_lines": body_text.diff_lines,
    }


def _filters() -> dict[str, Any]:
    return {
        "n": text_formats.count,
        "short": text_formats.short_count,
        "size": text_formats.size,
        "duration": text_formats.length,
        "rough": text_formats.rough_length,
        "clock_labels": clock_labels,
        "shortened": text_formats.shortened_id,
        "initials": text_formats.initials,
        "ago": ago,
        "at": at,
        "moment": moment_of,
        "precise": precise,
    }


def seconds_since(text: str) -> float:
    """Return how many seconds ago a time of a view was."""
    return (_read_at.get().now - text_formats.instant(text)).total_seconds()


_LABEL_FORMS: Final = {"7d": "%a %H:%M", "seconds": "%H:%M:%S"}


def clock_labels(labels: Sequence[tuple[int, str]], span: str) -> list[tuple[int, str]]:
    """Return the labels of a chart in the zone of the reader: times of day, with days or seconds."""
    zone, form = _read_at.get().zone, _LABEL_FORMS.get(span, "%H:%M")
    return [(place, text_formats.instant(text).astimezone(zone).strftime(form)) for place, text in labels]


def chart_rows(chart: Mapping[str, Any], failed: Sequence[int], recovered: Sequence[int]) -> list[tuple[str, int, int]]:
    """Return the figures of a chart as rows: those steps in which something happened, the newest first."""
    start, step = datetime.fromisoformat(chart["start"]), chart["step"]
    rows = [
        ((start + timedelta(seconds=place * step)).isoformat(), one, other)
        for place, (one, other) in enumerate(zip(failed, recovered, strict=False))
        if one or other
    ]
    return rows[::-1]


def ago(text: str | None) -> Markup:
    """Return how long ago a time was, for lists; it goes on ticking in a browser."""
    if text is None:
        return _UNKNOWN
    then, read = text_formats.instant(text), _read_at.get()
    return _time(then, text_formats.ago(then, read.now), read, "ago")


def at(text: str | None) -> Markup:
    """Return a time with date and zone, for details."""
    if text is None:
        return _UNKNOWN
    then, read = text_formats.instant(text), _read_at.get()
    return _time(then, text_formats.full_time(then, read.zone), read, "at")


def moment_of(text: str | None) -> Markup:
    """Return a time as short as it can be: 08:41, Thu 08:41, 16 Nov."""
    if text is None:
        return _UNKNOWN
    then, read = text_formats.instant(text), _read_at.get()
    return _time(then, text_formats.moment(then, read.now, read.zone), read, "moment")


def precise(text: str) -> Markup:
    """Return a time of day to the millisecond: 09:12:03.118."""
    then, read = text_formats.instant(text), _read_at.get()
    return _time(then, f"{then.astimezone(read.zone):%H:%M:%S.%f}"[:-3], read, "precise")


def _time(then: datetime, shown: str, read: Moment, kind: str) -> Markup:
    said = text_formats.full_time(then, UTC)
    if read.zone is not UTC:
        said = f"{text_formats.full_time(then, read.zone)} · {said}"
    instant = then.astimezone(UTC).isoformat(timespec="seconds")
    return Markup(  # noqa: S704 - what is not ours is escaped; a page has a hundred times, and format is slow
        f'<time datetime="{instant}" data-time="{kind}" title="{escape(said)}">{escape(shown)}</time>'
    )
