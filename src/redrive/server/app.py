# SPDX-License-Identifier: MIT
"""The application: the routers, the door, and what every request and every response passes through."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from redrive import __version__
from redrive.server import problems
from redrive.server.api import ROUTERS
from redrive.server.api.document import describe
from redrive.server.api.endpoint import PREFIX
from redrive.server.api.transfer import SMALLEST_COMPRESSED, LimitedBodies, Unchanged
from redrive.server.desk import Desk
from redrive.server.door import Door, OpenDoor
from redrive.server.settings import ServerSettings

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_DESCRIPTION: Final = "Everything an operator or a program needs to know and do about messages that fail."


def create_app(desk: Desk, settings: ServerSettings, door: Door | None = None) -> FastAPI:
    """Return the application, an ASGI app.

    Args:
        desk: the open facades of this process; it stays open.
        settings: how it runs.
        door: finds out who a request is from; None: every request is from an admin.
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
    app.state.desk = desk
    app.state.settings = settings
    app.state.door = door or OpenDoor()
    problems.add_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    describe(app)
    app.add_middleware(Unchanged)
    app.add_middleware(GZipMiddleware, minimum_size=SMALLEST_COMPRESSED, compresslevel=6)
    app.add_middleware(LimitedBodies, most=settings.max_body_bytes)
    app.add_middleware(QuotedPaths)
    return app


class QuotedPaths:
    """Leaves paths as they were sent, so that a slash in a name (``orders%2F%24dead``) is not one between names.

    Args:
        app: what comes next.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and (raw := scope.get("raw_path")):
            scope["path"] = raw.partition(b"?")[0].decode("latin-1")
        await self._app(scope, receive, send)
