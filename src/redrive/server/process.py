# SPDX-License-Identifier: MIT
"""The process: listens, opens the desk, and runs what is switched on, until it is stopped.

It listens first. While the store is away, ``/live`` answers, everything else is 503, and it tries again each second.
"""

import asyncio
import ipaddress
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from redrive.clock import Clock, system_clock
from redrive.errors import InvalidSetting
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
from redrive.server.app import Observed, create_app
from redrive.server.desk_opener import DeskOpener
from redrive.server.door import Door, GuardedDoor
from redrive.server.health import Health
from redrive.server.metrics import observer
from redrive.server.problems import answer, problem
from redrive.server.settings import ServerSettings
from redrive.server.work import OwnFiles, ServerWork, WorkHere, limits
from redrive.server.work_process import WorkProcess
from redrive.telemetry import Event

if TYPE_CHECKING:
    from fastapi import FastAPI

_IDLE_S: Final = 60.0
_GRACE_S: Final = 10


class ServerProcess:
    """One process of the server. Several may share one PostgreSQL database.

    It answers, and another process does the work (``ServerSettings.work_process``), unless a clock or ``on_event`` is
    given: neither can be handed to another process.

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
        self._is_work_apart = settings.has_work_process and clock is system_clock and on_event is None

    def stop(self) -> None:
        """Take no more requests, finish what has begun, and end."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until ``stop()``; a part that ends with an error ends the process with it.

        Raises:
            InvalidSetting: it cannot listen at its address.
            RedriveError: the store cannot be used, or a part failed.
        """
        files = OwnFiles(self._settings)
        listen = self._settings.listen
        host, port = host_and_port(listen)
        check_reach(self._settings, host)
        front = _Front(self.health)
        with bound_socket(listen, host, port) as listener, limits(self._settings):
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

    async def _serve(self, front: "_Front", files: OwnFiles, answering: "asyncio.Task[None]", http: Any) -> None:  # noqa: ANN401 - uvicorn's server
        async with AsyncExitStack() as stack:
            opener = DeskOpener(
                self._settings,
                self._clock,
                self._on_event,
                self.health.note_away,
                does_upkeep=self._settings.upkeep and not self._is_work_apart,
            )
            desk = await opener.open(stack, self._stopping)
            if desk is None:
                return
            door = self._door or GuardedDoor(desk.access, self._settings)
            front.app = create_app(desk, self._settings, door, self._observed)
            watch = self._observed.topics.watch(desk.access.store.changes)
            watching = asyncio.create_task(watch, name="redrive server: topics")
            stack.callback(watching.cancel)
            async with self._work(files).running(desk) as parts:
                stopped = asyncio.create_task(self._stopping.wait())
                done, _ = await asyncio.wait([stopped, answering, *parts], return_when=asyncio.FIRST_COMPLETED)
                stopped.cancel()
                self._observed.topics.end()
                http.should_exit = True
                await asyncio.wait([answering])  # requests that have begun still have a desk
            for task in done - {stopped}:
                task.result()

    def _work(self, files: OwnFiles) -> ServerWork:
        if self._is_work_apart:
            return WorkProcess(self._settings, self._clock, self._observed)
        return WorkHere(self._settings, files, self._clock, self.health.note_part, self._on_event)


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
