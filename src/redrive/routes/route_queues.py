# SPDX-License-Identifier: MIT
"""Which queues belong to which routes, by the names that people call these."""

from collections.abc import Iterable, Sequence

from redrive.errors import RedriveError
from redrive.routes.infos import queues_of
from redrive.routes.ledger import StoredRoute
from redrive.routes.leg_tallies import route_label
from redrive.routes.route_file import route_from_json


def queues_by_route(stored: Iterable[StoredRoute]) -> dict[str, Sequence[str]]:
    """Return the queues of routes, by the names of these; not of those that cannot be read in this process."""
    found: dict[str, Sequence[str]] = {}
    for each in stored:
        try:
            route = route_from_json(each.definition)
        except RedriveError:
            continue
        found[route_label(each.application, each.name)] = queues_of(each, route)
    return found
