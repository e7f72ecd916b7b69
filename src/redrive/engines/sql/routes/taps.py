# SPDX-License-Identifier: MIT
"""Taps in SQL: who follows a route; and the revision, which every process looks at all the time."""

from redrive.clock import utc
from redrive.engines.sql.script import Script, Sql, now, plain
from redrive.routes.ledger import RouteRevision, Tap


def revision() -> Script[RouteRevision]:
    """Return the number of the last change, and the taps: one statement, and the time only if there are taps."""
    rows = yield Sql(
        "SELECT (SELECT max(number) FROM @.route_changes) AS number, t.application, t.route, t.queue, t.until"
        " FROM (SELECT 1 AS one) AS o LEFT JOIN @.route_taps AS t ON TRUE"
    )
    number = rows[0]["number"] or 0
    if rows[0]["queue"] is None:
        return RouteRevision(number)
    time = yield from now()
    taps = [Tap(application, route, queue, utc(until)) for _, application, route, queue, until in rows if until > time]
    return RouteRevision(number, tuple(sorted(taps, key=lambda tap: tap.queue)))


def add_tap(application: str, route: str, queue: str, seconds: float) -> Script[None]:
    """Let a person follow a route from now on for a while."""
    time = yield from now()
    yield Sql(
        "INSERT INTO @.route_taps (queue, application, route, until) VALUES (?, ?, ?, ?) ON CONFLICT (queue)"
        " DO UPDATE SET application = excluded.application, route = excluded.route, until = excluded.until",
        [plain(queue), plain(application), plain(route), time + seconds],
    )


def remove_tap(queue: str) -> Script[None]:
    """End a tap."""
    yield Sql("DELETE FROM @.route_taps WHERE queue = ?", [plain(queue)])
