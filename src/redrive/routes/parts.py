# SPDX-License-Identifier: MIT
# ruff: noqa: RUF009 - the function called for each field returns dataclasses.field
"""What a route is made of: a receiver, filters and a sender. Pure: no I/O, no clock, no randomness.

A part is a value: its fields are its settings, checked when it is made. Files write it as a table with a ``kind``; code
calls its class. Parts that reach outside are opened when a route runs, and ``open`` returns what does the work.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeAlias

from redrive.broker import DurationSetting, FlagSetting, Message, Send, WholeSetting
from redrive.errors import InvalidSetting
from redrive.parts import ChoiceSetting, DeclaredPart, ListSetting, Table, TableSetting, TextSetting, setting
from redrive.routes.ack_tree import Answer, OnNack
from redrive.routes.outcomes import SendFailure, SendOutcome

if TYPE_CHECKING:
    from redrive.routes.environment import PartEnvironment

Delivery: TypeAlias = Literal["durable", "linked", "direct"]


@dataclass(frozen=True, slots=True)
class RoutePart(DeclaredPart):
    """A part of a route; its fields are its settings, whose metadata have their ``kind`` and their ``help``."""


# --- receivers


Settle: TypeAlias = Callable[[Sequence[Send]], Awaitable[None]]
"""Removes an event from its source and sends messages, in one transaction."""


class Intake(Protocol):
    """Where a receiver puts its events. How they are delivered is the intake's business alone."""

    async def accept(self, message: Message, *, settle: "Settle | None" = None) -> Answer:
        """Take an event; return ``Ack`` when the source may forget it, ``Nack`` when it must not.

        Args:
            message: the event. Its id names it: an event with the id of an earlier one is a redelivery of it.
            settle: of a source in this broker: removes the event there and sends messages, in one transaction. It is
                called once, if the answer is ``Ack``.

        Raises:
            Unavailable: it cannot be taken now. Keep it, and do not ask for more until this works again.
            MessageError: it cannot be taken at all, because it is too large, for instance.
        """
        ...


class OpenReceiver(Protocol):
    """A receiver at work."""

    async def run(self, intake: Intake) -> None:
        """Give every event to the intake, and acknowledge it at its source as the intake answers, until cancelled.

        It keeps trying while its source does not answer. When it is cancelled, it finishes what it has begun.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReceiver(RoutePart):
    """Where events come from. Equal receivers of one application are one.

    Attributes:
        can_hold: whether the source keeps an event until it is acknowledged.
        has_stable_ids: whether an event that the source delivers again has the same id.
    """

    can_hold: ClassVar[bool] = True
    has_stable_ids: ClassVar[bool] = True

    delivery: Delivery = setting(
        ChoiceSetting(("durable", "linked", "direct")),
        "when the source forgets an event: durable: when it is stored; linked: when every route has it; "
        "direct: when it is received",
        "durable",
    )
    on_nack: OnNack = setting(
        ChoiceSetting(("wait_all", "fail_fast")), "linked: whether one failure cancels the other routes", "wait_all"
    )
    max_replays: int = setting(WholeSetting(0, 1_000), "linked: how often an event that failed is tried again", 3)
    max_waiting: int | None = setting(
        WholeSetting(1, 1_000_000_000),
        "durable: how many events may wait on one route before no more are taken; None: until the disk is full",
        None,
    )
    order_key: str | None = setting(
        TextSetting("must be a JMESPath, such as 'body.customer'"),
        "a JMESPath over the event whose value names the group that its order is kept in",
        None,
    )

    @property
    def address(self) -> str:
        """What it reads, such as a path or the name of a queue. Two receivers of one kind must not read the same."""
        raise NotImplementedError

    @property
    def repeats_within(self) -> float:
        """How many seconds after an event its source may deliver it again."""
        return 600.0

    @property
    def guarantee(self) -> str:
        """``at_least_once`` or ``best_effort``."""
        return "best_effort" if self.delivery == "direct" or not self.can_hold else "at_least_once"

    @property
    def reads(self) -> str | None:
        """The queue or topic of this broker that it reads, if it does."""
        return None

    def check(self) -> None:
        """See that the source can do what the delivery needs."""
        if self.delivery == "linked" and not self.can_hold:
            allowed = f"must be durable or direct: the source of {self.kind!r} keeps nothing until it is acknowledged"
            raise InvalidSetting("delivery", self.delivery, allowed)
        if self.delivery != "linked" and self.on_nack != "wait_all":
            raise InvalidSetting("on_nack", self.on_nack, "needs delivery = 'linked': otherwise nothing is nacked")
        if self.order_key is not None and self.delivery != "durable":
            raise InvalidSetting("order_key", self.order_key, "needs delivery = 'durable': order is kept in the store")

    def open(self, environment: "PartEnvironment") -> OpenReceiver:
        """Return the receiver at work; nothing is connected before it runs."""
        raise NotImplementedError


# --- filters


@dataclass(frozen=True, slots=True)
class LegFacts:
    """What a filter may know of the leg beside the event.

    Attributes:
        application: whose route it is.
        route: the route's name.
        event_id: the id of the event, which the parts of a split event share.
        accepted_at: when the event was taken over from its source, in seconds since 1970.
        now: the time, in seconds since 1970.
        attempt: which attempt this is, counted from 1.
    """

    application: str
    route: str
    event_id: str
    accepted_at: float
    now: float
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """The last filters of a route and its sender: what ``filter >> sender`` gives, since ``>>`` binds before ``|``."""

    filters: "tuple[EventFilter | OutsideFilter, ...]"
    sender: "EventSender"


@dataclass(frozen=True, slots=True)
class EventFilter(RoutePart):
    """A filter. One that is pure returns the events to go on with: none if it consumes the event.

    It never asks for a replay: the same event gives the same result. What it raises is permanent, and the leg is dead.
    """

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Return the events that go on; several make children, which are delivered one by one."""
        raise NotImplementedError

    def __rshift__(self, sender: "EventSender") -> ChainEnd:
        return ChainEnd((self,), sender)


class OpenFilter(Protocol):
    """A filter that reaches outside, at work."""

    async def apply(self, message: Message, leg: LegFacts) -> "Sequence[Message] | SendFailure":
        """Return the events that go on, or why that cannot be said now; exceptions mean what a sender's mean."""
        ...

    async def ended(self, message: Message, leg: LegFacts, *, is_delivered: bool) -> None:
        """Note that a leg that this filter has seen was delivered or consumed, or is dead."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


@dataclass(frozen=True, slots=True)
class OutsideFilter(RoutePart):
    """A filter that reaches outside, and may ask for a replay."""

    def open(self, environment: "PartEnvironment") -> OpenFilter:
        """Return the filter at work; nothing is connected before it is needed."""
        raise NotImplementedError

    def __rshift__(self, sender: "EventSender") -> ChainEnd:
        return ChainEnd((self,), sender)


# --- senders


class OpenSender(Protocol):
    """A sender at work."""

    async def send(self, message: Message, key: str) -> SendOutcome:
        """Deliver an event; say what came of it.

        An exception means ``TryLater``; ``OSError`` and its kind mean ``DestinationDown``.

        Args:
            message: the event.
            key: names this delivery: the same event for the same route has the same key in every attempt.
        """
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


@dataclass(frozen=True, slots=True)
class EventSender(RoutePart):
    """Where events go."""

    @property
    def destination(self) -> str:
        """What is down when sending fails: routes with the same destination share one circuit breaker."""
        raise NotImplementedError

    @property
    def writes(self) -> str | None:
        """The queue or topic of this broker that it sends to, if it does."""
        return None

    def open(self, environment: "PartEnvironment") -> OpenSender:
        """Return the sender at work; nothing is connected before it is needed."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class BrokerSender(EventSender):
    """A sender to this broker: the event is sent in the transaction that settles the leg."""

    def effect(self, message: Message, key: str, now: float | None = None) -> Send:
        """Return what delivers an event; ``now`` is the time, in seconds since 1970."""
        raise NotImplementedError


__all__ = [
    "BrokerSender",
    "ChainEnd",
    "ChoiceSetting",
    "Delivery",
    "DurationSetting",
    "EventFilter",
    "EventReceiver",
    "EventSender",
    "FlagSetting",
    "Intake",
    "LegFacts",
    "ListSetting",
    "OpenFilter",
    "OpenReceiver",
    "OpenSender",
    "OutsideFilter",
    "RoutePart",
    "Settle",
    "Table",
    "TableSetting",
    "TextSetting",
    "WholeSetting",
    "setting",
]
