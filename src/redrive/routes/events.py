# SPDX-License-Identifier: MIT
"""The events that routes report, each a value like those in ``redrive.telemetry``."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from redrive.telemetry import Event


@dataclass(frozen=True, slots=True)
class RouteEvent(Event):
    """What all events about a route have in common.

    Attributes:
        application: whose route it is.
        route: the route's name.
    """

    labels: ClassVar[tuple[str, ...]] = ("application", "route")

    application: str
    route: str


@dataclass(frozen=True, slots=True)
class LegDelivered(RouteEvent):
    """An event reached the destination of a route, or was consumed by a filter. One for each leg.

    Attributes:
        event_id: the event's id.
        outcome: ``delivered``, or ``consumed`` if a filter did not let it pass.
        attempt: which attempt it was, counted from 1.
        parts: how many parts were delivered, if a filter split the event.
        age: seconds since the event was taken over from its source.
    """

    name = "redrive.routes.leg_delivered"
    level = logging.DEBUG
    labels = (*RouteEvent.labels, "outcome")
    histograms: ClassVar[Mapping[str, str]] = MappingProxyType({"age": "redrive.routes.age"})

    event_id: str
    outcome: str
    attempt: int
    parts: int
    age: float

    def __str__(self) -> str:
        return f"{self.route}: event {self.event_id} was {self.outcome} at attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class LegFailed(RouteEvent):
    """An attempt to deliver an event on a route failed. One for each attempt.

    Attributes:
        event_id: the event's id.
        attempt: which attempt it was, counted from 1.
        step: what failed: a filter or the sender.
        reason: why.
        outcome: what becomes of the leg: ``replay``, ``parked``, ``dead``, ``discarded`` or ``nacked``.
        delay: seconds until it is tried again; None if it is not.
    """

    name = "redrive.routes.leg_failed"
    level = logging.WARNING
    labels = (*RouteEvent.labels, "outcome")

    event_id: str
    attempt: int
    step: str
    reason: str
    outcome: str
    delay: float | None

    def __str__(self) -> str:
        then = self.outcome if self.delay is None else f"{self.outcome}, again in {self.delay:.3g} s"
        what = f"{self.route}: attempt {self.attempt} at event {self.event_id}"
        return f"{what} failed in {self.step}: {self.reason}; {then}"


@dataclass(frozen=True, slots=True)
class DestinationChanged(Event):
    """A destination went down, or is back. While it is down, the routes that lead to it are parked.

    Attributes:
        destination: the destination.
        is_down: whether it is down now.
    """

    name = "redrive.routes.destination_changed"
    level = logging.WARNING
    labels = ("destination",)

    destination: str
    is_down: bool

    def __str__(self) -> str:
        is_now = "is down: its routes are parked" if self.is_down else "is back: its routes go on"
        return f"{self.destination} {is_now}"


@dataclass(frozen=True, slots=True)
class RouteChanged(RouteEvent):
    """A route was started, stopped or changed in this process.

    Attributes:
        version: which version of it.
        state: what it is doing now: ``running``, ``paused``, ``draining``, ``removed``.
    """

    name = "redrive.routes.route_changed"
    labels = (*RouteEvent.labels, "state")

    version: int
    state: str

    def __str__(self) -> str:
        return f"{self.route}: version {self.version} is {self.state}"


@dataclass(frozen=True, slots=True)
class RouteBroken(RouteEvent):
    """A route cannot run in this process. The version that ran before goes on, if there was one.

    Attributes:
        version: which version of it.
        problem: what is wrong, and what to do.
    """

    name = "redrive.routes.route_broken"
    level = logging.ERROR

    version: int
    problem: str

    def __str__(self) -> str:
        return f"{self.route}: version {self.version} cannot run: {self.problem}"


@dataclass(frozen=True, slots=True)
class ReceiverEvent(Event):
    """What all events about a receiver have in common.

    Attributes:
        application: whose receiver it is.
        receiver: its kind and its address.
    """

    labels: ClassVar[tuple[str, ...]] = ("application", "receiver")

    application: str
    receiver: str


@dataclass(frozen=True, slots=True)
class EventTaken(ReceiverEvent):
    """A receiver has taken an event over from its source, or was refused it.

    Attributes:
        event_id: the event's id.
        outcome: ``acked``, ``nacked`` or ``refused``.
        reason: why, if it was not acknowledged.
    """

    name = "redrive.routes.event_taken"
    level = logging.DEBUG
    labels = (*ReceiverEvent.labels, "outcome")

    event_id: str
    outcome: str
    reason: str = ""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.receiver}: event {self.event_id} was {self.outcome}{why}"


@dataclass(frozen=True, slots=True)
class ReceiverBroken(ReceiverEvent):
    """A receiver ended with an error; it is started again.

    Attributes:
        problem: what is wrong.
        delay: seconds until it is started again.
    """

    name = "redrive.routes.receiver_broken"
    level = logging.ERROR

    problem: str
    delay: float

    def __str__(self) -> str:
        return f"{self.receiver} ended with an error, and is started again in {self.delay:.3g} s: {self.problem}"
