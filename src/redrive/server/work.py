# SPDX-License-Identifier: MIT
"""The work of a server: what it does beside answering, each part in a task, for as long as it runs."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from redrive.clock import Clock, pause
from redrive.errors import EngineUnavailable
from redrive.http import SharedHttpServer
from redrive.notifications import EVENTS
from redrive.parts import any_variables, only_folders, only_functions, only_variables
from redrive.pipeline import PipelinePlan, PipelineRunner, read_pipeline
from redrive.printable import one_line
from redrive.recovery import Recovery
from redrive.routes import Route, RouteRunner, read_routes
from redrive.server.desk import Desk
from redrive.server.settings import ServerSettings
from redrive.telemetry import Event
from redrive.wiring import open_pipeline

_logger = logging.getLogger("redrive.server")

WORK_PROCESS: Final = "work process"
"""What ``/ready`` calls the process that does the work, if there is one: it runs when all its parts have begun."""

_TRY_EVERY_S: Final = 1.0


class NotePart(Protocol):
    """Called when a part begins to run, and when it does not run any more."""

    def __call__(self, name: str, *, runs: bool) -> object:
        """Note whether a part runs."""
        ...


class ServerWork(Protocol):
    """Does what a server does beside answering."""

    def running(self, desk: Desk) -> "AbstractAsyncContextManager[list[asyncio.Task[None]]]":
        """Work for as long as the block lasts; yield tasks of which none ends, unless with an error."""
        ...


class OwnFiles:
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


class WorkHere:
    """The work of a server in the process that runs this.

    Args:
        settings: which parts are switched on.
        files: its own routes and pipelines.
        clock: where time comes from.
        note_part: called with what runs.
        on_event: gets the telemetry events of routes and pipelines.
    """

    def __init__(
        self,
        settings: ServerSettings,
        files: OwnFiles,
        clock: Clock,
        note_part: NotePart,
        on_event: Callable[[Event], object],
    ) -> None:
        self._settings = settings
        self._files = files
        self._clock = clock
        self._note_part = note_part
        self._on_event = on_event
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def running(self, desk: Desk) -> AsyncGenerator[list["asyncio.Task[None]"]]:
        """Run the parts that are switched on, each in a task; stop them at the end."""
        parts, http = _Parts(self._note_part), SharedHttpServer(self._settings.receivers, self._clock)
        async with AsyncExitStack() as stack:
            try:
                await self._begin(parts, desk, http, stack)
                yield parts.tasks
            finally:
                await parts.end()
                await http.close()

    async def _begin(self, parts: "_Parts", desk: Desk, http: SharedHttpServer, stack: AsyncExitStack) -> None:
        settings, files = self._settings, self._files
        if settings.operations:
            parts.begin("operations", desk.recovery.run(), desk.recovery.stop)
        elif settings.ingest:
            parts.begin("ingest", self._ingest(desk.recovery), self._stopping.set)
        if settings.routes:
            await desk.routes.apply(*files.routes)
            routes = RouteRunner(desk.routes, http=http, own=files.routes, on_event=self._on_event)
            parts.begin("routes", routes.run(), routes.stop)
        for plan in files.pipelines if settings.pipelines else ():
            opened = await stack.enter_async_context(open_pipeline(desk.broker, plan))
            pipeline = PipelineRunner(opened, http=http, on_event=self._on_event)
            with any_variables():  # as the task that begins here
                parts.begin(f"pipeline {plan.name}", pipeline.run(), pipeline.stop)
        if settings.notifications:
            for name, table in settings.webhooks.items():
                await desk.notifications.apply(name, table["url"], table.get("events", EVENTS), table["secret"])
            parts.begin("notifications", desk.notifications.run(), desk.notifications.stop)

    async def _ingest(self, recovery: Recovery) -> None:
        """Read failures without working on operations."""
        while not self._stopping.is_set():
            try:
                await recovery.ingest()
            except EngineUnavailable as error:
                _logger.warning("failures could not be read, and are tried again: %s", one_line(error, 300))
            await pause(self._clock, _TRY_EVERY_S)


class _Parts:
    """The parts that run.

    Args:
        note: called with what runs.

    Attributes:
        tasks: one for each part.
    """

    def __init__(self, note: NotePart) -> None:
        self._note = note
        self.tasks: list[asyncio.Task[None]] = []
        self._stops: list[Callable[[], object]] = []

    def begin(self, name: str, work: Coroutine[Any, Any, None], stop: Callable[[], object]) -> None:
        """Run a part in a task, until ``stop`` is called."""
        task = asyncio.create_task(work, name=f"redrive server: {name}")
        self._note(name, runs=True)
        task.add_done_callback(lambda _: self._note(name, runs=False))
        self.tasks.append(task)
        self._stops.append(stop)

    async def end(self) -> None:
        """Stop all parts, and wait until they have ended."""
        for stop in self._stops:
            stop()
        if self.tasks:
            await asyncio.wait(self.tasks)


@contextmanager
def limits(settings: ServerSettings) -> Generator[None]:
    """Let what is stored call no function, use no file and read no variable that the settings do not name."""
    with only_functions(settings.allow), only_folders(settings.folders), only_variables(settings.variables):
        yield
