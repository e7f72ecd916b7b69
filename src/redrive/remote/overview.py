# SPDX-License-Identifier: MIT
"""What happened behind a server, and what needs a person there, as commands ask for it."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, NoReturn, Self

from redrive.attention import AttentionItem, Figures
from redrive.broker import QueueInfo
from redrive.broker.views import View
from redrive.errors import InvalidSetting, JourneyNotFound, NotSupported, ProblemReported
from redrive.history import DestinationHealth, Point, Series, WorkerInfo, health_of
from redrive.journey import Journey
from redrive.remote.broker import WITHOUT_DATABASE, RemoteBroker
from redrive.remote.connection import quoted
from redrive.remote.records import record, records


class _RemoteFacade:
    """A facade behind a server; nothing has to be opened or closed.

    Args:
        broker: the queues there.
    """

    def __init__(self, broker: RemoteBroker) -> None:
        self._broker = broker
        self._server = broker.server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        pass

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotSupported(WITHOUT_DATABASE, f"this command ({name}); give the URL of the database: --url")


class RemoteHistory(_RemoteFacade):
    """The history behind a server."""

    async def series_by_name(
        self,
        metric: str,
        *,
        topic: str = "queue",
        names: Sequence[str] | None = None,
        span: float = 86_400.0,
        step: float | None = None,
    ) -> dict[str, Series]:
        """Return a number over time for several things at once, by their names."""
        asked = {"metric": metric, "topic": topic, "name": list(names or ()) or None, "span": span, "step": step}
        return {each["name"]: _series(each) for each in await self._server.get("/series", **asked)}

    async def destinations(self, queues: Iterable[str], *, span: float = 300.0) -> list[DestinationHealth]:
        """Return how queues are doing."""
        wanted = sorted(set(queues))
        if not wanted:
            return []
        rates: dict[str, dict[str, float]] = {}
        for metric in ("sent", "completed", "failed", "dead"):
            for name, series in (await self.series_by_name(metric, names=wanted, span=span, step=60)).items():
                rates.setdefault(name, {})[metric] = series.total * 60 / span
        infos, workers = await self._broker.queues(), await self.workers()
        return [health_of(info, workers, rates.get(info.name, {})) for info in infos if info.name in wanted]

    async def workers(self) -> list[WorkerInfo]:
        """Return the workers that are there."""
        return records(WorkerInfo, (await self._server.get("/workers"))["workers"])

    async def unread(self) -> list[QueueInfo]:
        """Return the queues in which messages wait and none reads."""
        names = set((await self._server.get("/workers"))["unread"])
        return [each for each in await self._broker.queues() if each.name in names] if names else []


def _series(view: View) -> Series:
    points = {"points": (), "step_s": view["step"]}
    empty = record(Series, {**view, **points})
    step = timedelta(seconds=empty.step_s)
    filled = tuple(Point(empty.start + number * step, value) for number, value in enumerate(view["values"]))
    return record(Series, {**view, **points, "points": filled})


class RemoteAttention(_RemoteFacade):
    """What needs a person behind a server."""

    async def items(self) -> list[AttentionItem]:
        """Return what needs a person, the most urgent first."""
        return records(AttentionItem, (await self._server.get("/attention"))["attention"])

    async def figures(self) -> Figures:
        """Return the figures of an overview."""
        return record(Figures, await self._server.get("/figures"))


class RemoteJourneys(_RemoteFacade):
    """The journeys of the messages behind a server."""

    async def find(self, id: str) -> Journey:  # noqa: A002 - as in Journeys
        """Return the journey of a message.

        Raises:
            JourneyNotFound: there is no record of it.
        """
        if not id:
            raise InvalidSetting("id", id, "must be the id of a message")
        try:
            view: dict[str, Any] = await self._server.get(f"/journeys/{quoted(id)}")
        except ProblemReported as problem:
            if problem.code == "journey-not-found":
                raise JourneyNotFound(id) from None
            raise
        return record(Journey, {**view, "parts": [{**each, "node": each["node"] or ""} for each in view["parts"]]})
