# SPDX-License-Identifier: MIT
"""Runs the routes of a database in this process, and follows every change of them.

Several processes may run the same routes. Those that share a database share the stored events, and a hint is never
needed: each looks once a second whether routes have changed.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Final

from redrive.broker import counted
from redrive.clock import utc
from redrive.errors import EngineUnavailable, InvalidRoute, RedriveError, RouteNotFound, UsageError
from redrive.http import HttpServer, SharedHttpServer
from redrive.parts import any_variables
from redrive.printable import one_line
from redrive.routes.catalog import Routes
from redrive.routes.destination import Destination
from redrive.routes.environment import PartEnvironment
from redrive.routes.events import DestinationChanged, RouteBroken, RouteChanged
from redrive.routes.infos import queues_of
from redrive.routes.intakes import Runners
from redrive.routes.ledger import RouteRevision, StoredRoute, Tap
from redrive.routes.leg_runner import LegRunner
from redrive.routes.leg_step import Follower, LegStep
from redrive.routes.leg_tallies import key_of
from redrive.routes.plan import ReceiverPlan, plan_of
from redrive.routes.removal import finish_removals
from redrive.routes.route import Route
from redrive.routes.route_file import route_from_json
from redrive.routes.running_receiver import RunningReceiver
from redrive.routes.running_route import RunningRoute
from redrive.routes.stored_legs import StoredLegs
from redrive.routes.subscriptions import close_queue, subscribe
from redrive.routes.suspects import Suspects
from redrive.telemetry import Event, report
from redrive.worker import signals

_LOOK_EVERY_S: Final = 1.0
_RECEIVING: Final = ("running", "paused")
_DELIVERING: Final = ("running", "draining")

_Key = tuple[str, str]


class RouteRunner:
    """Runs the routes of a database until it is stopped.

    Args:
        routes: the routes; they are open, and stay so.
        listen: where HTTP receivers listen: ``"127.0.0.1:8080"``; port 0 is any that is free.
        http: a server that this runner shares with others, instead of one of its own; it stays open.
        own: the routes of this process's own files, which may read any environment variable: ``only_variables`` does
            not limit them. A stored route is one of them for as long as it is what the file says.
        on_event: a function that gets every telemetry event, beside logging and OpenTelemetry.
        chance: where random numbers come from, 0 <= x < 1.
    """

    def __init__(
        self,
        routes: Routes,
        *,
        listen: str = "127.0.0.1:8080",
        http: SharedHttpServer | None = None,
        own: Iterable[Route] = (),
        on_event: Callable[[Event], object] | None = None,
        chance: Callable[[], float] = random.random,  # noqa: TID251 - the default; tests pass their own
    ) -> None:
        self._routes = routes
        self._broker = routes.broker
        self._ledger = routes.ledger
        self._clock = routes.broker.clock
        self._report = counted(partial(report, on_event=on_event), routes.broker, key_of)
        self._chance = chance
        self._own = tuple(own)
        self._has_own_http = http is None
        self.http = SharedHttpServer(listen, self._clock) if http is None else http
        self._running: dict[_Key, RunningRoute] = {}
        self._receivers: dict[tuple[str, str, str], RunningReceiver] = {}
        self._runners = Runners(self._following)
        self._suspects = Suspects(self._clock)
        self._destinations: dict[str, Destination] = {}
        self._stored: dict[_Key, tuple[StoredRoute, Route]] = {}
        self._broken: dict[_Key, str] = {}
        self._seen: int | None = None
        self._taps: tuple[Tap, ...] = ()
        self._reloading = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- running

    async def run(self, *, handle_signals: bool = False, until: Awaitable[object] | None = None) -> None:
        """Run until ``stop()``.

        Args:
            handle_signals: whether SIGTERM and SIGINT stop it. This works in the program's main thread only.
            until: also stop when this is done.
        """
        if self._loop is not None:
            raise UsageError("this runner is running already; make another one")
        self._loop = asyncio.get_running_loop()
        chosen = signals.STOP_SIGNALS if handle_signals else ()
        try:
            with signals.handling_signals(chosen, self.stop):
                await self._follow(until)
        finally:
            if self._has_own_http:
                await self.http.close()
            self._loop = None

    def stop(self) -> None:
        """Take no more events, finish those that are on their way, and end; it may be called from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: it has stopped
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def reload(self) -> None:
        """Look now whether routes have changed, instead of within a second."""
        async with self._reloading:
            if self._stopping.is_set():
                return
            try:
                revision = await self._ledger.revision()
                self._taps = revision.taps
                if revision.number != self._seen or self._broken or self._has_ended():
                    await self._reconcile(revision)
                await finish_removals(self._routes, self._stored, self._broken)
            except EngineUnavailable as error:
                self._note_outage(error)

    async def _follow(self, until: Awaitable[object] | None) -> None:
        waiting = None if until is None else asyncio.ensure_future(until)
        if waiting is not None:
            waiting.add_done_callback(lambda _: self._stopping.set())
        try:
            while not self._stopping.is_set():
                await self.reload()
                with suppress(TimeoutError):
                    async with self._clock.timeout(_LOOK_EVERY_S):
                        await self._stopping.wait()
        finally:
            await self._close()
            if waiting is not None and not waiting.done():
                waiting.cancel()
        if waiting is not None and waiting.done() and not waiting.cancelled():
            waiting.result()  # what it was to run until has failed, perhaps

    async def _close(self) -> None:
        """Stop receivers first, so that no event comes that nothing would deliver."""
        self._stopping.set()
        async with self._reloading:
            await asyncio.gather(*(each.stop() for each in self._receivers.values()))
            self._receivers.clear()
            await asyncio.gather(*(each.stop() for each in self._running.values()))
            self._running.clear()
            self._runners.by_name.clear()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _note_outage(self, error: EngineUnavailable) -> None:
        for application, name in self._stored:
            self._report(RouteBroken(application, name, 0, f"the store does not answer: {one_line(error, 300)}"))
            break

    def _has_ended(self) -> bool:
        return any(each.errors() for each in self._running.values())

    # --- following changes

    async def _reconcile(self, revision: RouteRevision) -> None:
        """Do what the ledger says: first the queues, then what delivers, then what receives."""
        listed = await self._ledger.routes()
        self._stored = self._read(listed)
        there = {(each.application, each.name) for each in listed}
        self._broken = {key: problem for key, problem in self._broken.items() if key in there}
        for stored, route in self._stored.values():
            await self._try(stored, partial(self._bring_up, stored, route))
        await self._update_receivers()
        for key in set(self._running) - {key for key, (each, _) in self._stored.items() if each.state in _DELIVERING}:
            await self._stop_route(key)
        self._seen = revision.number

    def _read(self, listed: list[StoredRoute]) -> dict[_Key, tuple[StoredRoute, Route]]:
        found: dict[_Key, tuple[StoredRoute, Route]] = {}
        for stored in listed:
            key = stored.application, stored.name
            try:
                found[key] = stored, route_from_json(stored.definition)
            except RedriveError as error:  # made by a newer version, or a package with its kinds is missing here
                self._note_broken(stored, str(error))
                if key in self._stored:
                    found[key] = self._stored[key]
        return found

    async def _try(self, stored: StoredRoute, do: Callable[[], Awaitable[None]]) -> None:
        """Do something for one route; what goes wrong concerns no other route."""
        try:
            await do()
            self._broken.pop((stored.application, stored.name), None)
        except EngineUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - a part of another package may raise anything
            said = str(error) if isinstance(error, RedriveError) else f"{type(error).__name__}: {error}"
            self._note_broken(stored, one_line(said, 500))

    def _note_broken(self, stored: StoredRoute, problem: str) -> None:
        key = stored.application, stored.name
        if self._broken.get(key) != problem:
            self._broken[key] = problem
            self._report(RouteBroken(stored.application, stored.name, stored.version, problem))

    async def _bring_up(self, stored: StoredRoute, route: Route) -> None:
        """Let a route deliver, if it should: a new version is running before the old one stops."""
        key, old = (stored.application, stored.name), self._running.get((stored.application, stored.name))
        errors = [] if old is None else old.errors(queues_of(stored, route))
        for error in errors:
            problem = f"it is started again, after {type(error).__name__}: {error}"
            self._report(RouteBroken(*key, stored.version, one_line(problem, 500)))
        if old is None or old.stored != stored or errors:
            await subscribe(self._broker, route, takes_events=stored.state in _RECEIVING)
        if stored.state not in _DELIVERING:
            await self._close_earlier(stored)
            return
        if old is not None and old.stored.version == stored.version:
            old.stored = stored
            old.serve(queues_of(stored, route))
            return
        new = self._new_route(stored, route)
        new.serve(queues_of(stored, route))
        self._running[key] = new
        self._runners.by_name[key] = new.runner
        self._report(RouteChanged(stored.application, stored.name, stored.version, stored.state))
        await self._close_earlier(stored)
        if old is not None:
            await old.stop()

    async def _close_earlier(self, stored: StoredRoute) -> None:
        """Let the queues of a route's earlier sources get no more events: the version for the new source can run."""
        for queue in stored.earlier_queues:
            await close_queue(self._broker, queue)

    def _new_route(self, stored: StoredRoute, route: Route) -> RunningRoute:
        environment = self._environment(route.application, route.name)
        with _variables(is_own=any(each.to_json() == stored.definition for each in self._own)):
            runner = LegRunner(route, environment, self._destination(route))
        legs = StoredLegs(
            runner,
            environment,
            suspects=self._suspects,
            on_dead=partial(self._note_dead, route),
            follow=partial(self._following, route.application, route.name),
        )
        return RunningRoute(stored, runner, legs, environment)

    async def _stop_route(self, key: _Key) -> None:
        running = self._running.pop(key)
        self._runners.by_name.pop(key, None)
        await running.stop()
        state = self._stored[key][0].state if key in self._stored else "removed"
        self._report(RouteChanged(*key, running.stored.version, state))

    async def _update_receivers(self) -> None:
        receiving = {
            key: (stored, self._running[key].route if key in self._broken and key in self._running else route)
            for key, (stored, route) in self._stored.items()
            if stored.state in _RECEIVING
        }
        try:
            plans = plan_of([route for _, route in receiving.values()])
        except InvalidRoute as error:  # stored by another version of Redrive; what runs goes on
            self._note_broken(next(each for each, _ in receiving.values() if each.name == error.route), str(error))
            return
        wanted = {
            (plan.application, plan.receiver.kind, plan.receiver.address): plan
            for plan in plans
            if plan.receiver.kind != "topic"  # its routes are subscriptions of it already
        }
        for key in [key for key, each in self._receivers.items() if not _is_kept(each, wanted.get(key))]:
            await self._receivers.pop(key).stop()
        for key, plan in wanted.items():
            if key in self._receivers:
                self._receivers[key].update(plan)
            else:
                environment = self._environment(plan.application, plan.name)
                own = any((each.application, each.source) == (plan.application, plan.receiver) for each in self._own)
                opening = partial(_variables, is_own=own)
                self._receivers[key] = RunningReceiver(plan, environment, self._runners, opening)

    # --- what parts work with

    def _environment(self, application: str, name: str) -> PartEnvironment:
        http: HttpServer = self.http
        return PartEnvironment(
            application=application,
            name=name,
            broker=self._broker,
            ledger=self._ledger,
            clock=self._clock,
            chance=self._chance,
            report=self._report,
            http=http,
        )

    def _destination(self, route: Route) -> Destination:
        name = f"{route.application}: {route.sender.destination}"
        if name not in self._destinations:
            self._destinations[name] = Destination(
                route.sender.destination,
                self._clock,
                failures=route.settings.breaker_failures,
                probe_after=route.settings.probe_after,
                on_change=lambda which, is_down: self._report(DestinationChanged(which, is_down)),
            )
        return self._destinations[name]

    # --- what legs cause

    def _note_dead(self, route: Route, reason: str) -> None:
        if route.settings.on_dead == "halt":
            self._spawn(self._halt(route, reason))

    async def _halt(self, route: Route, reason: str) -> None:
        with suppress(RouteNotFound):
            await self._routes.pause(route.name, route.application, reason=f"a leg is dead: {one_line(reason, 300)}")
        await self.reload()

    def _following(self, application: str, name: str) -> Follower | None:
        now = utc(self._clock.time())
        queues = [
            tap.queue for tap in self._taps if (tap.application, tap.route) == (application, name) and tap.until > now
        ]
        return partial(self._send_steps, queues) if queues else None

    async def _send_steps(self, queues: list[str], event_id: str, steps: list[LegStep]) -> None:
        body = json.dumps({"event": event_id, "steps": [_step_view(step) for step in steps]}, ensure_ascii=False)
        for queue in queues:
            with suppress(RedriveError):  # the person has left, or the store does not answer: the event is delivered
                await self._broker.send(queue, body)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _variables(*, is_own: bool) -> AbstractContextManager[None]:
    """Return the block in which the parts of a route are opened: those of own files may read any variable."""
    return any_variables() if is_own else nullcontext()


def _is_kept(running: RunningReceiver, wanted: ReceiverPlan | None) -> bool:
    return wanted is not None and wanted.receiver == running.plan.receiver


def _step_view(step: LegStep) -> Mapping[str, object]:
    bodies = [one_line(message.body.decode(errors="replace"), 500) for message in step.messages[:10]]
    return {"step": step.step, "outcome": step.outcome, "bodies": bodies}
