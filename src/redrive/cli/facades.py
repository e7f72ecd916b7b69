# SPDX-License-Identifier: MIT
"""The facades that commands use: of a database, or of a server if that is what was given."""

from typing import cast

import redrive
from redrive.attention import Attention
from redrive.broker import Broker
from redrive.broker.port import Database, find_ability
from redrive.broker.views import View
from redrive.errors import InvalidSetting, NotSupported
from redrive.history import History
from redrive.journey import Journeys
from redrive.pipeline import Pipelines
from redrive.remote import (
    RemoteAttention,
    RemoteBroker,
    RemoteHistory,
    RemoteJourneys,
    RemotePipelines,
    RemoteRoutes,
    SeenRoute,
)
from redrive.routes import Route, RouteInfo, Routes, views
from redrive.routes.removal import readable_route


def has_history(broker: Broker) -> bool:
    """Say whether there is a history of a broker: it is kept in databases only. A server has one."""
    return isinstance(broker, RemoteBroker) or find_ability(broker.engine, Database) is not None


def open_history(broker: Broker) -> History:
    """Return the history of a broker, to be entered with ``async with``."""
    if isinstance(broker, RemoteBroker):
        return cast("History", RemoteHistory(broker))  # it refuses what it does not have
    return redrive.open_history(broker)


def open_attention(broker: Broker, store: str | None = None) -> Attention:
    """Return what says what needs a person, to be entered with ``async with``."""
    if isinstance(broker, RemoteBroker):
        if store is not None:
            raise InvalidSetting("store", store, "must be left out with a server, which has its own")
        return cast("Attention", RemoteAttention(broker))
    return redrive.open_attention(broker, store)


def open_journeys(broker: Broker) -> Journeys:
    """Return the journeys of a broker's messages, to be entered with ``async with``."""
    if isinstance(broker, RemoteBroker):
        return cast("Journeys", RemoteJourneys(broker))
    return redrive.open_journeys(broker)


def open_pipelines(broker: Broker) -> Pipelines:
    """Return all pipelines of a broker, to be entered with ``async with``."""
    if isinstance(broker, RemoteBroker):
        return cast("Pipelines", RemotePipelines(broker))
    return redrive.open_pipelines(broker)


# --- routes


def open_routes(broker: Broker) -> Routes:
    """Return the routes of a broker, to be entered with ``async with``."""
    if isinstance(broker, RemoteBroker):
        return cast("Routes", RemoteRoutes(broker))
    return redrive.open_routes(broker)


async def route_history(routes: Routes, info: RouteInfo) -> list[View]:
    """Return what a route has been, the newest first, as views."""
    name, application = info.route.name, info.route.application
    if isinstance(routes, RemoteRoutes):
        return await routes.history(name, application)
    found = await routes.versions(name, application)
    return [views.version_view(each, readable_route(each.definition)) for each in found]


async def earlier_queues(routes: Routes, info: RouteInfo) -> tuple[str, ...]:
    """Return the queues that a route had before; a server does not say."""
    if isinstance(routes, RemoteRoutes):
        return ()
    (now, *_) = await routes.versions(info.route.name, info.route.application)
    return now.earlier_queues


def runnable(route: Route) -> Route:
    """Return a route that events can go through here.

    Raises:
        NotSupported: it was seen through a server, without its secrets.
    """
    if isinstance(route, SeenRoute):
        raise NotSupported("a server", "routes test; POST /api/v1/routes/{name}/test tries an event there")
    return route
