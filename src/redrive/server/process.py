# SPDX-License-Identifier: MIT
"""The process: listens, opens the desk, and runs what is switched on, until it is stopped.

It listens first. While the store is away, ``/live`` answers, everything else is 503, and it tries again each second.
"""

import asyncio
import ipaddress
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from redrive import duration
from redrive.access import Redaction
from redrive.clock import Clock, pause, system_clock
from redrive.errors import EngineUnavailable, InvalidSetting, StorageDamaged, StorageReadOnly
from redrive.http import SharedHttpServer
from redrive.http.listener import (
    Packet,
    Receive,
    Send,
    address_text,
    bound_socket,
    host_and_port,
    sweep,
    uvicorn_server,
)
from redrive.notifications import EVENTS
from redrive.parts import any_variables, only_folders, only_functions, only_variables
from redrive.pipeline import PipelinePlan, PipelineRunner, read_pipeline
from redrive.printable import one_line
from redrive.recovery import Recovery, ServiceSettings, TransformSettings
from redrive.routes import Route, RouteRunner, read_routes
from redrive.server.app import Observed, create_app
from redrive.server.desk import Desk, open_desk
from redrive.server.door import Door, GuardedDoor
from redrive.server.health import Health
from redrive.server.metrics import observer
from redrive.server.problems import answer, problem
from redrive.server.settings import ServerSettings
from redrive.telemetry import Event
from redrive.wiring import connect, open_pipeline, open_recovery

if TYPE_CHECKING:
    from fastapi import FastAPI

_logger = logging.getLogger("redrive.server")

_TRY_EVERY_S: Final = 1.0
_UPKEEP_EVERY_S: Final = 5.0
_IDLE_S: Final = 60.0
_GRACE_S: Final = 10


class ServerProcess:
    """One process of the server. Several may share one PostgreSQL database.

    Args:
        settings: how it runs.
        clock: where time comes from.
        door: finds out who a request is from; None: by tokens, sessions and proxies, as the settings say.
        on_event: gets every telemetry event, beside logging and OpenTelemetry.

    Attributes:
        on_listening: called with host and port when it begins to listen.
        health: what is known about it.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        clock: Clock = system_clock,
        door: Door | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._door = door
        self._stopping = asyncio.Event()
        self.on_listening: Callable[[str], object] | None = None
        self._observed = Observed.by(clock)
        own = (self._observed.topics.hint, self._observed.metrics.note)
        self._on_event = observer(*own if on_event is None else (*own, on_event))
        self.health = self._observed.health

    def stop(self) -> None:
        """Take no more requests, finish what has begun, and end."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until ``stop()``; a part that ends with an error ends the process with it.

        Raises:
            InvalidSetting: it cannot listen at its address.
            RedriveError: the store cannot be used, or a part failed.
        """
        files = _Files(self._settings)
        listen = self._settings.listen
        host, port = host_and_port(listen)
        check_reach(self._settings, host)
        front = _Front(self.health)
        with bound_socket(listen, host, port) as listener, _limits(self._settings):
            http = uvicorn_server(front, "server", feature="redrive serve", grace=_GRACE_S)
            if self.on_listening is not None:
                self.on_listening(address_text(host, listener.getsockname()[1]))
            answering = asyncio.create_task(http.serve(sockets=[listener]), name="redrive server")
            sweeping = asyncio.create_task(sweep(http, self._clock, _IDLE_S), name="redrive server connections")
            try:
                await self._serve(front, files, answering, http)
            finally:
                sweeping.cancel()
                http.should_exit = True
                await asyncio.wait([answering])

    async def _serve(self, front: "_Front", files: "_Files", answering: "asyncio.Task[None]", http: Any) -> None:  # noqa: ANN401 - uvicorn's server
        async with AsyncExitStack() as stack:
            desk = await self._opened(stack)
            if desk is None:
                return
            door = self._door or GuardedDoor(desk.access, self._settings)
            front.app = create_app(desk, self._settings, door, self._observed)
            async with self._running(desk, files) as parts:
                stopped = asyncio.create_task(self._stopping.wait())
                done, _ = await asyncio.wait([stopped, answering, *parts], return_when=asyncio.FIRST_COMPLETED)
                stopped.cancel()
                self._observed.topics.end()
                http.should_exit = True
                await asyncio.wait([answering])  # requests that have begun still have a desk
            for task in done - {stopped}:
                task.result()

    # --- the desk

    async def _opened(self, stack: AsyncExitStack) -> Desk | None:
        """Return the open desk; None if it was stopped while the store was away."""
        while not self._stopping.is_set():
            opening = AsyncExitStack()
            try:
                desk = await self._open(opening)
            except (StorageDamaged, StorageReadOnly):
                raise  # to wait would not help
            except EngineUnavailable as error:
                await opening.aclose()
                self.health.note_away(one_line(error, 300))
                _logger.warning("the store does not answer, and is asked again each second: %s", one_line(error, 300))
                with suppress(TimeoutError):
                    async with self._clock.timeout(_TRY_EVERY_S):
                        await self._stopping.wait()
            except BaseException:
                await opening.aclose()
                raise
            else:
                await stack.enter_async_context(opening)
                return desk
        return None

    async def _open(self, stack: AsyncExitStack) -> Desk:
        settings = self._settings
        every = _UPKEEP_EVERY_S if settings.upkeep else duration.LONGEST
        broker = await stack.enter_async_context(connect(settings.database, clock=self._clock, upkeep_every=every))
        async with open_recovery(broker, sources=()) as known:
            sources = dict.fromkeys((*settings.sources, *await known.sources()))
        recovery = open_recovery(
            broker,
            sources=tuple(sources) if settings.ingest else (),
            settings=ServiceSettings(transforms=TransformSettings(allow=settings.allow)),
            on_event=self._on_event,
        )
        hidden, limit = Redaction(settings.hide), settings.question_limit
        return await stack.enter_async_context(
            open_desk(broker, recovery, hidden, settings.private_networks, question_limit=limit)
        )

    # --- the parts

    @asynccontextmanager
    async def _running(self, desk: Desk, files: "_Files") -> AsyncGenerator[list["asyncio.Task[None]"]]:
        """Run the parts that are switched on, each in a task; stop them at the end."""
        settings, tasks = self._settings, list[asyncio.Task[None]]()
        http = SharedHttpServer(settings.receivers, self._clock)
        stops: list[Callable[[], None]] = []
        async with AsyncExitStack() as stack:
            try:
                watch = self._observed.topics.watch(desk.access.store.changes)
                watching = asyncio.create_task(watch, name="redrive server: topics")
                stack.callback(watching.cancel)
                if settings.operations:
                    tasks.append(self._part("operations", desk.recovery.run()))
                    stops.append(desk.recovery.stop)
                elif settings.ingest:
                    tasks.append(self._part("ingest", _ingesting(desk.recovery, self._clock, self._stopping)))
                if settings.routes:
                    await desk.routes.apply(*files.routes)
                    routes = RouteRunner(desk.routes, http=http, own=files.routes, on_event=self._on_event)
                    tasks.append(self._part("routes", routes.run()))
                    stops.append(routes.stop)
                for plan in files.pipelines if settings.pipelines else ():
                    opened = await stack.enter_async_context(open_pipeline(desk.broker, plan))
                    pipeline = PipelineRunner(opened, http=http, on_event=self._on_event)
                    with any_variables():  # as the task that begins here
                        tasks.append(self._part(f"pipeline {plan.name}", pipeline.run()))
                    stops.append(pipeline.stop)
                if settings.notifications:
                    for name, table in settings.webhooks.items():
                        events = table.get("events", EVENTS)
                        await desk.notifications.apply(name, table["url"], events, table["secret"])
                    tasks.append(self._part("notifications", desk.notifications.run()))
                    stops.append(desk.notifications.stop)
                yield tasks
            finally:
                self._stopping.set()
                for stop in stops:
                    stop()
                if tasks:
                    await asyncio.wait(tasks)
                await http.close()

    def _part(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=f"redrive server: {name}")
        self.health.note_part(name, runs=True)
        task.add_done_callback(lambda _: self.health.note_part(name, runs=False))
        return task


@contextmanager
def _limits(settings: ServerSettings) -> Generator[None]:
    """Let what is stored call no function, use no file and read no variable that the settings do not name."""
    with only_functions(settings.allow), only_folders(settings.folders), only_variables(settings.variables):
        yield


def check_reach(settings: ServerSettings, host: str) -> None:
    """Refuse to let other machines in without asking who they are.

    Raises:
        InvalidSetting: the address can be reached from elsewhere, and the settings do not require sign-in.
    """
    if not is_loopback(host) and not settings.require_sign_in:
        fix = (
            "listen at 127.0.0.1, or add a user with redrive users add NAME --role admin and set require_sign_in = true"
        )
        raise InvalidSetting("listen", settings.listen, f"can be reached by other machines, and all may do all: {fix}")


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


async def _ingesting(recovery: Recovery, clock: Clock, stopping: asyncio.Event) -> None:
    """Read failures without working on operations."""
    while not stopping.is_set():
        try:
            await recovery.ingest()
        except EngineUnavailable as error:
            _logger.warning("failures could not be read, and are tried again: %s", one_line(error, 300))
        await pause(clock, _TRY_EVERY_S)


class _Files:
    """The routes and pipelines of files. They are read before functions are limited: who writes them runs the server.

    For the same reason they may read any environment variable, which they do when they are opened.

    Args:
        settings: which files.

    Attributes:
        routes: the routes.
        pipelines: the pipelines.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.routes: list[Route] = [each for file in settings.route_files for each in read_routes(Path(file))]
        self.pipelines: list[PipelinePlan] = [read_pipeline(Path(file)) for file in settings.pipeline_files]


class _Front:
    """Answers until there is a desk, and passes requests on afterwards.

    Args:
        health: what is known about the process.

    Attributes:
        app: the application; None: the desk is not open yet.
    """

    def __init__(self, health: Health) -> None:
        self._health = health
        self.app: FastAPI | None = None

    async def __call__(self, scope: Packet, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if self.app is not None:
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._wait(scope, receive, send)

    async def _wait(self, scope: Packet, receive: Receive, send: Send) -> None:
        from fastapi.responses import JSONResponse, Response

        from redrive.server.console.files import file_response

        response: Response
        if scope["path"] == "/live":
            response = JSONResponse({"status": "live"})
        elif scope["path"] == "/ready":
            response = JSONResponse(await self._health.readiness(), 503)
        elif scope["path"].startswith("/static/"):  # of the page that says that the store is away
            response = file_response(*scope["path"].removeprefix("/static/").partition("/")[::2])
        else:
            text, fix = "the store does not answer", "come back soon; /ready says since when"
            response = answer(problem(503, "engine-unavailable", text, fix), {"retry-after": "2"})
        await response(scope, receive, send)
