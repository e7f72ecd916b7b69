# SPDX-License-Identifier: MIT
"""The history as JSON: what the command line prints and what an HTTP API returns. Pure: no I/O, no clock.

A view is made of texts, numbers, booleans, None, lists and dicts. Times are texts in ISO 8601.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from redrive.history.buckets import Retention
from redrive.history.operation_samples import OperationSample, pace_of
from redrive.history.rates import Rates
from redrive.history.series import Series
from redrive.history.workers import DestinationHealth, WorkerInfo
from redrive.recovery import Progress

View: TypeAlias = dict[str, Any]

__all__ = [
    "health_view",
    "operation_series_view",
    "rates_view",
    "retention_view",
    "sample_view",
    "series_view",
    "worker_view",
]


def series_view(series: Series) -> View:
    """Return a number over time. The points are a list of numbers, from ``start`` on, one for each step."""
    return {
        "metric": series.metric,
        "topic": series.topic,
        "name": series.name,
        "start": series.start.isoformat(),
        "end": series.end.isoformat(),
        "step": series.step_s,
        "values": [point.value for point in series.points],
    }


def rates_view(rates: Rates) -> View:
    """Return how much happened to one thing a minute."""
    return {"name": rates.name, "per_minute": {name: round(each, 3) for name, each in rates.per_minute.items()}}


def worker_view(worker: WorkerInfo) -> View:
    """Return a worker."""
    times = {"since": worker.since.isoformat(), "seen_at": worker.seen_at.isoformat()}
    return {**asdict(worker), "queues": list(worker.queues), **times}


def health_view(health: DestinationHealth) -> View:
    """Return how a destination is doing."""
    return {**asdict(health), "is_read": health.is_read}


def sample_view(sample: OperationSample) -> View:
    """Return a sample of an operation."""
    lanes = {lane: {each.word: n for each, n in counts.items()} for lane, counts in sample.lanes.items()}
    return {"at": sample.at.isoformat(), "sent": sample.sent, "lanes": lanes}


def operation_series_view(number: int, samples: Sequence[OperationSample], progress: Progress) -> View:
    """Return an operation over time, and how fast it is."""
    shown = [sample_view(each) for each in samples]
    return {"number": number, "samples": shown, **asdict(pace_of(samples, progress.remaining))}


def retention_view(retention: Retention) -> View:
    """Return how long the history is kept, in seconds."""
    return asdict(retention)
