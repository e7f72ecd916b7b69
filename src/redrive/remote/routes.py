# SPDX-License-Identifier: MIT
"""The routes behind a server, as commands use them. Their parts are seen as people write them, without secrets."""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Self, cast

from redrive.broker.views import View
from redrive.errors import NotSupported
from redrive.remote.broker import WITHOUT_DATABASE, RemoteBroker
from redrive.remote.connection import quoted
from redrive.remote.records import record
from redrive.routes import Route, RouteInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPart:
    """A source, a filter or a sender, as a server shows it."""

    kind: str
    text: str
    address: str = ""
    destination: str = ""
    delivery: str = ""
    guarantee: str = ""

    def __str__(self) -> str:
        return self.text


class SeenSettings(NamedTuple):
    """The settings of a route, as a server shows them."""

    table: View

    def to_table(self) -> View:
        """Return them."""
        return self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRoute:
    """A route, as a server shows it: what it is called and what it consists of. It cannot be run."""

    name: str
    application: str
    source: SeenPart
    filters: tuple[SeenPart, ...]
    sender: SeenPart
    settings: SeenSettings


class RemoteRoutes:
    """The routes behind a server.

    Args:
        broker: the queues there.
    """

    def __init__(self, broker: RemoteBroker) -> None:
        self.broker = broker
        self.ledger = self
        self._removed: dict[tuple[str, str], RouteInfo] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        pass

    def __getattr__(self, name: str) -> NoReturn:
        raise NotSupported(WITHOUT_DATABASE, f"this command ({name}); give the URL of the database: --url")

    # --- looking

    async def find(self, application: str | None = None) -> list[RouteInfo]:
        """Return the routes of an application, or all."""
        return [_info(each) for each in await self.broker.server.get("/routes", application=application)]

    async def show(self, name: str, application: str) -> RouteInfo:
        """Return a route; one that was removed a moment ago as it was then."""
        if (application, name) in self._removed:
            return self._removed[application, name]
        return _info(await self.broker.server.get(f"/routes/{quoted(name)}", application=application))

    async def history(self, name: str, application: str) -> list[View]:
        """Return what a route has been, the newest first, as views."""
        found: View = await self.broker.server.get(f"/routes/{quoted(name)}", application=application)
        return list(found["history"])

    async def routes(self) -> list["_Named"]:
        """Return the names of all routes. The server itself ends those that are on their way out."""
        return [_Named(each["application"], each["name"]) for each in await self.broker.server.get("/routes")]

    # --- changing

    async def pause(self, name: str, application: str, *, reason: str = "") -> None:
        """Stop delivering on a route."""
        await self._change("POST", name, "/pause", application, {"reason": reason})

    async def resume(self, name: str, application: str) -> None:
        """Deliver again on a route."""
        await self._change("POST", name, "/resume", application)

    async def drain(self, name: str, application: str, *, within: float | None = None) -> None:
        """Give a route no more events."""
        await self._change("POST", name, "/drain", application, {"within": within})

    async def remove(self, name: str, application: str) -> None:
        """Remove a route now."""
        await self._change("DELETE", name, "", application)

    async def _change(self, method: str, name: str, verb: str, application: str, body: View | None = None) -> None:
        path = f"/routes/{quoted(name)}{verb}?application={quoted(application)}"
        info = _info(await self.broker.server.send(method, path, body))
        if info.state == "removed":
            self._removed[application, name] = info


class _Named(NamedTuple):
    application: str
    name: str
    state: str = ""


def _info(view: View) -> RouteInfo:
    return record(RouteInfo, {**view, "route": _seen(view), "queues": ()})


def _seen(view: View) -> Route:
    more: dict[str, Any] = {"delivery": view["delivery"], "guarantee": view["guarantee"]}
    seen = SeenRoute(
        name=view["name"],
        application=view["application"],
        source=SeenPart(**view["source"], **more),
        filters=tuple(SeenPart(**each) for each in view["filters"]),
        sender=SeenPart(**view["sender"]),
        settings=SeenSettings(view["settings"]),
    )
    return cast("Route", seen)
