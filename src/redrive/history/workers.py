# SPDX-License-Identifier: MIT
"""Who handles messages, and whether a queue is looked after. Pure: no I/O, no clock."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from redrive.broker import QueueInfo
from redrive.broker.port import WorkerReport


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo(WorkerReport):
    """A worker, as it was when it was last heard of.

    Attributes:
        since: when it was first heard of.
        seen_at: when it was last heard of.
    """

    since: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationHealth:
    """How a queue is doing that messages are to be sent to.

    Attributes:
        queue: the queue.
        workers: how many workers have a handler for it.
        concurrency: how many messages those handle at a time.
        in_flight: how many they are handling.
        p95_s: the slowest of their times for 95 of 100 messages.
        ready: how many messages wait.
        sent_per_minute: how many came in a minute, lately.
        completed_per_minute: how many were completed.
        failed_per_minute: how many failed for good.
    """

    queue: str
    workers: int
    concurrency: int
    in_flight: int
    p95_s: float | None
    ready: int
    sent_per_minute: float
    completed_per_minute: float
    failed_per_minute: float

    @property
    def is_read(self) -> bool:
        """Whether a worker has a handler for it, or something was completed lately."""
        return self.workers > 0 or self.completed_per_minute > 0


def workers_of(queue: str, workers: Iterable[WorkerInfo]) -> list[WorkerInfo]:
    """Return the workers that have a handler for a queue."""
    return [worker for worker in workers if queue in worker.queues]


def health_of(queue: QueueInfo, workers: Sequence[WorkerInfo], per_minute: Mapping[str, float]) -> DestinationHealth:
    """Return how a queue is doing.

    Args:
        queue: the queue.
        workers: all workers.
        per_minute: what happened there a minute, by metric.
    """
    here = workers_of(queue.name, workers)
    times = [worker.p95_s for worker in here if worker.p95_s is not None]
    return DestinationHealth(
        queue=queue.name,
        workers=len(here),
        concurrency=sum(worker.concurrency for worker in here),
        in_flight=sum(worker.in_flight for worker in here),
        p95_s=max(times, default=None),
        ready=queue.ready,
        sent_per_minute=per_minute.get("sent", 0.0),
        completed_per_minute=per_minute.get("completed", 0.0),
        failed_per_minute=per_minute.get("failed", 0.0) + per_minute.get("dead", 0.0),
    )
