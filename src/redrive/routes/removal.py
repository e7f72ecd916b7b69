# SPDX-License-Identifier: MIT
"""Ends routes that are drained or removed: their queues are emptied, and go when nothing is in them."""

from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import replace

from redrive.clock import utc
from redrive.errors import RedriveError, RouteNotFound
from redrive.routes.catalog import Routes
from redrive.routes.infos import RouteInfo, queues_of
from redrive.routes.ledger import StoredRoute
from redrive.routes.route import Route
from redrive.routes.route_file import route_from_json
from redrive.routes.subscriptions import bury_all, look_at, remove_empty

_ENDING = ("draining", "cancelling")


async def changed_route(routes: Routes, info: RouteInfo, change: Callable[[str, str], Awaitable[None]]) -> RouteInfo:
    """Change a route; return what it is then. One that is on its way out takes its next step here.

    That is what a process that runs routes does, too; but there may be none now.

    Args:
        routes: the routes.
        info: the route as it is.
        change: changes it, given its name and its application.
    """
    name, whose = info.route.name, info.route.application
    await change(name, whose)
    stored = {(each.application, each.name): each for each in await routes.ledger.routes()}
    now = stored.get((whose, name))
    if now is not None and now.state in _ENDING:
        await finish_removals(routes, {(whose, name): (now, info.route)})
    try:
        return await routes.show(name, whose)
    except RouteNotFound:
        left = None if info.queue is None else await look_at(routes.broker, info.queue)
        return replace(info, state="removed", waiting=0, dead=0 if left is None else left.dead)


def readable_route(definition: str) -> Route | None:
    """Return what a stored definition says; None: another version made it, or a package with its kinds is missing."""
    try:
        return route_from_json(definition)
    except RedriveError:
        return None


async def finish_removals(
    routes: Routes,
    stored: Mapping[tuple[str, str], tuple[StoredRoute, Route]],
    broken: Container[tuple[str, str]] = (),
) -> None:
    """Take the next step with every route that is on its way out, and with queues that routes had before.

    Args:
        routes: the routes.
        stored: those to look at, by application and name.
        broken: those whose last version cannot run here: the one before it may still need its queues.
    """
    for key, (each, route) in stored.items():
        if each.state in ("draining", "cancelling"):
            await _finish(routes, each, route)
        elif each.earlier_queues and key not in broken:
            await _forget_earlier(routes, each)


async def _finish(routes: Routes, stored: StoredRoute, route: Route) -> None:
    now, queues = utc(routes.broker.clock.time()), queues_of(stored, route)
    if stored.state == "draining" and stored.until is not None and stored.until <= now:
        await _change(routes, stored, replace(stored, state="cancelling", reason="it was not drained in time"))
        return
    if stored.state == "cancelling":
        for queue in queues:
            if (found := await look_at(routes.broker, queue)) is not None:
                await bury_all(routes.broker, queue, has_sessions=found.settings.requires_session)
    left = [found for queue in queues if (found := await look_at(routes.broker, queue)) is not None]
    if any(found.ready or found.scheduled or found.locked or found.deferred for found in left):
        return
    if await _change(routes, stored, replace(stored, state="removed")):
        for queue in queues:  # one with dead letters stays, so that they can be found
            await remove_empty(routes.broker, queue)


async def _forget_earlier(routes: Routes, stored: StoredRoute) -> None:
    kept = [queue for queue in stored.earlier_queues if not await remove_empty(routes.broker, queue)]
    if len(kept) < len(stored.earlier_queues):
        await _change(routes, stored, replace(stored, earlier_queues=tuple(kept)))


async def _change(routes: Routes, stored: StoredRoute, wanted: StoredRoute) -> bool:
    """Store a route, if no other process has changed it meanwhile; otherwise the next look decides."""
    revision = (await routes.ledger.revision()).number
    if stored not in await routes.ledger.routes():
        return False
    return await routes.ledger.change([wanted], revision) is not None
