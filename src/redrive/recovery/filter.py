# SPDX-License-Identifier: MIT
"""Which failed messages are meant: one filter for every command. Pure: no I/O, no clock, no randomness.

As a text it has terms with spaces between them. A message must fit every term, and one of the values in each::

    status:unresolved,archived queue:orders,billing type:order.* exception:ValueError group:ab12
    failed>2026-11-01 failed<2026-11-02T10:00Z age<2h age>30d attempts>=3 attempts<10 attempts:3
    id:0123456789abcdef0123456789abcdef message:order-17 operation:12 outcome:skipped,failed "no such customer"

A word that is not a term is text to search for; quotes work as in a shell. Dates without a zone are in UTC. ``age<2h``
means in the last two hours, ``age>2h`` before them, counted from the moment at which the text is read. Without
``status:`` a filter matches unresolved messages only.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal, NoReturn

from redrive.errors import InvalidFilter, InvalidSetting, UsageError
from redrive.recovery.filter_values import (
    Check,
    check_age,
    check_instant,
    check_number,
    check_status,
    check_text,
    read_instant,
    texts,
    words,
)
from redrive.recovery.fingerprint import ADDED
from redrive.recovery.states import Outcome, Status

_DATES = ("failed_from", "failed_until")

_QUOTED = re.compile(r""""((?:[^"\\]|\\.)*)"|'([^']*)'""", re.DOTALL)
_TERM = re.compile(rf"(?:{_QUOTED.pattern}|[^\s\"'])+", re.DOTALL)
_VALUE = re.compile(rf"(?:{_QUOTED.pattern}|[^,\"'])+", re.DOTALL)
_ESCAPED, _SPECIAL, _ESCAPE = re.compile(r'\\(["\\])'), re.compile(r'(["\\])'), r"\\\1"
_KEY = re.compile(r"([A-Za-z][\w-]*)([<>]=|[:=<>])")
_SIMPLE = re.compile(r"[\w.:*/+$-]+")
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a name is compared with. Case matters, so SQLite's LIKE cannot be used.

    Attributes:
        kind: ``exact``; ``prefix``: how the name begins; ``last-part``: the whole name, or what follows its last dot.
        text: the name, or that part of it.
    """

    kind: Literal["exact", "prefix", "last-part"]
    text: str

    def matches(self, name: str | None) -> bool:
        """Whether a name matches; a missing name never does."""
        if name is None:
            return False
        if self.kind == "prefix":
            return name.startswith(self.text)
        return name == self.text or (self.kind == "last-part" and name.endswith(f".{self.text}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFacts:
    """The fields of a failed message that a filter compares.

    Attributes:
        id: its own id, 32 hexadecimal characters.
        message_id: the id that its sender gave it.
        status: where it stands.
        queue: where it failed.
        failed_at: when it failed for the last time.
        attempts: how often it has failed.
        message_type: what its type is called.
        exception_type: what its last exception is called.
        group_ids: the groups it is in, of all classifiers.
        text_parts: what is searched for text, each by itself: headers, body, exception message.
        memberships: what became of it in each operation, in words.
    """

    id: str
    message_id: str
    status: Status
    queue: str
    failed_at: datetime
    attempts: int
    message_type: str | None = None
    exception_type: str | None = None
    group_ids: Collection[str] = ()
    text_parts: Iterable[str] = ()
    memberships: Mapping[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which failed messages are meant: those that match every setting.

    A setting that takes several values takes any iterable of them, or a single one. Values are checked and sorted, so
    that filters with the same meaning are equal.

    Attributes:
        status: where they stand, as ``Status`` or in words; none, or ``"any"``: anywhere.
        queues: where they failed, any of these.
        groups: ids of groups, any of these.
        types: types of messages, any of these; ``order.*`` is every type that begins with ``order.``.
        exceptions: types of exceptions, any of these; ``ValueError`` is ``shop.ValueError`` too, ``shop.*`` is every
            one that begins with ``shop.``.
        text: what their headers, body or exception message have in them; the case of ASCII letters does not matter.
        failed_from: they failed for the last time then or later.
        failed_until: they failed for the last time before then.
        age_min: they failed for the last time longer ago than that: seconds, a ``timedelta`` or a text such as ``30d``.
        age_max: they failed for the last time not longer ago than that.
        attempts_min: how often they have failed at least.
        attempts_max: how often they have failed at most.
        ids: their own ids, any of these.
        message_ids: the ids that their senders gave them, any of these.
        operation: the operation that they are part of.
        outcomes: what became of them in it, any of these words.
        written: the text it was read from, if any: the same text is the same request, also at a later moment.
    """

    status: frozenset[Status] = frozenset({Status.UNRESOLVED})
    queues: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    text: str | None = None
    failed_from: datetime | None = None
    failed_until: datetime | None = None
    age_min: float | None = None
    age_max: float | None = None
    attempts_min: int | None = None
    attempts_max: int | None = None
    ids: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    operation: int | None = None
    outcomes: tuple[str, ...] = ()
    written: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        if self.failed_from and self.failed_until and self.failed_from >= self.failed_until:
            raise InvalidSetting("failed_until", str(self.failed_until), f"must be after {self.failed_from}")
        for age, instant in _SAME.items():
            if getattr(self, age) is not None and getattr(self, instant) is not None:
                raise InvalidSetting(age, getattr(self, age), f"{instant} states it already")
        if self.age_min is not None and self.age_max is not None and self.age_max <= self.age_min:
            allowed = f"must be more than {self.age_min:g} s: nothing is older than that and younger than this"
            raise InvalidSetting("age_max", self.age_max, allowed)
        if self.attempts_max is not None and self.attempts_max < (self.attempts_min or 0):
            raise InvalidSetting("attempts_max", self.attempts_max, f"must be {self.attempts_min} or more")
        if self.outcomes and self.operation is None:
            raise InvalidSetting("outcomes", self.outcomes, "must come with the operation in which they were reached")

    @classmethod
    def parse(cls, text: str, *, now: datetime) -> "Filter":
        """Return the filter that a text describes.

        Args:
            text: the terms; an empty text matches every unresolved message.
            now: what ages are counted from.

        Raises:
            InvalidFilter: it cannot be understood; the error says where and why.
        """
        check_instant("now", now)
        return _Reader(text).read().at(now, written=text)

    def at(self, now: datetime, *, written: str | None = None) -> "Filter":
        """Return the filter with instants in place of ages, so that it means the same at a later time.

        Args:
            now: what ages are counted from.
            written: the text it was read from; None: what ``str`` says.
        """
        ages = {age: getattr(self, age) for age in _SAME if getattr(self, age) is not None}
        if not ages and written is None:
            return self
        changes: dict[str, Any] = dict.fromkeys(ages)
        changes |= {_SAME[age]: now - timedelta(seconds=many) for age, many in ages.items()}
        settled = replace(self, **changes)
        object.__setattr__(settled, "written", str(self) if written is None else written)
        return settled

    def __str__(self) -> str:
        stated = self.to_json()
        return " ".join(term + _value_text(name, stated[name]) for term, (name, _) in _TERMS.items() if name in stated)

    def to_json(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, as JSON values."""
        values = ((each, getattr(self, each.name)) for each in fields(self) if each.init)
        return {each.name: _plain(value) for each, value in values if value != each.default}

    @classmethod
    def from_json(cls, value: object) -> "Filter":
        """Return the filter that a JSON object describes; unknown keys are refused with ``InvalidSetting``."""
        if not isinstance(value, dict):
            raise InvalidSetting("filter", value, "must be an object")
        for name in value:
            if name not in _CHECKS:
                raise InvalidSetting("filter", name, f"is no key of a filter; {_instead(str(name), tuple(_CHECKS))}")
        return cls(**{name: read_instant(name, each) if name in _DATES else each for name, each in value.items()})

    def check_settled(self) -> None:
        """Refuse ages: without an instant to count from, they mean nothing."""
        if self.age_min is not None or self.age_max is not None:
            raise UsageError(f"the filter {str(self)!r} has an age; say what it is counted from: filter.at(now)")

    @property
    def type_patterns(self) -> tuple[Pattern, ...]:
        """What the message's type is compared with: it must match one of them, if there are any."""
        return tuple(_pattern(each, "exact") for each in self.types)

    @property
    def exception_patterns(self) -> tuple[Pattern, ...]:
        """What the exception's type is compared with: it must match one of them, if there are any."""
        return tuple(_pattern(each, "exact" if "." in each else "last-part") for each in self.exceptions)

    @property
    def is_about_kinds(self) -> bool:
        """Whether it compares only what failures are counted by: status, exception, queue and type."""
        counted = {name: getattr(self, name) for name in ("status", "queues", "types", "exceptions", "groups")}
        is_own = not any(group.startswith(ADDED) for group in self.groups)
        return is_own and self == Filter(**counted)

    def matches(self, facts: FailureFacts) -> bool:
        """Whether a failed message matches. Tests compare the SQL of the engines with this."""
        self.check_settled()
        return (
            facts.status in self.status
            and (not self.ids or facts.id in self.ids)
            and (not self.message_ids or facts.message_id in self.message_ids)
            and (not self.queues or facts.queue in self.queues)
            and (not self.groups or not set(self.groups).isdisjoint(facts.group_ids))
            and (not self.types or any(each.matches(facts.message_type) for each in self.type_patterns))
            and (not self.exceptions or any(each.matches(facts.exception_type) for each in self.exception_patterns))
            and (self.failed_from is None or facts.failed_at >= self.failed_from)
            and (self.failed_until is None or facts.failed_at < self.failed_until)
            and (self.attempts_min is None or facts.attempts >= self.attempts_min)
            and (self.attempts_max is None or facts.attempts <= self.attempts_max)
            and (self.operation is None or self.operation in facts.memberships)
            and (not self.outcomes or facts.memberships[self.operation or 0] in self.outcomes)
            and (self.text is None or any(_fold(self.text) in _fold(part) for part in facts.text_parts))
        )


class _Reader:
    """Reads the text of a filter, term by term."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._given: dict[str, Any] = {}
        self._places: dict[str, re.Match[str]] = {}

    def read(self) -> Filter:
        for term in self._terms():
            try:
                for name, value in self._settings(term[0]):
                    self._put(name, value)
                    self._places[name] = term
            except InvalidSetting as error:
                self._fail(term, error.allowed)
        try:
            return Filter(**self._given)
        except InvalidSetting as error:  # each value is valid by itself, but two of them contradict each other
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
        found = _KEY.match(term)
        if found is None:
            yield "text", _unquoted(term)
            return
        key, sign, raw = found[1].lower(), {"=": ":"}.get(found[2], found[2]), term[found.end() :]
        if key not in _KEYS:
            hint = f"there is no key {key!r}, and text to look for goes in quotes; {_instead(key, _KEYS)}"
            raise InvalidSetting("filter", key, hint)
        if key + sign not in _MEANINGS:
            raise InvalidSetting(
                "filter", key, f"write {' or '.join(each for each in _MEANINGS if each.startswith(key))}"
            )
        for name, shift in _MEANINGS[key + sign]:
            value = self._value(name, raw)
            yield name, value + shift if isinstance(value, int) else value

    def _value(self, name: str, raw: str) -> object:
        text = _unquoted(raw)
        if name == "text" or name in _SAME:
            return text
        if name in ("attempts_min", "attempts_max", "operation"):
            return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text
        if name in _DATES:
            return read_instant(name, text)
        values = [found[0] for found in _VALUE.finditer(raw)]
        if not values or ",".join(values) != raw:
            raise InvalidSetting(name, raw, "a value is missing; write one, or several with commas between them")
        return [_unquoted(each) for each in values]

    def _put(self, name: str, value: object) -> None:
        _CHECKS[name](name, value)
        for one, other in (*_SAME.items(), *((instant, age) for age, instant in _SAME.items())):
            if name == one and other in self._given:
                raise InvalidSetting(name, value, f"{_SIGNS[other]} states it already")
        if name in self._given:
            if name != "text" and not isinstance(value, list):
                raise InvalidSetting(name, value, "it is stated twice")
            value = [*self._given[name], *value] if isinstance(value, list) else f"{self._given[name]} {value}"
        self._given[name] = value

    def _fail(self, term: re.Match[str], problem: str) -> NoReturn:
        raise InvalidFilter(self._text, term.start(), f"{term[0][:60]}: {problem}") from None


def _unquoted(raw: str) -> str:
    return _QUOTED.sub(lambda found: _ESCAPED.sub(r"\1", found[1]) if found[2] is None else found[2], raw)


def _value_text(name: str, value: object) -> str:
    if name in _SAME:
        return f"{value!r}s".replace(".0s", "s")
    parts = [str(each) for each in (value if isinstance(value, list) else [value])]
    return ",".join(each if _SIMPLE.fullmatch(each) else f'"{_SPECIAL.sub(_ESCAPE, each)}"' for each in parts)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, frozenset):
        return ["any"] if len(value) == len(Status) else [each.word for each in sorted(value)]
    return list(value) if isinstance(value, tuple) else value


def _pattern(text: str, otherwise: Literal["exact", "last-part"]) -> Pattern:
    return Pattern("prefix", text[:-1]) if text.endswith("*") else Pattern(otherwise, text)


def _fold(text: str) -> str:
    return text.translate(_ASCII_LOWER)  # as SQLite's LIKE, which leaves all other letters as they are


def _instead(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.7)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"


_NAMES = texts(r"[^*]*\*?", "a name, with a * at its end only")
_TERMS: dict[str, tuple[str, Check]] = {
    "status:": ("status", check_status),
    "queue:": ("queues", texts()),
    "group:": ("groups", texts()),
    "type:": ("types", _NAMES),
    "exception:": ("exceptions", _NAMES),
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
_CHECKS = dict(_TERMS.values())
_SIGNS = {name: term for term, (name, _) in _TERMS.items()}
_SAME = {"age_min": "failed_until", "age_max": "failed_from"}
"""The instant that an age stands for."""
