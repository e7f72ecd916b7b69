# SPDX-License-Identifier: MIT
"""Routes as JSON: what the command line prints and what an HTTP API returns. Pure: no I/O, no clock.

A view is made of texts, numbers, booleans, None, lists and dicts, as in ``redrive.broker.views``. Parts are shown as
people write them in Python, which hides passwords and secrets.
"""

from collections.abc import Iterable

from redrive.broker.views import View, message_view
from redrive.routes.infos import RouteInfo
from redrive.routes.ledger import StoredRoute
from redrive.routes.leg_step import LegStep
from redrive.routes.route import Route

__all__ = ["definition_view", "route_view", "step_view", "steps_view", "version_view"]


def route_view(info: RouteInfo) -> View:
    """Return a route: what it is, what it is doing, and what waits on it."""
    return {
        "name": info.route.name,
        "application": info.route.application,
        "version": info.version,
        "state": info.state,
        "reason": info.reason,
        "changed_at": info.changed_at and info.changed_at.isoformat(),
        **definition_view(info.route),
        "delivery": info.route.source.delivery,
        "guarantee": info.guarantee,
        "queue": info.queue,
        "waiting": info.waiting,
        "oldest_at": info.oldest_at and info.oldest_at.isoformat(),
        "dead": info.dead,
    }


def definition_view(route: Route) -> View:
    """Return what a route consists of."""
    source, sender = route.source, route.sender
    return {
        "source": {"kind": source.kind, "address": source.address, "text": str(source)},
        "filters": [{"kind": each.kind, "text": str(each)} for each in route.filters],
        "sender": {"kind": sender.kind, "destination": sender.destination, "text": str(sender)},
        "settings": {name: value for name, value in route.settings.to_table().items() if name != "kind"},
    }


def version_view(stored: StoredRoute, route: Route | None) -> View:
    """Return what a route was after one of its changes.

    Args:
        stored: that version.
        route: what its definition says; None if it cannot be read here.
    """
    return {
        "version": stored.version,
        "state": stored.state,
        "reason": stored.reason,
        "changed_at": stored.changed_at and stored.changed_at.isoformat(),
        "until": stored.until and stored.until.isoformat(),
        "definition": None if route is None else str(route),
    }


def step_view(step: LegStep) -> View:
    """Return what a filter or the sender did with an event."""
    return {"step": step.step, "outcome": step.outcome, "messages": [message_view(each) for each in step.messages]}


def steps_view(route: Route, steps: Iterable[LegStep]) -> View:
    """Return the way of an event through a route."""
    return {"route": route.name, "application": route.application, "steps": [step_view(each) for each in steps]}
