# SPDX-License-Identifier: MIT
"""The terms of a filter's text: which settings each stands for, how they are read and written. Pure: no I/O."""

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

from redrive.errors import InvalidFilter, InvalidSetting
from redrive.recovery.filter_values import (
    NAMES,
    Check,
    check_age,
    check_headers,
    check_instant,
    check_number,
    check_status,
    check_text,
    read_instant,
    texts,
    words,
)
from redrive.recovery.states import Outcome

DATES = ("failed_from", "failed_until")
SAME = {"age_min": "failed_until", "age_max": "failed_from"}
"""The instant that an age stands for."""

_QUOTED = re.compile(r""""((?:[^"\\]|\\.)*)"|'([^']*)'""", re.DOTALL)
_TERM = re.compile(rf"(?:{_QUOTED.pattern}|[^\s\"'])+", re.DOTALL)
_VALUE = re.compile(rf"(?:{_QUOTED.pattern}|[^,\"'])+", re.DOTALL)
_ESCAPED, _SPECIAL, _ESCAPE = re.compile(r'\\(["\\])'), re.compile(r'(["\\])'), r"\\\1"
_KEY = re.compile(r"([A-Za-z][\w-]*)([<>]=|[:=<>])")
_HEADER = re.compile(rf"(?i:header)\.(?P<name>(?:{_QUOTED.pattern}|[^\s\"':=<>])*)(?P<sign>[<>]=|[:=<>])", re.DOTALL)
_SIMPLE = re.compile(r"[\w.:*/+$-]+")
_SIMPLE_NAME = re.compile(r"[\w.*/+$-]+")


class TermReader:
    """Reads the text of a filter, term by term.

    Args:
        text: the text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._given: dict[str, Any] = {}
        self._places: dict[str, re.Match[str]] = {}

    def read(self) -> Mapping[str, Any]:
        """Return the settings that the text states.

        Raises:
            InvalidFilter: it cannot be understood; the error says where and why.
        """
        for term in self._terms():
            try:
                for name, value in self._settings(term[0]):
                    self._put(name, value)
                    self._places[name] = term
            except InvalidSetting as error:
                self._fail(term, error.allowed)
        return self._given

    def blame(self, error: InvalidSetting) -> NoReturn:
        """Refuse the term that stated a setting, which is valid by itself, but contradicts another one.

        Raises:
            InvalidFilter: always.
        """
        self._fail(self._places[error.setting], error.allowed)

    def _terms(self) -> Iterator[re.Match[str]]:
        at = 0
        while (term := _TERM.search(self._text, at)) and self._text[at : term.start()].strip() == "":
            at = term.end()
            yield term
        at = len(self._text) - len(self._text[at:].lstrip())
        if at < len(self._text):
            raise InvalidFilter(self._text, at, f"{self._text[at:][:20]}: this quote is never closed")

    def _settings(self, term: str) -> Iterator[tuple[str, object]]:
        if (header := _HEADER.match(term)) is not None:
            yield "headers", self._header(header, term)
            return
        found = _KEY.match(term)
        if found is None:
            yield "text", _unquoted(term)
            return
        key, sign, raw = found[1].lower(), {"=": ":"}.get(found[2], found[2]), term[found.end() :]
        if key not in _KEYS:
            hint = f"there is no key {key!r}, and text to look for goes in quotes; {instead(key, _KEYS)}"
            raise InvalidSetting("filter", key, hint)
        if key + sign not in _MEANINGS:
            raise InvalidSetting(
                "filter", key, f"write {' or '.join(each for each in _MEANINGS if each.startswith(key))}"
            )
        for name, shift in _MEANINGS[key + sign]:
            value = self._value(name, raw)
            yield name, value + shift if isinstance(value, int) else value

    def _header(self, found: re.Match[str], term: str) -> dict[str, list[str]]:
        if not found["name"] or found["sign"] not in (":", "="):
            raise InvalidSetting("headers", term, "write header.NAME:VALUE")
        return {_unquoted(found["name"]): _several("headers", term[found.end() :])}

    def _value(self, name: str, raw: str) -> object:
        text = _unquoted(raw)
        if name == "text" or name in SAME:
            return text
        if name in ("attempts_min", "attempts_max", "operation"):
            return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text
        if name in DATES:
            return read_instant(name, text)
        return _several(name, raw)

    def _put(self, name: str, value: object) -> None:
        CHECKS[name](name, value)
        for one, other in (*SAME.items(), *((instant, age) for age, instant in SAME.items())):
            if name == one and other in self._given:
                raise InvalidSetting(name, value, f"{_SIGNS[other]} states it already")
        self._given[name] = value if name not in self._given else _both(name, self._given[name], value)

    def _fail(self, term: re.Match[str], problem: str) -> NoReturn:
        raise InvalidFilter(self._text, term.start(), f"{term[0][:60]}: {problem}") from None


def text_of(stated: Mapping[str, Any]) -> str:
    """Return the text of settings, which are JSON values: what ``TermReader`` reads."""
    terms: list[str] = []
    for term, (name, _) in _TERMS.items():
        if name == "headers":
            headers = stated.get(name, {}).items()
            terms += [f"{term}{_written(each, _SIMPLE_NAME)}:{_value_text(name, values)}" for each, values in headers]
        elif name in stated:
            terms.append(term + _value_text(name, stated[name]))
    return " ".join(terms)


def instead(name: str, known: Collection[str]) -> str:
    """Return what to write instead of a name that is not known."""
    near = get_close_matches(name, known, n=1, cutoff=0.7)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"


def _both(name: str, before: Any, more: Any) -> object:  # noqa: ANN401 - the values of any setting
    """Return the value of a setting that is stated twice."""
    if isinstance(more, dict):
        return before | {each: [*before.get(each, ()), *values] for each, values in more.items()}
    if isinstance(more, list):
        return [*before, *more]
    if name != "text":
        raise InvalidSetting(name, more, "it is stated twice")
    return f"{before} {more}"


def _several(name: str, raw: str) -> list[str]:
    values = [found[0] for found in _VALUE.finditer(raw)]
    if not values or ",".join(values) != raw:
        raise InvalidSetting(name, raw, "a value is missing; write one, or several with commas between them")
    return [_unquoted(each) for each in values]


def _unquoted(raw: str) -> str:
    return _QUOTED.sub(lambda found: _ESCAPED.sub(r"\1", found[1]) if found[2] is None else found[2], raw)


def _value_text(name: str, value: object) -> str:
    if name in SAME:
        return f"{value!r}s".replace(".0s", "s")
    parts = [str(each) for each in (value if isinstance(value, list) else [value])]
    return ",".join(_written(each, _SIMPLE) for each in parts)


def value_text(value: str) -> str:
    """Return a value as the text of a filter has it: with quotes, if it needs them."""
    return _written(value, _SIMPLE)


def _written(text: str, simple: re.Pattern[str]) -> str:
    """Return a text as a term has it: with quotes, if it needs them."""
    return text if simple.fullmatch(text) else f'"{_SPECIAL.sub(_ESCAPE, text)}"'


_TERMS: dict[str, tuple[str, Check]] = {
    "status:": ("status", check_status),
    "queue:": ("queues", texts()),
    "route:": ("routes", texts()),
    "source:": ("sources", texts()),
    "group:": ("groups", texts()),
    "type:": ("types", NAMES),
    "exception:": ("exceptions", NAMES),
    "reason:": ("reasons", NAMES),
    "host:": ("hosts", NAMES),
    "header.": ("headers", check_headers),
    "failed>=": ("failed_from", check_instant),
    "failed<": ("failed_until", check_instant),
    "age>": ("age_min", check_age),
    "age<": ("age_max", check_age),
    "attempts>=": ("attempts_min", check_number),
    "attempts<=": ("attempts_max", check_number),
    "id:": ("ids", texts("[0-9a-f]{32}", "32 hexadecimal characters", str.lower)),
    "message:": ("message_ids", texts()),
    "operation:": ("operation", check_number),
    "outcome:": ("outcomes", words([each.word for each in Outcome])),
    "text:": ("text", lambda name, value: value if value is None else check_text(name, value)),
}
_MEANINGS = {term: [(name, 0)] for term, (name, _) in _TERMS.items()} | {
    "failed>": [("failed_from", 0)],
    "age>=": [("age_min", 0)],
    "age<=": [("age_max", 0)],
    "attempts>": [("attempts_min", 1)],
    "attempts<": [("attempts_max", -1)],
    "attempts:": [("attempts_min", 0), ("attempts_max", 0)],
}
"""The settings that a term stands for, and how far they are from the number that is written."""
_KEYS = tuple(dict.fromkeys(term.rstrip(":<>=") for term in _TERMS))
_SIGNS = {name: term for term, (name, _) in _TERMS.items()}

TERM_SIGNS = tuple(_TERMS)
"""How each term begins."""

CHECKS: Mapping[str, Check] = dict(_TERMS.values())
"""The settings of a filter, and what checks each."""
