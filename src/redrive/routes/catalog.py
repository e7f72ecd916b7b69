# SPDX-License-Identifier: MIT
"""The routes of a database: added, changed, paused, drained and removed while they run.

Every change is checked as a whole, with all other routes, before anything is stored. What is stored is what every
process that runs routes does next.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

from redrive import duration
from redrive.broker import Broker, Message, Payload, QueueInfo, Resubmitted, random_id
from redrive.broker.rules import similar
from redrive.clock import utc
from redrive.errors import InvalidRoute, QueueNotFound, RedriveError, RouteConflict, RouteNotFound
from redrive.routes.infos import RouteInfo, info_of, queues_of
from redrive.routes.ledger import RouteLedger, StoredRoute
from redrive.routes.leg_step import LegStep
from redrive.routes.plan import plan_of
from redrive.routes.route import DEFAULT_APPLICATION, Route
from redrive.routes.route_file import route_from_json
from redrive.routes.subscriptions import look_at, subscribe
from redrive.routes.trial import try_route

_ATTEMPTS: Final = 5
_TAP_S: Final = 60.0
_LIVE: Final = ("running", "paused")


class Routes:
    """The routes of a database. Made by ``redrive.open_routes``; use it as ``async with``.

    Args:
        broker: where the queues are; it is open.
        ledger: where the routes are stored.
    """

    def __init__(self, broker: Broker, ledger: RouteLedger) -> None:
        self._broker = broker
        self._ledger = ledger

    async def __aenter__(self) -> Self:
        await self._ledger.open()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self._ledger.close()

    @property
    def broker(self) -> Broker:
        """Where the queues are."""
        return self._broker

    @property
    def ledger(self) -> RouteLedger:
        """Where the routes are stored."""
        return self._ledger

    # --- looking

    async def find(self, application: str | None = None) -> list[RouteInfo]:
        """Return the routes of an application, or of all, with what waits on them; ``unreadable`` has the others."""
        queues = {queue.name: queue for queue in await self._broker.queues()}
        listed = [each for each in await self._ledger.routes() if application in (None, each.application)]
        read = [(stored, route) for stored in listed if (route := _readable(stored)) is not None]
        return [await self._info(stored, route, queues) for stored, route in read]

    async def unreadable(self) -> list[StoredRoute]:
        """Return the routes that this process cannot read, because a package or a newer Redrive is missing here."""
        return [each for each in await self._ledger.routes() if _readable(each) is None]

    async def show(self, name: str, application: str = DEFAULT_APPLICATION) -> RouteInfo:
        """Return a route, with what waits on it.

        Raises:
            RouteNotFound: there is no such route.
        """
        stored = _find(await self._ledger.routes(), name, application)
        queues = {queue.name: queue for queue in await self._broker.queues()}
        return await self._info(stored, route_from_json(stored.definition), queues)

    async def _info(self, stored: StoredRoute, route: Route, queues: dict[str, QueueInfo]) -> RouteInfo:
        """Return a route as people see it. A parked leg cannot be received now, and is old all the same."""
        info = info_of(stored, route, queues)
        if not info.waiting:
            return info
        there = [queue for queue in info.queues if queue in queues]
        first = [each for queue in there for each in await self._broker.peek(queue, max_messages=1)]
        return replace(info, oldest_at=min((each.enqueued_at for each in first), default=info.oldest_at))

    async def versions(self, name: str, application: str = DEFAULT_APPLICATION) -> list[StoredRoute]:
        """Return everything that a route has been, the newest first: a row for each change."""
        found = await self._ledger.versions(application, name)
        if not found:
            _find(await self._ledger.routes(), name, application)
        return found

    async def check(self, *routes: Route) -> None:
        """See that routes could be applied beside those that are there. Nothing is changed.

        Raises:
            InvalidRoute: they do not fit together, or a queue that they name does not exist.
        """
        there = await self._ledger.routes()
        await self._check(there, [_stored(route, there) for route in routes], routes)

    # --- changing

    async def add(self, *routes: Route) -> None:
        """Add routes, all or none. They get what is received from now on.

        Raises:
            RouteConflict: one of them exists already.
            InvalidRoute: they do not fit together, or a queue that they name does not exist.
        """

        def change(there: Sequence[StoredRoute]) -> list[StoredRoute]:
            for route in routes:
                if any((each.application, each.name) == (route.application, route.name) for each in there):
                    raise RouteConflict(route.name, "it exists already; update it, or choose another name")
            return [_stored(route, there) for route in routes]

        await self._change(change, routes)

    async def apply(self, *routes: Route, remove_others_of: str | None = None) -> list[str]:
        """Make routes what they are here: add those that are new, and change those that differ; all or none.

        An event that is on its way is delivered by the version that it began with; every replay uses the new one.

        Args:
            routes: the routes.
            remove_others_of: an application whose other routes are drained and removed; None: others stay.

        Returns:
            what was changed, one sentence for each route.
        """
        said: list[str] = []

        def change(there: Sequence[StoredRoute]) -> list[StoredRoute]:
            said.clear()
            changed = [
                _stored(route, there, said) for route in routes if not any(_is_same(route, each) for each in there)
            ]
            names = {(route.application, route.name) for route in routes}
            for each in there:
                if each.application == remove_others_of and (each.application, each.name) not in names:
                    said.append(f"{each.name} is drained and removed")
                    changed.append(replace(each, state="draining", until=None, reason="no longer in the file"))
            return changed

        await self._change(change, routes)
        return said

    async def pause(self, name: str, application: str = DEFAULT_APPLICATION, *, reason: str = "") -> None:
        """Stop delivering on a route. Its events are stored, and wait."""

        def change(stored: StoredRoute) -> StoredRoute:
            return replace(stored, state="paused", reason=reason)

        await self._set_state(name, application, ("running",), change)

    async def resume(self, name: str, application: str = DEFAULT_APPLICATION) -> None:
        """Deliver again on a route that was paused, or that was being drained."""

        def change(stored: StoredRoute) -> StoredRoute:
            return replace(stored, state="running", reason="", until=None)

        await self._set_state(name, application, ("paused", "draining"), change)

    async def drain(
        self, name: str, application: str = DEFAULT_APPLICATION, *, within: duration.Duration | None = None
    ) -> None:
        """Give a route no more events; it is removed when it has delivered what it has.

        Args:
            name: its name.
            application: whose it is.
            within: how long that may take; what is left then becomes dead letters. None: as long as it takes.
        """
        seconds = None if within is None else duration.seconds("within", within)
        until = None if seconds is None else utc(self._broker.clock.time()) + timedelta(seconds=seconds)
        await self._set_state(
            name, application, _LIVE, lambda each: replace(each, state="draining", until=until, reason="")
        )

    async def remove(self, name: str, application: str = DEFAULT_APPLICATION) -> None:
        """Remove a route now. What it is delivering is finished; what waits becomes dead letters of its queue."""
        allowed = (*_LIVE, "draining")
        await self._set_state(name, application, allowed, lambda each: replace(each, state="cancelling", reason=""))

    async def replay(
        self,
        name: str,
        application: str = DEFAULT_APPLICATION,
        *,
        max_messages: int | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> Resubmitted:
        """Try the dead legs of a route again, on that route alone; return how many."""
        info = await self.show(name, application)
        if not info.queues:
            raise RouteConflict(name, "its delivery is direct, which stores nothing that could be replayed")
        done = await self._broker.resubmit(info.queues[0], max_messages=max_messages, on_progress=on_progress)
        for queue in info.queues[1:]:  # those that it had before its source was changed
            most = None if max_messages is None else max_messages - done
            if most != 0 and await look_at(self._broker, queue) is not None:
                done = _together(done, await self._broker.resubmit(queue, max_messages=most, on_progress=on_progress))
        return done

    # --- trying

    async def test(self, name: str, event: Payload, application: str = DEFAULT_APPLICATION) -> list[LegStep]:
        """Send an event through a route without side effects, and return every step."""
        info = await self.show(name, application)
        return try_route(info.route, Message.of(event, id="test"), self._broker.clock.time())

    async def tap(
        self, name: str, application: str = DEFAULT_APPLICATION, *, seconds: duration.Duration | None = None
    ) -> AsyncIterator[dict[str, object]]:
        """Follow a route: yield what happens to each of its legs, while it happens.

        Args:
            name: the route's name.
            application: whose it is.
            seconds: for how long; None: until the caller stops.
        """
        await self.show(name, application)
        queue = f"redrive.taps/{application}/{name}/{random_id()[:8]}"
        clock, end = self._broker.clock, None
        if seconds is not None:
            end = self._broker.clock.monotonic() + duration.seconds("seconds", seconds)
        try:
            await self._broker.declare(queue, auto_delete_on_idle=_TAP_S * 2, default_ttl=_TAP_S)
            while end is None or clock.monotonic() < end:
                await self._ledger.add_tap(application, name, queue, _TAP_S)
                wait = _TAP_S / 4 if end is None else max(0.01, min(_TAP_S / 4, end - clock.monotonic()))
                for delivery in await self._broker.receive(queue, max_messages=100, wait=wait, delete=True):
                    yield json.loads(delivery.body)
        finally:
            await self._ledger.remove_tap(queue)
            with suppress(QueueNotFound):
                await self._broker.delete(queue)

    # --- inside

    async def _set_state(
        self,
        name: str,
        application: str,
        allowed: tuple[str, ...],
        change: Callable[[StoredRoute], StoredRoute],
    ) -> None:
        def changed(there: Sequence[StoredRoute]) -> list[StoredRoute]:
            stored = _find(there, name, application)
            wanted = change(stored)
            if stored.state == wanted.state:
                return []
            if stored.state not in allowed:
                raise RouteConflict(name, f"it is {stored.state}; that needs a route that is {' or '.join(allowed)}")
            return [wanted]

        await self._change(changed, ())

    async def _change(
        self, change: Callable[[Sequence[StoredRoute]], list[StoredRoute]], routes: Sequence[Route]
    ) -> None:
        """Change routes, based on those that are there; begin again if another process was faster."""
        name = ""
        for _ in range(_ATTEMPTS):
            revision = (await self._ledger.revision()).number
            there = await self._ledger.routes()
            changed = change(there)
            if not changed:
                return
            name = changed[0].name
            await self._check(there, changed, routes)
            if await self._ledger.change(changed, revision) is not None:
                await self._prepare(changed)
                return
        raise RouteConflict(name, "other processes keep changing the routes; try again")

    async def _check(self, there: Iterable[StoredRoute], changed: Iterable[StoredRoute], new: Sequence[Route]) -> None:
        """See that the routes fit together as they would be after a change, and that queues of new ones exist."""
        plan_of([*_unchanged(there, changed, new), *new])
        queues = {queue.name: queue.is_topic for queue in await self._broker.queues()} if new else {}
        for route in new:
            _check_place(route, "source", route.source.reads, queues, is_topic=route.source.kind == "topic")
            _check_place(route, "sender", route.sender.writes, queues, is_topic=route.sender.kind == "topic")

    async def _prepare(self, changed: Sequence[StoredRoute]) -> None:
        """Give routes their queues now; a process that runs routes would do the same a moment later."""
        for stored in changed:
            route = route_from_json(stored.definition)
            if stored.state != "removed":
                await subscribe(self._broker, route, takes_events=stored.state in _LIVE)


def _together(one: Resubmitted, other: Resubmitted) -> Resubmitted:
    """Return what two calls did."""
    result = Resubmitted.of(one + other, (*one.stayed, *other.stayed), (), one.locked + other.locked)
    result.locked_until = max(filter(None, (one.locked_until, other.locked_until)), default=None)
    return result


def _find(there: Iterable[StoredRoute], name: str, application: str) -> StoredRoute:
    names = {each.name: each for each in there if each.application == application}
    if name not in names:
        raise RouteNotFound(name, application, similar(name, names))
    return names[name]


def _is_same(route: Route, stored: StoredRoute) -> bool:
    return (stored.application, stored.name) == (route.application, route.name) and (
        stored.definition == route.to_json() and stored.state in _LIVE
    )


def _stored(route: Route, there: Iterable[StoredRoute], said: "list[str] | None" = None) -> StoredRoute:
    """Return a route as it is to be stored: the next version, with the queues of earlier ones."""
    old = next((each for each in there if (each.application, each.name) == (route.application, route.name)), None)
    if said is not None:
        said.append(f"{route.name} is {'added' if old is None else 'changed'}")
    if old is None:
        return StoredRoute(
            application=route.application, name=route.name, version=1, state="running", definition=route.to_json()
        )
    had, has = queues_of(old, route_from_json(old.definition)), queues_of(replace(old, earlier_queues=()), route)
    state = old.state if old.state in _LIVE else "running"
    return replace(
        old,
        version=old.version + 1,
        state=state,
        definition=route.to_json(),
        earlier_queues=tuple(queue for queue in had if queue not in has),
        until=None,
        reason=old.reason if state == "paused" else "",
    )


def _unchanged(there: Iterable[StoredRoute], changed: Iterable[StoredRoute], new: Iterable[Route]) -> list[Route]:
    """Return the other routes that get events after a change, except those that cannot be read here."""
    after = {(each.application, each.name): each for each in (*there, *changed)}
    named = {(route.application, route.name) for route in new}
    live = [each for key, each in after.items() if key not in named and each.state in _LIVE]
    return [route for each in live if (route := _readable(each)) is not None]


def _readable(stored: StoredRoute) -> Route | None:
    """Return what a stored definition says; None if it cannot be read in this process."""
    try:
        return route_from_json(stored.definition)
    except RedriveError:
        return None


def _check_place(route: Route, part: str, name: str | None, queues: dict[str, bool], *, is_topic: bool) -> None:
    if name is None:
        return
    noun = "topic" if is_topic else "queue"
    if name not in queues:
        meant = similar(name, [each for each, topic in queues.items() if topic == is_topic])
        hint = f"did you mean {meant!r}? Otherwise " if meant else ""
        raise InvalidRoute(
            route.name, f"there is no {noun} {name!r}; {hint}declare it first: redrive {noun}s declare {name}", part
        )
    if queues[name] != is_topic:
        other = "queue" if is_topic else "topic"
        raise InvalidRoute(route.name, f"{name!r} is a {other}, not a {noun}; write kind = '{other}'", part)
