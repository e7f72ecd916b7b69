# SPDX-License-Identifier: MIT
"""Which failed messages are meant: one filter for every command. Pure: no I/O, no clock, no randomness.

As a text it has terms with spaces between them. A message must fit every term, and one of the values in each::

    status:unresolved,archived queue:orders,billing type:order.* exception:ValueError group:ab12
    failed>2026-11-01 failed<2026-11-02T10:00Z age<2h age>30d attempts>=3 attempts<10 attempts:3
    source:error route:invoices host:web-* reason:Poison header.tenant:acme
    id:0123456789abcdef0123456789abcdef message:order-17 operation:12 outcome:skipped,failed "no such customer"

A word that is not a term is text to search for; quotes work as in a shell. Dates without a zone are in UTC. ``age<2h``
means in the last two hours, ``age>2h`` before them, counted from the moment at which the text is read. Without
``status:`` a filter matches unresolved messages only.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from redrive.broker import HeaderValue
from redrive.broker.rules import header_text
from redrive.errors import InvalidSetting, UsageError
from redrive.recovery.filter_terms import CHECKS, DATES, SAME, TermReader, instead, text_of
from redrive.recovery.filter_values import NO_MESSAGE, check_instant, read_instant
from redrive.recovery.fingerprint import ADDED
from redrive.recovery.states import Status

_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_NARROW = (
    *("queues", "routes", "groups", "types", "exceptions", "failed_from", "age_max"),
    *("ids", "message_ids", "operation"),
)
"""The settings for which there is an index."""


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
        source: the queue it was found in.
        host: the machine it failed on.
        reason: why it was given up, in a word for programs.
        headers: the message's own.
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
    source: str = ""
    host: str = ""
    reason: str = ""
    headers: Mapping[str, HeaderValue] = field(default_factory=dict[str, HeaderValue])
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
        routes: the routes on which they failed, any of these, by their names.
        sources: the queues that they were found in, any of these.
        groups: ids of groups, any of these.
        types: types of messages, any of these; ``order.*`` is every type that begins with ``order.``.
        exceptions: types of exceptions, any of these; ``ValueError`` is ``shop.ValueError`` too, ``shop.*`` is every
            one that begins with ``shop.``.
        reasons: why they were given up, in a word for programs, any of these; a ``*`` at the end as in ``types``.
        hosts: the machines they failed on, any of these; a ``*`` at the end as in ``types``.
        headers: headers of the messages by name, and for each its value, any of these; a ``*`` at the end as in
            ``types``. They are in no index, so another setting that is in one must come with them.
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
    routes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    headers: tuple[tuple[str, tuple[str, ...]], ...] = ()
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
        for name, check in CHECKS.items():
            given = getattr(self, name)
            if given is not _DEFAULTS[name]:  # pages make hundreds of filters, and most of each is left out
                object.__setattr__(self, name, check(name, given))
        if self.failed_from and self.failed_until and self.failed_from >= self.failed_until:
            raise InvalidSetting("failed_until", str(self.failed_until), f"must be after {self.failed_from}")
        for age, instant in SAME.items():
            if getattr(self, age) is not None and getattr(self, instant) is not None:
                raise InvalidSetting(age, getattr(self, age), f"{instant} states it already")
        if self.age_min is not None and self.age_max is not None and self.age_max <= self.age_min:
            allowed = f"must be more than {self.age_min:g} s: nothing is older than that and younger than this"
            raise InvalidSetting("age_max", self.age_max, allowed)
        if self.attempts_max is not None and self.attempts_max < (self.attempts_min or 0):
            raise InvalidSetting("attempts_max", self.attempts_max, f"must be {self.attempts_min} or more")
        if self.outcomes and self.operation is None:
            raise InvalidSetting("outcomes", self.outcomes, "must come with the operation in which they were reached")
        if self.headers and not any(getattr(self, name) for name in _NARROW):
            allowed = "must come with a term that narrows the search: queue:, type:, exception:, group: or age<1d"
            raise InvalidSetting("headers", [name for name, _ in self.headers], allowed)

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
        reader = TermReader(text)
        given = reader.read()
        try:
            return cls(**given).at(now, written=text)
        except InvalidSetting as error:  # each value is valid by itself, but two of them contradict each other
            reader.blame(error)

    def at(self, now: datetime, *, written: str | None = None) -> "Filter":
        """Return the filter with instants in place of ages, so that it means the same at a later time.

        Args:
            now: what ages are counted from.
            written: the text it was read from; None: what ``str`` says.
        """
        ages = {age: getattr(self, age) for age in SAME if getattr(self, age) is not None}
        if not ages and written is None:
            return self
        changes: dict[str, Any] = dict.fromkeys(ages)
        changes |= {SAME[age]: now - timedelta(seconds=many) for age, many in ages.items()}
        settled = replace(self, **changes)
        object.__setattr__(settled, "written", str(self) if written is None else written)
        return settled

    def on(self, queues_by_route: Mapping[str, Sequence[str]]) -> "Filter":
        """Return the filter with queues in place of routes, so that it means the same when these have changed.

        Args:
            queues_by_route: the queues of every route there is, by its name.

        Raises:
            InvalidSetting: there is no such route.
        """
        if not self.routes:
            return self
        for name in self.routes:
            if name not in queues_by_route:
                raise InvalidSetting(
                    "route", name, "must be a route that is stored here; redrive routes list shows them"
                )
        theirs = {queue for name in self.routes for queue in queues_by_route[name]}
        queues = tuple(theirs.intersection(self.queues) if self.queues else theirs)
        settled = replace(self, routes=(), queues=queues, ids=self.ids if queues else (NO_MESSAGE,))
        object.__setattr__(settled, "written", self.written or str(self))
        return settled

    def __str__(self) -> str:
        return text_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, as JSON values."""
        values = ((each, getattr(self, each.name)) for each in fields(self) if each.init)
        stated = {each.name: _plain(value) for each, value in values if value != each.default}
        return stated if not self.headers else {**stated, "headers": {name: list(each) for name, each in self.headers}}

    @classmethod
    def from_json(cls, value: object) -> "Filter":
        """Return the filter that a JSON object describes; unknown keys are refused with ``InvalidSetting``."""
        if not isinstance(value, dict):
            raise InvalidSetting("filter", value, "must be an object")
        for name in value:
            if name not in CHECKS:
                raise InvalidSetting("filter", name, f"is no key of a filter; {instead(str(name), tuple(CHECKS))}")
        return cls(**{name: read_instant(name, each) if name in DATES else each for name, each in value.items()})

    def check_settled(self) -> None:
        """Refuse ages and routes: without an instant to count from, and their queues, they mean nothing."""
        if self.age_min is not None or self.age_max is not None:
            raise UsageError(f"the filter {str(self)!r} has an age; say what it is counted from: filter.at(now)")
        if self.routes:
            raise UsageError(f"the filter {str(self)!r} has a route; say which queues that has: filter.on(queues)")

    @property
    def type_patterns(self) -> tuple[Pattern, ...]:
        """What the message's type is compared with: it must match one of them, if there are any."""
        return tuple(_pattern(each, "exact") for each in self.types)

    @property
    def exception_patterns(self) -> tuple[Pattern, ...]:
        """What the exception's type is compared with: it must match one of them, if there are any."""
        return tuple(_pattern(each, "exact" if "." in each else "last-part") for each in self.exceptions)

    @property
    def reason_patterns(self) -> tuple[Pattern, ...]:
        """What the reason is compared with: it must match one of them, if there are any."""
        return tuple(_pattern(each, "exact") for each in self.reasons)

    @property
    def host_patterns(self) -> tuple[Pattern, ...]:
        """What the machine is compared with: it must match one of them, if there are any."""
        return tuple(_pattern(each, "exact") for each in self.hosts)

    @property
    def header_patterns(self) -> tuple[tuple[str, tuple[Pattern, ...]], ...]:
        """The headers that are compared: each must have a value that matches one of its patterns."""
        return tuple((name, tuple(_pattern(each, "exact") for each in values)) for name, values in self.headers)

    @property
    def is_about_kinds(self) -> bool:
        """Whether it compares only what failures are counted by: status, exception, queue and type."""
        counted = {name: getattr(self, name) for name in ("status", "queues", "types", "exceptions", "groups")}
        is_own = not any(group.startswith(ADDED) for group in self.groups)
        return is_own and self == Filter(**counted)

    @property
    def is_slow(self) -> bool:
        """Whether it takes long to find or to count what matches: neither an index nor the counts know it."""
        return self.text is not None or not (self.is_about_kinds or self.ids or self.message_ids)

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
            and (not self.sources or facts.source in self.sources)
            and (not self.reasons or any(each.matches(facts.reason) for each in self.reason_patterns))
            and (not self.hosts or any(each.matches(facts.host) for each in self.host_patterns))
            and all(_has(facts.headers, name, patterns) for name, patterns in self.header_patterns)
            and (self.failed_from is None or facts.failed_at >= self.failed_from)
            and (self.failed_until is None or facts.failed_at < self.failed_until)
            and (self.attempts_min is None or facts.attempts >= self.attempts_min)
            and (self.attempts_max is None or facts.attempts <= self.attempts_max)
            and (self.operation is None or self.operation in facts.memberships)
            and (not self.outcomes or facts.memberships[self.operation or 0] in self.outcomes)
            and (self.text is None or any(_fold(self.text) in _fold(part) for part in facts.text_parts))
        )


_DEFAULTS = {each.name: each.default for each in fields(Filter)}


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


def _has(headers: Mapping[str, HeaderValue], name: str, patterns: Iterable[Pattern]) -> bool:
    text = header_text(headers.get(name))
    return any(each.matches(text) for each in patterns)
