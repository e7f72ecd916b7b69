# SPDX-License-Identifier: MIT
"""What both kinds of receiver work with."""

from collections.abc import Callable
from dataclasses import dataclass

from redrive.broker import Engine
from redrive.clock import Clock
from redrive.worker.lock_keeper import LockKeeper
from redrive.worker.reporter import Reporter
from redrive.worker.store_errors import StoreErrors


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSetup:
    """What a receiver of one queue works with.

    Attributes:
        queue: where the messages come from.
        engine: the engine that locks them.
        clock: the clock.
        lock_s: how long a lock lasts.
        store_errors: retries while the engine does not answer.
        reporter: reports a message whose lock ended before it was handed out.
        keeper: keeps the locks.
        wanted: returns how many messages there is room for.
        on_arrival: called when there is a message to hand out.
    """

    queue: str
    engine: Engine
    clock: Clock
    lock_s: float
    store_errors: StoreErrors
    reporter: Reporter
    keeper: LockKeeper
    wanted: Callable[[], int]
    on_arrival: Callable[[], None]
