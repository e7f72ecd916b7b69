# SPDX-License-Identifier: MIT
"""What the parts of routes work with."""

from collections.abc import Callable
from dataclasses import dataclass

from redrive.broker import Broker
from redrive.clock import Clock
from redrive.http import HttpServer
from redrive.routes.ledger import RouteLedger
from redrive.telemetry import Event


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
