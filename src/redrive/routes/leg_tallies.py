# SPDX-License-Identifier: MIT
"""What the history counts of routes. Pure: no I/O, no clock."""

from typing import TYPE_CHECKING, Final

from redrive.broker import tallies
from redrive.routes.route import DEFAULT_APPLICATION

if TYPE_CHECKING:
    from redrive.telemetry import Event

_METRICS: Final = {
    "delivered": tallies.SENT,
    "consumed": tallies.FILTERED,
    "replay": tallies.FAILED,
    "parked": tallies.FAILED,
    "nacked": tallies.FAILED,
    "dead": tallies.DEAD,
    "discarded": tallies.DEAD,
}


def key_of(event: "Event") -> tallies.Key | None:
    """Return what an event about a leg counts as, by its outcome; None for every other event."""
    fields = event.fields()
    metric = _METRICS.get(str(fields.get("outcome")))
    if metric is None or not isinstance(route := fields.get("route"), str):
        return None
    return tallies.ROUTE, route_label(str(fields["application"]), route), metric


def route_label(application: str, name: str) -> str:
    """Return what a route is called among those of all applications: its name, if its application is the usual one."""
    return name if application == DEFAULT_APPLICATION else f"{application}/{name}"
