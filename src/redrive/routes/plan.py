# SPDX-License-Identifier: MIT
"""All routes together: which receivers they share, which queues they have, and whether they fit. Pure: no I/O."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from redrive.broker import QueueOptions, TopicOptions
from redrive.broker.topics import subscription_queue
from redrive.errors import InvalidRoute
from redrive.routes.parts import EventReceiver
from redrive.routes.route import DEFAULT_APPLICATION, Route

ROUTE_TOPICS: Final = "routes/"
"""How the names of the topics begin that receivers commit their events to."""

_MAX_CRASHES: Final = 10
"""How often a leg may end a process before it is dead."""

_LONGEST_SLUG = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverPlan:
    """A receiver and the routes that share it.

    Attributes:
        application: whose it is.
        receiver: the receiver.
        topic: the topic that durable events are committed to.
        routes: the routes, in order of their names.
    """

    application: str
    receiver: EventReceiver
    topic: str
    routes: tuple[Route, ...]

    @property
    def name(self) -> str:
        """What people call it: its kind and its address."""
        return f"{self.receiver.kind} {self.receiver.address}"

    @property
    def is_ordered(self) -> bool:
        """Whether a route needs all events in one order."""
        return any(route.settings.ordering == "strict" for route in self.routes)


def plan_of(routes: Iterable[Route]) -> list[ReceiverPlan]:
    """Return the receivers of routes.

    Raises:
        InvalidRoute: they do not fit together. It names the one that comes later: put those that are there first.
    """
    listed = list(routes)
    _check_names(listed)
    _check_parking(listed)
    shared: dict[tuple[str, str, str], list[Route]] = {}
    for each in listed:
        shared.setdefault((each.application, each.source.kind, each.source.address), []).append(each)
    for together in shared.values():
        _check_equal(together)
    _check_owners(listed)
    return [
        ReceiverPlan(
            application=application,
            receiver=together[0].source,
            topic=topic_of(application, together[0].source),
            routes=tuple(sorted(together, key=lambda each: each.name)),
        )
        for (application, _, _), together in sorted(shared.items(), key=lambda each: each[0])
    ]


def topic_of(application: str, receiver: EventReceiver) -> str:
    """Return the topic that the events of a receiver are committed to; a topic is its own."""
    if receiver.kind == "topic":
        return receiver.address
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", receiver.address).strip("-")
    plain = receiver.address.removeprefix("/") if receiver.kind == "http" else receiver.address
    if not slug or slug != plain or len(slug) > _LONGEST_SLUG:  # two addresses must not share a name
        slug = f"{slug[:_LONGEST_SLUG]}-{sha256(receiver.address.encode()).hexdigest()[:8]}".lstrip("-")
    return f"{ROUTE_TOPICS}{application}/{receiver.kind}/{slug}"


def subscription_of(route: Route) -> str:
    """Return the name of a route's subscription."""
    name = route.name if route.settings.ordering == "none" else f"{route.name}.ordered"
    if route.source.kind == "topic" and route.application != DEFAULT_APPLICATION:
        return f"{route.application}..{name}"  # two dots: application x and route ordered are not route x, ordered
    return name


def leg_queue(route: Route) -> str:
    """Return the queue in which a route's legs are, if they are stored."""
    return subscription_queue(topic_of(route.application, route.source), subscription_of(route))


def queue_options(route: Route) -> QueueOptions:
    """Return the settings of the queue of a route's legs."""
    options: QueueOptions = {"max_delivery_count": _MAX_CRASHES}
    if route.settings.ordering != "none":
        options["requires_session"] = True
    return options


def topic_options(receiver: EventReceiver) -> TopicOptions:
    """Return the settings of the topic of a receiver: a source that delivers an event again does so with its id."""
    if receiver.has_stable_ids and receiver.reads is None:
        return {"duplicate_detection": receiver.repeats_within}
    return {}


def _check_names(routes: Sequence[Route]) -> None:
    seen: set[tuple[str, str]] = set()
    for each in routes:
        if (each.application, each.name) in seen:
            raise InvalidRoute(each.name, f"application {each.application!r} has two routes of this name; rename one")
        seen.add((each.application, each.name))


def _check_equal(together: Sequence[Route]) -> None:
    first = together[0].source.to_table()
    for other in together[1:]:
        second = other.source.to_table()
        differing = sorted(name for name in first | second if first.get(name) != second.get(name))
        if differing:
            problem = (
                f"it reads the same source as route {together[0].name!r} with another {', '.join(differing)}; "
                "give both the same settings, since they share one receiver"
            )
            raise InvalidRoute(other.name, problem, f"source.{differing[0]}")


def _check_owners(routes: Sequence[Route]) -> None:
    """See that a source which gives each event once is read by one application only."""
    owners: dict[tuple[str, str], Route] = {}
    for each in routes:
        if each.source.kind == "topic":
            continue
        first = owners.setdefault((each.source.kind, each.source.address), each)
        if first.application != each.application:
            problem = (
                f"application {first.application!r} reads {each.source.kind} {each.source.address!r} already, and "
                f"would lose events to {each.application!r}; choose another source, or a topic, which gives both all"
            )
            raise InvalidRoute(each.name, problem, "source")


def _check_parking(routes: Sequence[Route]) -> None:
    """See that no event can come back to where it was: routes from queue to queue must not make a circle."""
    onward: dict[str, list[Route]] = {}
    for each in routes:
        if each.source.reads is not None and each.sender.writes is not None:
            onward.setdefault(each.source.reads, []).append(each)
    for start in onward:
        if circle := _circle(start, onward):
            path = " -> ".join([start, *(str(each.sender.writes) for each in circle)])
            names = ", ".join(repr(each.name) for each in circle)
            problem = f"routes {names} make a circle: {path}; end one of them elsewhere"
            raise InvalidRoute(max(circle, key=routes.index).name, problem, "sender")


def _circle(start: str, onward: dict[str, list[Route]]) -> list[Route]:
    """Return the routes that lead from a queue back to it; none if no route does."""
    ways: list[list[Route]] = [[each] for each in onward[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        to = str(way[-1].sender.writes)
        if to == start:
            return way
        if to not in seen:
            seen.add(to)
            ways += [[*way, each] for each in onward.get(to, ())]
    return []
