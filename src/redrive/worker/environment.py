# SPDX-License-Identifier: MIT
"""What all handlers of a worker share."""

from collections.abc import Callable
from dataclasses import dataclass

from redrive.broker import Broker
from redrive.retry import Backoff
from redrive.telemetry import Event
from redrive.worker.store_errors import OnError


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnvironment:
    """What all handlers of a worker share.

    Attributes:
        broker: where the queues are.
        worker: the worker's name.
        host: the machine's name.
        chance: where random numbers come from.
        report: takes events.
        on_error: the program's own error handler.
        reconnect: what to do when the store does not answer.
        on_fatal: called with an error that ends the worker.
    """

    broker: Broker
    worker: str
    host: str
    chance: Callable[[], float]
    report: Callable[[Event], None]
    on_error: OnError | None
    reconnect: Backoff
    on_fatal: Callable[[BaseException], None]
