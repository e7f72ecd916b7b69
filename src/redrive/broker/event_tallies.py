# SPDX-License-Identifier: MIT
"""Counts for the history what other layers report as events."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from redrive.broker import tallies
from redrive.broker.broker import Broker
from redrive.broker.port import Tallying, find_ability
from redrive.retry.events import AttemptFailed, RetryGaveUp
from redrive.telemetry import Event, observed_by


@contextmanager
def counting_calls(broker: Broker) -> Generator[None]:
    """Count the retries of all calls that are made inside a ``with`` block, and in tasks that it begins.

    A worker does so for its handlers. It needs an event loop; calls in other threads are counted, too, if these have
    the context of the block.

    Args:
        broker: where the history is; if it keeps none, nothing is counted.
    """
    store = find_ability(broker.engine, Tallying)
    if store is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def count(event: Event) -> None:
        if (key := key_of(event)) is not None:
            with suppress(RuntimeError):  # the loop is closed, and so is the store
                loop.call_soon_threadsafe(store.tally, {key: 1})

    with observed_by(count):
        yield


def counted(
    report: Callable[[Event], None], broker: Broker, key_of: Callable[[Event], tallies.Key | None]
) -> Callable[[Event], None]:
    """Return a function that reports an event, and counts it.

    Args:
        report: reports an event.
        broker: where the history is; if it keeps none, nothing is counted.
        key_of: returns what an event counts as, if it does.
    """

    def both(event: Event) -> None:
        report(event)
        if (key := key_of(event)) is not None and broker.is_open:
            store = find_ability(broker.engine, Tallying)
            if store is not None:
                store.tally({key: 1})

    return both


def key_of(event: Event) -> tallies.Key | None:
    """Return what an event of layer 1 counts as, if it does."""
    if isinstance(event, AttemptFailed) and event.iteration_sleep is not None:
        return tallies.CALL, event.operation, tallies.RETRIED
    if isinstance(event, RetryGaveUp):
        return tallies.CALL, event.operation, tallies.FAILED
    return None
