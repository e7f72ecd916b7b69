# SPDX-License-Identifier: MIT
"""Which queues belong to which routes, by the names that people call these."""

from collections.abc import Iterable, Sequence

from redrive.errors import RedriveError
from redrive.routes.infos import queues_of
from redrive.routes.ledger import StoredRoute
from redrive.routes.route import DEFAULT_APPLICATION
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


def route_label(application: str, name: str) -> str:
    """Return what a route is called among those of all applications: its name, if its application is the usual one."""
    return name if application == DEFAULT_APPLICATION else f"{application}/{name}"
