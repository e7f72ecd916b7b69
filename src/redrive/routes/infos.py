# SPDX-License-Identifier: MIT
"""Routes as people see them. Pure: no I/O, no clock."""

from dataclasses import dataclass
from datetime import datetime

from redrive.broker.port import QueueInfo
from redrive.routes.ledger import RouteState, StoredRoute
from redrive.routes.plan import leg_queue
from redrive.routes.route import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteInfo:
    """A route, what it is doing, and what waits on it.

    Attributes:
        route: the route.
        version: which version of it.
        state: what it is doing.
        reason: why it is in that state, if that was said.
        queue: the queue of its legs; None if they are not stored.
        queues: that one, and those that it had before its source was changed.
        waiting: how many legs wait, those that are being delivered included.
        dead: how many legs are dead.
        oldest_at: when the oldest leg that waits was stored, as far as that is known.
        changed_at: when the route was last changed.
    """

    route: Route
    version: int
    state: RouteState
    reason: str
    queue: str | None
    queues: tuple[str, ...]
    waiting: int
    dead: int
    oldest_at: datetime | None
    changed_at: datetime | None

    @property
    def guarantee(self) -> str:
        """``at_least_once`` or ``best_effort``."""
        return self.route.source.guarantee


def queues_of(stored: StoredRoute, route: Route) -> tuple[str, ...]:
    """Return the queues of a route's legs, the one it has now first, if it has one."""
    now = () if route.source.delivery == "direct" else (leg_queue(route),)
    return (*now, *stored.earlier_queues)


def info_of(stored: StoredRoute, route: Route, queues: dict[str, QueueInfo]) -> RouteInfo:
    """Return a route as people see it.

    Args:
        stored: as it is stored.
        route: what its definition says.
        queues: all queues, by their names.
    """
    names = queues_of(stored, route)
    found = [queues[name] for name in names if name in queues]
    oldest = [queue.oldest_at for queue in found if queue.oldest_at is not None]
    return RouteInfo(
        route=route,
        version=stored.version,
        state=stored.state,
        reason=stored.reason,
        queue=None if route.source.delivery == "direct" else leg_queue(route),
        queues=names,
        waiting=sum(queue.ready + queue.scheduled + queue.locked for queue in found),
        dead=sum(queue.dead for queue in found),
        oldest_at=min(oldest, default=None),
        changed_at=stored.changed_at,
    )
