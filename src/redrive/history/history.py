# SPDX-License-Identifier: MIT
"""The history as a program uses it."""

from collections.abc import Collection, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from redrive import duration
from redrive.broker import Broker, QueueInfo, tallies
from redrive.broker.port import Tallying, find_ability
from redrive.clock import utc
from redrive.history import metrics
from redrive.history.buckets import HOUR, LONGEST_S, MINUTE, Retention, began_at
from redrive.history.ledger import HistoryLedger, Line
from redrive.history.operation_samples import OperationSample
from redrive.history.rates import Rates
from redrive.history.series import Point, Series, SeriesQuestion, Span, filled, span_of
from redrive.history.workers import DestinationHealth, WorkerInfo, health_of, workers_of

_A_DAY_S = 24 * HOUR


class History:
    """What happened in a store, minute by minute. Made by ``redrive.open_history``; used with ``async with``.

    Args:
        broker: where the queues are; it must be open.
        ledger: where the history is kept.
    """

    def __init__(self, broker: Broker, ledger: HistoryLedger) -> None:
        self._broker = broker
        self._ledger = ledger

    async def __aenter__(self) -> Self:
        await self._ledger.open()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self._ledger.close()

    @property
    def broker(self) -> Broker:
        """Where the queues are."""
        return self._broker

    @property
    def ledger(self) -> HistoryLedger:
        """Where the history is kept, for code that reads it in other ways."""
        return self._ledger

    async def flush(self) -> None:
        """Store what this process has counted, so that it is seen at once; otherwise that takes about a second."""
        if (tallying := find_ability(self._broker.engine, Tallying)) is not None:
            await tallying.flush_tallies()

    async def series(
        self,
        metric: str,
        *,
        topic: str = tallies.QUEUE,
        name: str | None = None,
        span: duration.Duration = _A_DAY_S,
        step: duration.Duration | None = None,
    ) -> Series:
        """Return a number over time, a point for every step.

        Args:
            metric: what was counted (``sent``, ``completed``, ``failed``) or noted (``ready``, ``oldest_age``).
            topic: of what kind of thing: ``queue``, ``group``, ``route``, ``destination``, ``lane`` or ``call``.
            name: of which; None: of all of them together.
            span: how long back from now.
            step: how long a step is, in whole minutes; None: as fits the span.

        Raises:
            InvalidSetting: there is no such metric or topic, or the step does not fit.
        """
        now, retention = await self._ledger.moment()
        about, found, chosen = metrics.check_topic(topic), metrics.metric(metric), _span(span, step, now, retention)
        rows = await self._ledger.numbers(about, found.name, chosen.start, name)
        seen = await self._seen(chosen) if found.is_gauge else ()
        points = filled(chosen, found, rows, seen)
        return _series(chosen, points, metric=metric, topic=about, name=name)

    async def series_by_name(
        self,
        metric: str,
        *,
        topic: str = tallies.QUEUE,
        names: Sequence[str] | None = None,
        span: duration.Duration = _A_DAY_S,
        step: duration.Duration | None = None,
    ) -> dict[str, Series]:
        """Return a number over time for several things at once, by their names; of all that have any if none is given.

        Args:
            metric: what was counted or noted.
            topic: of what kind of thing.
            names: of which.
            span: how long back from now.
            step: how long a step is, in whole minutes; None: as fits the span.
        """
        question = SeriesQuestion(metric=metric, topic=topic, names=names, span=span, step=step)
        return (await self.series_of_all([question]))[0]

    async def series_of_all(self, questions: Sequence[SeriesQuestion]) -> list[dict[str, Series]]:
        """Return the answers of ``series_by_name`` to several questions, all as they are at one moment.

        Args:
            questions: the questions.
        """
        now, retention = await self._ledger.moment()
        asked = [_Asked.of(each, now, retention) for each in questions]
        start = min((each.span.start for each in asked if each.metric.is_gauge), default=None)
        lines = [each.line for each in asked]
        if start is not None:
            lines.append(Line(metrics.STORE, metrics.GAUGED, start, [""], MINUTE))
        answers = await self._ledger.lines(lines)
        noted = [] if start is None else [began for _, began, _ in answers.pop()]
        return [each.answered(rows, noted) for each, rows in zip(asked, answers, strict=True)]

    async def counted(
        self, metric: str, *, names: Sequence[str], topic: str = tallies.QUEUE, span: duration.Duration = _A_DAY_S
    ) -> dict[str, int]:
        """Return how much was counted of several things lately, by their names.

        Args:
            metric: what was counted.
            names: of which.
            topic: of what kind of thing.
            span: how long back from now; the minute in which that began counts as a whole.
        """
        about, found = metrics.check_topic(topic), metrics.metric(metric)
        seconds = duration.seconds("span", span, longest=LONGEST_S)
        start = began_at(await self._ledger.now() - seconds, MINUTE)
        sums = await self._ledger.sums(about, found.name, start, list(names))
        return {name: sums.get(name, 0) for name in names}

    async def counted_of_all(
        self, asked: Sequence[tuple[str, str]], *, span: duration.Duration = _A_DAY_S
    ) -> dict[tuple[str, str], int]:
        """Return how much was counted lately, of all things of a kind together.

        Args:
            asked: pairs of a topic and a metric.
            span: as for ``counted``.
        """
        checked = [(metrics.check_topic(topic), metrics.metric(metric).name) for topic, metric in asked]
        seconds = duration.seconds("span", span, longest=LONGEST_S)
        start = began_at(await self._ledger.now() - seconds, MINUTE)
        sums = await self._ledger.sums_of_all(sorted(set(checked)), start)
        return {each: sums.get(each, 0) for each in checked}

    async def rates(self, topic: str = tallies.QUEUE, *, span: duration.Duration = 5 * MINUTE) -> list[Rates]:
        """Return how much happened a minute, lately, to each thing to which something happened.

        Args:
            topic: what kind of thing.
            span: how long back from now; the minute that it is now counts in part.
        """
        seconds = duration.seconds("span", span, longest=LONGEST_S)
        now = await self._ledger.now()
        start = began_at(now - seconds, MINUTE)
        found: dict[str, dict[str, float]] = {}
        for name, metric, n in await self._ledger.totals(metrics.check_topic(topic), start, int(now) + 1):
            if metric not in metrics.GAUGES:
                found.setdefault(name, {})[metric] = n * MINUTE / max(1.0, now - start)
        return [Rates(name=name, per_minute=each) for name, each in sorted(found.items())]

    async def workers(self) -> list[WorkerInfo]:
        """Return the workers that are there, the oldest first; one that was killed is there for 20 seconds more."""
        return await self._ledger.workers()

    async def unread(self, *, span: duration.Duration = 10 * MINUTE) -> list[QueueInfo]:
        """Return the queues in which messages wait and none reads: no worker has a handler, and none was delivered.

        Args:
            span: for how long none was delivered.
        """
        seconds = duration.seconds("span", span, longest=LONGEST_S)
        now = await self._ledger.now()
        delivered = await self._ledger.last_counted(tallies.QUEUE, tallies.DELIVERED, began_at(now - seconds, MINUTE))
        workers = await self.workers()
        return [
            queue
            for queue in await self._broker.queues()
            if queue.ready and queue.name not in delivered and not workers_of(queue.name, workers)
        ]

    async def destination_health(self, queue: str, *, span: duration.Duration = 5 * MINUTE) -> DestinationHealth:
        """Return how a queue is doing that messages are to be sent to: who reads it, and what happens there a minute.

        Args:
            queue: the queue.
            span: over which time.
        """
        info = await self._broker.inspect(queue)
        found = {rates.name: rates.per_minute for rates in await self.rates(span=span)}
        return health_of(info, await self.workers(), found.get(queue, {}))

    async def destinations(
        self, queues: Iterable[str], *, span: duration.Duration = 5 * MINUTE
    ) -> list[DestinationHealth]:
        """Return how queues are doing, as ``destination_health`` does; those that do not exist are left out.

        Args:
            queues: the queues.
            span: over which time.
        """
        wanted = frozenset(queues)
        if not wanted:
            return []
        found = {rates.name: rates.per_minute for rates in await self.rates(span=span)}
        infos, workers = await self._broker.queues(), await self.workers()
        return [health_of(info, workers, found.get(info.name, {})) for info in infos if info.name in wanted]

    async def operation(self, number: int) -> list[OperationSample]:
        """Return what had become of the messages of an operation, every five seconds while that changed.

        The last one is what is so now: it is counted when it is asked for. The store of recovery must be that of the
        queues.
        """
        return await self._ledger.samples(number)

    async def retention(self) -> Retention:
        """Return how long the history is kept."""
        return await self._ledger.retention()

    async def keep(self, retention: Retention) -> None:
        """Say how long the history is kept from now on, by all processes."""
        await self._ledger.keep(retention)

    async def _seen(self, span: Span) -> list[int]:
        """Return the starts of the stored spans in which depths were noted."""
        return [began for began, _ in await self._ledger.numbers(metrics.STORE, metrics.GAUGED, span.start, "")]


class _Asked(NamedTuple):
    """A question about a number over time, and what the ledger is asked for it."""

    metric: metrics.Metric
    span: Span
    line: Line

    @classmethod
    def of(cls, question: SeriesQuestion, now: float, retention: Retention) -> "_Asked":
        topic, metric = metrics.check_topic(question.topic), metrics.metric(question.metric)
        span = _span(question.span, question.step, now, retention)
        names = None if question.names is None else list(question.names)
        return cls(metric, span, Line(topic, metric.name, span.start, names, span.step))

    def answered(self, rows: Iterable[tuple[str, int, int]], seen: Collection[int]) -> dict[str, Series]:
        """Return a series for each name; ``seen`` is when depths were noted."""
        by_name: dict[str, list[tuple[int, int]]] = {name: [] for name in self.line.names or ()}
        for name, began, n in rows:
            by_name.setdefault(name, []).append((began, n))
        noted = seen if self.metric.is_gauge else ()
        named = {"metric": self.metric.name, "topic": self.line.topic}
        return {
            name: _series(self.span, filled(self.span, self.metric, each, noted), **named, name=name)
            for name, each in sorted(by_name.items())
        }


def _span(span: duration.Duration, step: duration.Duration | None, now: float, retention: Retention) -> Span:
    seconds = duration.seconds("span", span, longest=LONGEST_S)
    wanted = None if step is None else duration.seconds("step", step, longest=LONGEST_S)
    return span_of(now, seconds, wanted, retention)


def _series(span: Span, points: tuple[Point, ...], *, metric: str, topic: str, name: str | None) -> Series:
    start, end = utc(span.start), utc(span.end)
    return Series(metric=metric, topic=topic, name=name, start=start, end=end, step_s=span.step, points=points)
