# SPDX-License-Identifier: MIT
"""The application: the routers, the door, and what every request and every response passes through."""

import ipaddress
from dataclasses import dataclass
from typing import Final

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from redrive import __version__
from redrive.clock import Clock
from redrive.http.listener import AsgiApp, Packet, Receive, Send
from redrive.server import console, health, problems
from redrive.server.api import ROUTERS
from redrive.server.api.document import describe
from redrive.server.api.endpoint import PREFIX
from redrive.server.api.transfer import SMALLEST_COMPRESSED, Tagged, Unchanged
from redrive.server.desk import Desk
from redrive.server.door import Door, OpenDoor
from redrive.server.guard import Guard
from redrive.server.health import Health
from redrive.server.metrics import Measured, Metrics
from redrive.server.provider import Provider
from redrive.server.recent import RecentAnswers
from redrive.server.settings import ServerSettings
from redrive.server.topics import TopicHub

_DESCRIPTION: Final = "Everything an operator or a program needs to know and do about messages that fail."


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known about the process that serves.

    Attributes:
        health: whether it can serve.
        topics: tells streams what has changed.
        metrics: counts what happens.
    """

    health: Health
    topics: TopicHub
    metrics: Metrics

    @classmethod
    def by(cls, clock: Clock) -> "Observed":
        """Return what is known at the beginning."""
        return cls(Health(clock), TopicHub(clock), Metrics(clock))


def create_app(
    desk: Desk,
    settings: ServerSettings,
    door: Door | None = None,
    observed: Observed | None = None,
    provider: Provider | None = None,
) -> FastAPI:
    """Return the application, an ASGI app.

    Args:
        desk: the open facades of this process; it stays open.
        settings: how it runs.
        door: finds out who a request is from; None: every request is from an admin.
        observed: what is known about the process; None: nothing yet.
        provider: signs people in; None: the one of the settings, if there is one.
    """
    app = FastAPI(
        title="Redrive",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        separate_input_output_schemas=False,
        redirect_slashes=False,
    )
    app.state.desk, app.state.settings = desk, settings
    app.state.door = door or OpenDoor()
    app.state.proxies = [ipaddress.ip_network(each) for each in settings.trusted_proxies]
    clock = desk.broker.clock
    app.state.provider = provider
    if provider is None and settings.oidc is not None:
        app.state.provider = Provider(settings.oidc, settings.public_url, clock)
    observed = observed or Observed.by(clock)
    app.state.health, app.state.topics, app.state.metrics = observed.health, observed.topics, observed.metrics
    observed.health.ask = desk.recovery.ledger.now
    problems.add_handlers(app)
    app.state.console, app.state.pages = console.Fragments(clock), console.PATHS
    for router in (*ROUTERS, health.router, *console.ROUTERS):
        app.router.routes.extend(router.routes)  # whole as they are: including them builds each anew for this app
    describe(app)
    _add_layers(app, settings, observed, clock)
    return app


def _add_layers(app: FastAPI, settings: ServerSettings, observed: Observed, clock: Clock) -> None:
    """Add what a request passes: the last one that is added is the first."""
    app.add_middleware(Tagged)
    app.add_middleware(GZipMiddleware, minimum_size=SMALLEST_COMPRESSED, compresslevel=6)
    app.add_middleware(RecentAnswers, clock=clock)
    app.add_middleware(console.SharedFragments)
    app.add_middleware(Unchanged)
    app.add_middleware(QuotedPaths)
    app.add_middleware(Guard, settings=settings, clock=clock)
    app.add_middleware(Measured, metrics=observed.metrics, clock=clock)


class QuotedPaths:
    """Leaves paths as they were sent, so that a slash in a name (``orders%2F%24dead``) is not one between names.

    Args:
        app: what comes next.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Packet, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and (raw := scope.get("raw_path")):
            scope["path"] = raw.partition(b"?")[0].decode("latin-1")
        await self._app(scope, receive, send)
