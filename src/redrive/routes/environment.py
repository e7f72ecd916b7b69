# SPDX-License-Identifier: MIT
"""What the parts of routes work with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from redrive.broker import Broker
from redrive.clock import Clock
from redrive.routes.ledger import RouteLedger
from redrive.telemetry import Event


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request whose body was read, decompressed and checked for its size.

    Attributes:
        method: in capitals.
        path: the path, without what stands behind a ``?``.
        headers: its headers, by their names in lower case.
        body: its body.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a request is answered with.

    Attributes:
        status: the status.
        body: JSON values.
        headers: more headers.
    """

    status: int
    body: object
    headers: tuple[tuple[str, str], ...] = ()


class HttpServer(Protocol):
    """The one HTTP server of a process, which all HTTP receivers share."""

    async def serve(
        self,
        path: str,
        methods: tuple[str, ...],
        answer: Callable[[HttpRequest], Awaitable[HttpAnswer]],
        max_bytes: int,
    ) -> None:
        """Answer the requests for a path until cancelled; what has begun by then is answered."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEnvironment:
    """What the parts of one route, or one receiver, work with.

    Attributes:
        application: whose they are.
        name: the name of the route or the receiver, for what is reported.
        broker: where the queues are.
        ledger: where routes keep what must survive a restart.
        clock: what waiting goes by.
        chance: where random numbers come from, 0 <= x < 1.
        report: takes events.
        http: the HTTP server.
    """

    application: str
    name: str
    broker: Broker
    ledger: RouteLedger
    clock: Clock
    chance: Callable[[], float]
    report: Callable[[Event], None]
    http: HttpServer
