# SPDX-License-Identifier: MIT
"""The filter bar: the terms of a filter as chips, each with the filter without it. Pure: no I/O, no clock.

The text is the one that the command line and the API take. It is only taken apart here; the filter itself says whether
it is right, and where it is not.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from redrive.broker.views import View
from redrive.errors import InvalidFilter
from redrive.recovery import Filter

STATUSES: Final = (
    ("", "Unresolved", "failed"),
    ("retry-issued", "Sent, unconfirmed", "unconfirmed"),
    ("resolved", "Resolved", "resolved"),
    ("archived", "Archived", "archived"),
)
"""The tabs: the word of a status, what people read, and the name of its count."""

_TERM: Final = re.compile(r"""(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"'])+""", re.DOTALL)
_KEYED: Final = re.compile(r"([A-Za-z][\w.-]*)([<>]=|[:=<>])(.*)", re.DOTALL)
_WORDS: Final = {
    ("age", "<"): ("failed", "in the last {}"),
    ("age", "<="): ("failed", "in the last {}"),
    ("age", ">"): ("failed", "more than {} ago"),
    ("age", ">="): ("failed", "more than {} ago"),
    ("failed", ">"): ("failed", "since {}"),
    ("failed", ">="): ("failed", "since {}"),
    ("failed", "<"): ("failed", "before {}"),
    ("attempts", ">="): ("attempts", "at least {}"),
    ("attempts", "<="): ("attempts", "at most {}"),
    ("attempts", ">"): ("attempts", "more than {}"),
    ("attempts", "<"): ("attempts", "less than {}"),
}


def terms_of(text: str) -> list[str]:
    """Return the terms of a filter, as they are written."""
    return _TERM.findall(text)


def chips_of(text: str, error: InvalidFilter | None = None) -> list[View]:
    """Return the terms as a bar shows them, the status apart: that is what the tabs are for.

    Args:
        text: the filter.
        error: what is wrong with it, if anything: the term at that place is marked.
    """
    shown: list[View] = []
    terms = [(found[0], found.start(), found.end()) for found in _TERM.finditer(text)]
    for term, start, end in terms:
        if term.lower().startswith("status:") and error is None:
            continue
        key, value = _read(term)
        others = " ".join(each for each, begins, _ in terms if begins != start)
        is_wrong = error is not None and start <= error.position < max(end, start + 1)
        shown.append({"key": key, "value": value, "without": others, "is_wrong": is_wrong})
    return shown


def _read(term: str) -> tuple[str, str]:
    found = _KEYED.fullmatch(term)
    if found is None:
        return "text", term.strip("\"'")
    key, sign, value = found[1].lower(), found[2], found[3]
    key, form = _WORDS.get((key, sign), (key, "{}"))
    return key, form.format(value.replace(",", ", "))


def status_of(text: str) -> str:
    """Return the status that a filter names; empty: none, so the unresolved ones."""
    for term in terms_of(text):
        if term.lower().startswith("status:"):
            word = term.partition(":")[2]
            return "" if word == "unresolved" else word
    return ""


def with_status(text: str, word: str) -> str:
    """Return a filter with another status; empty: with none."""
    others = [each for each in terms_of(text) if not each.lower().startswith("status:")]
    return " ".join([f"status:{word}", *others] if word else others)


def narrowed_to(text: str, by: str, names: Sequence[str]) -> str:
    """Return a filter that only matches these groups: of an exception, a queue or a type."""
    if not names:
        return text
    term = _term_of(by, tuple(names))
    key = term.partition(":")[0]
    others = [each for each in terms_of(text) if not each.lower().startswith(f"{key}:")]
    return " ".join([*others, term])


@lru_cache(maxsize=1_000)  # each row of a list has one or two, and lists are shown again and again
def _term_of(by: str, names: tuple[str, ...]) -> str:
    field = {"queue": "queues", "type": "types"}.get(by, "groups")
    return str(Filter(**{field: names}))  # type: ignore[arg-type]  # each of them is a tuple of texts
