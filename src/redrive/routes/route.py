# SPDX-License-Identifier: MIT
# ruff: noqa: RUF009 - the function called for each field returns dataclasses.field
"""The route: a receiver, filters and a sender. Pure: no I/O, no clock, no randomness.

Python, files and the live routes of a database all make this value, and it is checked when it is made.
"""

import json
import re
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack, cast

from redrive import duration
from redrive.errors import InvalidRoute, InvalidSetting, UnknownSetting, UsageError
from redrive.retry import Exponential
from redrive.routes.parts import (
    ChainEnd,
    ChoiceSetting,
    DurationSetting,
    EventFilter,
    EventReceiver,
    EventSender,
    OutsideFilter,
    RoutePart,
    Table,
    WholeSetting,
    setting,
)

OnExhausted: TypeAlias = Literal["dead_letter", "nack", "discard"]
Ordering: TypeAlias = Literal["none", "key", "strict"]

DEFAULT_APPLICATION: Final = "default"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
_PARTS = ("source", "filters", "sender")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings(RoutePart):
    """How a route deals with failures, and how much it does at a time."""

    max_attempts: int = setting(WholeSetting(1, 1_000), "how often an event is tried before its leg is dead", 8)
    max_age: float = setting(DurationSetting(), "how old an event may be that is tried again", 86_400.0)
    min_delay: float = setting(
        DurationSetting(), "the delay before the first replay; each is twice the one before", 1.0
    )
    max_delay: float = setting(DurationSetting(), "the longest delay between replays", 600.0)
    quiet_retries: int = setting(
        WholeSetting(0, 100), "how often the sender is called again within one attempt, after 0.1 s and more", 2
    )
    on_exhausted: OnExhausted | None = setting(
        ChoiceSetting(("dead_letter", "nack", "discard")),
        "what becomes of a leg after its last attempt; None: dead_letter, or discard with direct delivery",
        None,
    )
    ordering: Ordering = setting(
        ChoiceSetting(("none", "key", "strict")), "whether events overtake each other: none, key or strict", "none"
    )
    on_dead: Literal["continue", "halt"] = setting(
        ChoiceSetting(("continue", "halt")), "of an ordered route: whether it is paused when a leg dies", "continue"
    )
    concurrency: int = setting(WholeSetting(1, 1_000), "how many events are on their way at a time", 16)
    timeout: float = setting(DurationSetting(), "how long one call of the sender may take", 30.0)
    breaker_failures: int = setting(
        WholeSetting(1, 10_000), "after how many failures in a row, of different events, the route is parked", 10
    )
    probe_after: float = setting(DurationSetting(), "how long a parked route waits before it tries one event", 30.0)

    def check(self) -> None:
        """See that the settings fit together."""
        if self.max_delay < self.min_delay:
            raise InvalidSetting("max_delay", self.max_delay, f"must be at least min_delay ({self.min_delay:g} s)")
        if self.on_dead == "halt" and self.ordering == "none":
            raise InvalidSetting("on_dead", self.on_dead, "needs ordering = 'key' or 'strict'")

    @property
    def delays(self) -> Exponential:
        """The delays between replays."""
        return Exponential(min=self.min_delay, max=self.max_delay, max_attempts=self.max_attempts)


class RouteOptions(TypedDict, total=False):
    """The settings of a route for a caller that states some of them; a test holds them equal to ``RouteSettings``."""

    max_attempts: int
    max_age: duration.Duration
    min_delay: duration.Duration
    max_delay: duration.Duration
    quiet_retries: int
    on_exhausted: OnExhausted | None
    ordering: Ordering
    on_dead: Literal["continue", "halt"]
    concurrency: int
    timeout: duration.Duration
    breaker_failures: int
    probe_after: duration.Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route. Make it with ``route(...)``, which reads in one line.

    Attributes:
        name: its name, of which its application has one.
        source: where its events come from.
        filters: what they go through, in order.
        sender: where they go.
        application: whose it is. Applications never see each other's events.
        settings: how it deals with failures.
    """

    name: str
    source: EventReceiver
    filters: tuple[EventFilter | OutsideFilter, ...] = ()
    sender: EventSender
    application: str = DEFAULT_APPLICATION
    settings: RouteSettings = field(default_factory=RouteSettings)

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_name("application", self.application)
        object.__setattr__(self, "filters", tuple(self.filters))
        self._check_kinds()
        for problem, part in _nonsense(self.source, self.settings):
            raise InvalidRoute(self.name, problem, part)

    def _check_kinds(self) -> None:
        if not isinstance(self.source, EventReceiver):
            raise InvalidRoute(self.name, f"{self.source!r} is no receiver, such as http('/orders')", "source")
        for place, each in enumerate(self.filters):
            if not isinstance(each, EventFilter | OutsideFilter):
                problem = f"{each!r} is no filter, such as match('body.total > 100')"
                raise InvalidRoute(self.name, problem, f"filters.{place + 1}")
        if not isinstance(self.sender, EventSender):
            problem = f"{self.sender!r} is no sender, such as webhook('https://example.com/hook')"
            raise InvalidRoute(self.name, problem, "sender")

    @property
    def on_exhausted(self) -> OnExhausted:
        """What becomes of a leg after its last attempt."""
        usual: OnExhausted = "discard" if self.source.delivery == "direct" else "dead_letter"
        return self.settings.on_exhausted or usual

    def to_table(self) -> Table:
        """Return it as files write it."""
        stated = {name: value for name, value in self.settings.to_table().items() if name != "kind"}
        return {
            "source": self.source.to_table(),
            "filters": [each.to_table() for each in self.filters],
            "sender": self.sender.to_table(),
            **stated,
        }

    def to_json(self) -> str:
        """Return it as the ledger stores it."""
        table = {"name": self.name, "application": self.application, **self.to_table()}
        return json.dumps(table, ensure_ascii=False, sort_keys=True)

    def __str__(self) -> str:
        chain = " | ".join((f"route({self.name!r}, source={self.source})", *map(str, self.filters)))
        return f"{chain} >> {self.sender}"


@dataclass(frozen=True, slots=True)
class RouteDraft:
    """A route whose sender is not said yet: add filters with ``|``, and end it with ``>>``."""

    name: str
    source: EventReceiver
    application: str
    settings: RouteSettings
    filters: tuple[EventFilter | OutsideFilter, ...] = ()

    def __or__(self, other: "EventFilter | OutsideFilter | ChainEnd") -> Any:  # noqa: ANN401 - a draft, or a route
        if isinstance(other, ChainEnd):
            return self._with(*other.filters) >> other.sender
        return self._with(other)

    def __rshift__(self, sender: EventSender) -> Route:
        return Route(
            name=self.name,
            source=self.source,
            filters=self.filters,
            sender=sender,
            application=self.application,
            settings=self.settings,
        )

    def _with(self, *more: EventFilter | OutsideFilter) -> "RouteDraft":
        return RouteDraft(self.name, self.source, self.application, self.settings, (*self.filters, *more))


def route(
    name: str, *, source: EventReceiver, application: str = DEFAULT_APPLICATION, **settings: Unpack[RouteOptions]
) -> RouteDraft:
    """Begin a route: ``route("big", source=http("/orders")) | match("body.total > 100") >> webhook("https://…")``.

    Args:
        name: its name: letters, digits, ``_`` and ``-``.
        source: where its events come from.
        application: whose it is. Applications never see each other's events.
        settings: how it deals with failures, and how much it does at a time.
    """
    known = tuple(each.name for each in fields(RouteSettings))
    for given in settings:
        if given not in known:
            raise UnknownSetting("route", given, known)
    return RouteDraft(name, source, application, RouteSettings(**cast("dict[str, Any]", settings)))


def check_name(setting_name: str, value: object) -> str:
    """Return the name of a route or an application, if it is one."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidSetting(setting_name, value, "must be 1 to 60 letters, digits, '_' and '-'")
    return value


def settings_of(table: Table) -> RouteSettings:
    """Return the settings of a route that a table describes."""
    known = tuple(each.name for each in fields(RouteSettings))
    for name in table:
        if name not in (*known, *_PARTS):
            raise UnknownSetting("a route", name, (*_PARTS, *known))
    made = RouteSettings.from_table({name: value for name, value in table.items() if name not in _PARTS})
    if not isinstance(made, RouteSettings):  # for type checkers
        raise UsageError("these are no settings of a route")
    return made


def _nonsense(source: EventReceiver, settings: RouteSettings) -> list[tuple[str, str]]:
    """Return what cannot be combined, and the setting to blame."""
    delivery, found = source.delivery, list[tuple[str, str]]()
    if settings.on_exhausted == "nack" and delivery != "linked":
        found.append(
            (f"'nack' needs delivery = 'linked': with {delivery!r} the source has forgotten it", "on_exhausted")
        )
    if settings.on_exhausted == "dead_letter" and delivery == "direct":
        found.append(("'dead_letter' needs delivery = 'durable' or 'linked': 'direct' stores nothing", "on_exhausted"))
    if settings.ordering != "none" and delivery != "durable":
        found.append(("needs delivery = 'durable': order is kept in the store", "ordering"))
    if settings.ordering == "key" and source.order_key is None and source.reads is None:
        found.append(("'key' needs the source's order_key, such as order_key = 'body.customer'", "ordering"))
    if settings.ordering == "strict" and (source.order_key is not None or source.kind == "topic"):
        found.append(("'strict' needs a source without order_key that is no topic; use 'key'", "ordering"))
    return found
