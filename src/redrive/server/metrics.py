# SPDX-License-Identifier: MIT
"""Metrics for Prometheus: counts of queues and failures when they are asked for, and the process's telemetry events.

The number of time series is bounded, whatever queues and routes there are: a metric has at most ``_MOST_SERIES`` sets
of labels, and everything beyond them is counted under ``other``.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from redrive import __version__
from redrive.broker import QueueInfo, is_own_queue
from redrive.broker.views import View
from redrive.clock import Clock
from redrive.errors import RedriveError
from redrive.http.listener import AsgiApp, Packet, Receive, Send
from redrive.recovery import Filter
from redrive.server.desk import Desk
from redrive.server.event_tally import event_kinds, labels_of, seconds_of
from redrive.server.topics import TopicHub
from redrive.telemetry import Event

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OTHER: Final = "other"

_MOST_SERIES: Final = 200
_STATES: Final = ("ready", "scheduled", "locked", "deferred", "dead")
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 3_600.0)
_KEPT_S: Final = 5.0


def counter_name(kind: type[Event]) -> str:
    """Return the name of the metric that counts an event, without ``_total``."""
    return kind.name.replace(".", "_")


def _counter(kind: type[Event], registry: CollectorRegistry) -> Counter:
    return Counter(counter_name(kind), f"{kind.__name__} events of this process", kind.labels, registry=registry)


def _histogram(kind: type[Event], field: str, name: str, registry: CollectorRegistry) -> Histogram:
    metric, text = f"{name.replace('.', '_')}_seconds", f"{field} of {kind.__name__} events"
    return Histogram(metric, text, kind.labels, buckets=_SECONDS, registry=registry)


class Bounded:
    """Sets of labels of which there are not too many.

    Args:
        names: the names of the labels.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._seen: set[tuple[str, ...]] = set()

    def values(self, values: Iterable[object]) -> tuple[str, ...]:
        """Return the labels, or ``other`` for each if there are too many sets already."""
        found = tuple(str(each) for each in values)
        if found in self._seen or len(self._seen) < _MOST_SERIES:
            self._seen.add(found)
            return found
        return (OTHER,) * len(self.names)


class Metrics:
    """The metrics of one process.

    Args:
        clock: where time comes from.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made_at: float | None = None
        self._asking = asyncio.Lock()
        self.registry = registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        Info("redrive_build", "The version that runs", registry=registry).info({"version": __version__})
        self._kinds = frozenset(event_kinds())
        self._events = {kind.name: (_counter(kind, registry), Bounded(kind.labels)) for kind in self._kinds}
        self._histograms = {
            (kind.name, field): _histogram(kind, field, name, registry)
            for kind in self._kinds
            for field, name in kind.histograms.items()
        }
        self.requests = Histogram(
            "redrive_server_request_seconds",
            "Requests over HTTP, by endpoint and status",
            ("method", "endpoint", "status"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.streams = Gauge("redrive_server_event_streams", "Streams of events that are open", registry=registry)
        self._is_up = Gauge("redrive_store_up", "Whether the store answers", registry=registry)
        self._queues = Gauge("redrive_queue_messages", "Messages by state", ("queue", "state"), registry=registry)
        age = "Age of the oldest message that is ready"
        self._oldest = Gauge("redrive_queue_oldest_seconds", age, ("queue",), registry=registry)
        self._failures = Gauge("redrive_failures_unresolved", "Failed messages that are unresolved", registry=registry)
        self._operations = Gauge("redrive_operations_open", "Operations that are not over", registry=registry)
        self._routes = Gauge("redrive_routes", "Stored routes by state", ("state",), registry=registry)

    def note(self, event: Event) -> None:
        """Count an event."""
        if type(event) in self._kinds:
            labels = labels_of(event)
            self._count(event.name, labels, 1)
            for field, seconds in seconds_of(event):
                self._observe(event.name, field, labels, [seconds])

    def add(self, tally: View) -> None:
        """Count the events of another process.

        Args:
            tally: what ``EventTally.take`` returned there.
        """
        for name, labels, times in tally["counts"]:
            self._count(name, labels, times)
        for name, field, labels, seconds in tally["seconds"]:
            self._observe(name, field, labels, seconds)

    def _count(self, name: str, labels: Sequence[str], times: int) -> None:
        counter, bounded = self._events[name]
        found = bounded.values(labels)
        (counter.labels(*found) if found else counter).inc(times)

    def _observe(self, name: str, field: str, labels: Sequence[str], seconds: Sequence[float]) -> None:
        found = self._events[name][1].values(labels)
        histogram = self._histograms[name, field]
        for each in seconds:
            (histogram.labels(*found) if found else histogram).observe(each)

    async def text(self, desk: Desk, topics: TopicHub) -> bytes:
        """Return all metrics; the store is asked every five seconds at most, however many ask."""
        async with self._asking:
            if self._made_at is None or self._clock.monotonic() - self._made_at >= _KEPT_S:
                await self._ask(desk)
                self._made_at = self._clock.monotonic()
        self.streams.set(topics.streams)
        return generate_latest(self.registry)

    async def _ask(self, desk: Desk) -> None:
        try:
            self._note_queues(await desk.broker.queues())
            self._failures.set(await desk.recovery.count(Filter()))
            self._operations.set(len(await desk.recovery.operations(is_open=True, limit=1_000)))
            states = [each.state for each in await desk.routes.ledger.routes()]
        except RedriveError:
            self._is_up.set(0)  # the figures stay as they were
            return
        self._is_up.set(1)
        self._routes.clear()
        for state in set(states):
            self._routes.labels(state).set(states.count(state))

    def _note_queues(self, queues: Sequence[QueueInfo]) -> None:
        """Set the figures of the fullest queues, and the sum of all others."""
        shown = sorted((each for each in queues if not is_own_queue(each.name)), key=_fullness, reverse=True)
        self._queues.clear()
        self._oldest.clear()
        now = self._clock.time()
        for number, queue in enumerate(shown):
            name = queue.name if number < _MOST_SERIES else OTHER
            for state in _STATES:
                self._queues.labels(name, state).inc(getattr(queue, state))
            if queue.oldest_at is not None and name != OTHER:
                self._oldest.labels(name).set(max(0.0, now - queue.oldest_at.timestamp()))


def _fullness(queue: QueueInfo) -> int:
    return sum(getattr(queue, state) for state in _STATES)


class Measured:
    """Measures how long requests take, by endpoint.

    Args:
        app: what comes next.
        metrics: where they are counted.
        clock: what they are measured by.
    """

    def __init__(self, app: AsgiApp, metrics: Metrics, clock: Clock) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Packet, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = self._clock.monotonic(), "500"

        async def noting(packet: Packet) -> None:
            nonlocal status
            if packet["type"] == "http.response.start":
                status = str(packet["status"])
            await send(packet)

        try:
            await self._app(scope, receive, noting)
        finally:
            endpoint = getattr(scope.get("route"), "path_format", OTHER)
            if endpoint != "/api/v1/events":  # a stream takes as long as it takes
                method = scope["method"] if scope["method"] in _METHODS else OTHER
                self._metrics.requests.labels(method, endpoint, status).observe(self._clock.monotonic() - began)


_METHODS: Final = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


def observer(*observers: Callable[[Event], object]) -> Callable[[Event], None]:
    """Return a function that gives an event to several."""

    def observe(event: Event) -> None:
        for each in observers:
            each(event)

    return observe
