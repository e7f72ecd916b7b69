# SPDX-License-Identifier: MIT
"""Levels that are noted once a minute: how deep queues are, and how old what is in them. Pure: no I/O, no clock."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from redrive.broker import QueueInfo, tallies
from redrive.history import metrics


class Gauge(NamedTuple):
    """A level at one moment."""

    topic: str
    name: str
    metric: str
    value: int


def gauges_of(queues: Iterable[QueueInfo], routes: Mapping[str, Sequence[str]], now: float) -> list[Gauge]:
    """Return what is noted about queues and routes.

    Args:
        queues: the queues.
        routes: the queues of each route, by its name.
        now: the time.
    """
    listed = list(queues)
    found = [gauge for queue in listed for gauge in _of_queue(queue, now)]
    by_name = {queue.name: queue for queue in listed}
    for route, names in routes.items():
        there = [by_name[name] for name in names if name in by_name]
        if there:
            lag = sum(queue.ready + queue.scheduled + queue.locked for queue in there)
            age = max(_age(queue, now) for queue in there)
            found.append(Gauge(tallies.ROUTE, route, metrics.LAG, lag))
            found.append(Gauge(tallies.ROUTE, route, metrics.OLDEST_AGE, age))
    return found


def _of_queue(queue: QueueInfo, now: float) -> list[Gauge]:
    levels = {
        metrics.READY: queue.ready,
        metrics.SCHEDULED: queue.scheduled,
        metrics.LOCKED: queue.locked,
        metrics.DEAD_LETTERS: queue.dead,
        metrics.OLDEST_AGE: _age(queue, now),
    }
    return [Gauge(tallies.QUEUE, queue.name, metric, value) for metric, value in levels.items()]


def _age(queue: QueueInfo, now: float) -> int:
    return 0 if queue.oldest_at is None else max(0, int(now - queue.oldest_at.timestamp()))
