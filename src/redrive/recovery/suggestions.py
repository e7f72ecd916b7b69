# SPDX-License-Identifier: MIT
"""What a filter could go on with: keys of terms, and values with their counts. Pure: no I/O, no clock.

A text is split into what is complete and the term that is being written. That term is completed: with keys as long as
it has none, then with values, which come from the table of counts, so that no failure is read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from redrive.errors import InvalidFilter
from redrive.recovery.filter import Filter
from redrive.recovery.filter_terms import TERM_SIGNS, value_text
from redrive.recovery.states import Outcome, Status

__all__ = ["KINDS", "KindValue", "Suggestion", "Typed", "counted_filter", "read_typed", "suggestions_of"]

_LAST: Final = re.compile(r"(?:[^\s\"']|\"(?:[^\"\\]|\\.)*\"?|'[^']*'?)*\Z", re.DOTALL)
_TYPED: Final = re.compile(r"([a-z][\w.-]*):(.*)", re.DOTALL | re.IGNORECASE)

KINDS: Final[Mapping[str, str]] = {"queue": "queues", "type": "types", "exception": "exceptions", "group": "groups"}
"""The terms whose values are counted, each with its setting of a filter."""

_WORDS: Final[Mapping[str, Sequence[str]]] = {
    "status": (*(each.word for each in Status), "any"),
    "outcome": tuple(each.word for each in Outcome),
}
_COUNTED: Final = ("status", *KINDS.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class KindValue:
    """A value of failures, and how many failures have it.

    Attributes:
        value: the value.
        count: how many.
        title: what people call it, if that is something else.
    """

    value: str
    count: int
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What a filter could go on with.

    Attributes:
        term: the term as it would be: ``queue:orders``, or a key such as ``queue:``.
        filter: the whole filter with it.
        count: how many failures would match; None: that is not known.
        title: what people call it, if that is something else.
    """

    term: str
    filter: str
    count: int | None = None
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A text that is being written.

    Attributes:
        before: the terms before the last one, as they are written.
        key: the key of the last one; empty: it has none yet.
        given: values of it that are complete, as they are written.
        part: what is written of its last value, or of its key.
    """

    before: str
    key: str
    given: str
    part: str


def read_typed(text: str) -> Typed:
    """Split a text into what is complete and what is being written."""
    found = _LAST.search(text)
    last = found[0] if found is not None else ""
    before = text[: len(text) - len(last)]
    term = _TYPED.fullmatch(last)
    if term is None:
        return Typed(before=before, key="", given="", part=last)
    given, comma, part = term[2].rpartition(",")
    return Typed(before=before, key=term[1].lower(), given=given + comma, part=part.strip("\"'"))


def counted_filter(typed: Typed, now: datetime) -> Filter:
    """Return what the values are counted of: as much of the terms before as failures are counted by.

    Args:
        typed: the text.
        now: what ages are counted from.
    """
    try:
        whole = Filter.parse(typed.before, now=now)
    except InvalidFilter:
        whole = Filter()
    kept = Filter(**{name: getattr(whole, name) for name in _COUNTED if name != KINDS.get(typed.key)})
    return kept if kept.is_about_kinds else replace(kept, groups=())


def suggestions_of(typed: Typed, values: Iterable[KindValue] = (), *, limit: int = 20) -> list[Suggestion]:
    """Return what the text could go on with.

    Args:
        typed: the text.
        values: of a key of ``KINDS``: its values that contain the part, those with most failures first.
        limit: how many at most.
    """
    if not typed.key:
        keys = [each for each in TERM_SIGNS if each.startswith(typed.part.lower())]
        return [Suggestion(term=each, filter=typed.before + each) for each in keys[:limit]]
    if typed.key in _WORDS:
        words = [each for each in _WORDS[typed.key] if typed.part.lower() in each]
        return [_suggested(typed, each) for each in words[:limit]]
    return [_suggested(typed, each.value, each.count, each.title) for each in list(values)[:limit]]


def _suggested(typed: Typed, value: str, count: int | None = None, title: str = "") -> Suggestion:
    term = f"{typed.key}:{typed.given}{value_text(value)}"
    return Suggestion(term=term, filter=typed.before + term, count=count, title=title)
