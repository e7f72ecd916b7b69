# SPDX-License-Identifier: MIT
"""Handlers that hang: they go on although the worker has given up their messages."""

from collections.abc import Callable, Iterator
from types import CoroutineType
from typing import TYPE_CHECKING

from redrive.clock import Clock
from redrive.errors import HandlersHung
from redrive.telemetry import Event
from redrive.worker.events import HandlerHung
from redrive.worker.exception import place_of

if TYPE_CHECKING:
    from redrive.worker.handler import Handler
    from redrive.worker.held_message import HeldMessage

LATEST_END_S = 5.0
"""How long a handler that is cancelled, or has lost its lock, may take to end."""


class HungHandlers:
    """Counts and reports the hung handlers of one queue; if there are too many, the worker ends.

    Args:
        handler: the handler.
        clock: the clock.
        report: takes events.
        on_fatal: called with the error that ends the worker.
    """

    def __init__(
        self,
        handler: "Handler",
        clock: Clock,
        report: Callable[[Event], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._handler = handler
        self._clock = clock
        self._report = report
        self._on_fatal = on_fatal
        self._leases: set[HeldMessage] = set()

    def __iter__(self) -> "Iterator[HeldMessage]":
        return iter(self._leases)

    def add(self, lease: "HeldMessage") -> None:
        """Note that the handler of a message hangs."""
        self._leases.add(lease)
        running, hung, limit = self._clock.monotonic() - lease.began_at, len(self._leases), self._handler.most_hung
        name, queue = self._handler.name, self._handler.queue
        self._report(HandlerHung(queue, lease.id, name, _where(lease), running, hung, limit))
        if hung > limit:
            self._on_fatal(HandlersHung(queue, hung, limit))

    def discard(self, lease: "HeldMessage") -> None:
        """Note that the handler of a message has ended."""
        self._leases.discard(lease)


def _where(lease: "HeldMessage") -> str:
    if lease.thread is not None:
        return place_of(lease.thread)
    coroutine = None if lease.task is None else lease.task.get_coro()
    return place_of(coroutine) if isinstance(coroutine, CoroutineType) else ""
