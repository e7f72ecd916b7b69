# SPDX-License-Identifier: MIT
"""The pipelines behind a server, as commands use them."""

from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NoReturn, Self, cast

from redrive.broker.views import View
from redrive.errors import NotSupported, PipelineNotFound, ProblemReported, TaskNotFound
from redrive.pipeline import (
    ActionInfo,
    DestinationInfo,
    LineageEdge,
    ShipmentInfo,
    StoredDestination,
    StoredPlan,
    TaskDetail,
    TaskInfo,
    TaskState,
    Timing,
    Trace,
)
from redrive.remote.broker import WITHOUT_DATABASE, RemoteBroker
from redrive.remote.connection import quoted
from redrive.remote.records import record, records


class SeenTiming:
    """When the next slot of a destination is, as a server says; more than that is not known here.

    Args:
        slot: the next slot.
    """

    def __init__(self, slot: datetime) -> None:
        self._slot = slot.timestamp()

    def next_after(self, at: float) -> float:
        """Return the next slot after an instant."""
        if at < self._slot:
            return self._slot
        raise NotSupported(WITHOUT_DATABASE, "slots; GET /api/v1/pipelines/{name}/destinations/{destination}/slots")


class RemotePipelines:
    """The pipelines behind a server.

    Args:
        broker: the queues there.
    """

    def __init__(self, broker: RemoteBroker) -> None:
        self._server = broker.server
        self._clock = broker.clock
        self.ledger = self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        pass

    def __getattr__(self, name: str) -> NoReturn:
        raise NotSupported(WITHOUT_DATABASE, f"this command ({name}); give the URL of the database: --url")

    # --- looking

    async def now(self) -> float:
        """Return the time."""
        return self._clock.time()

    async def names(self) -> list[str]:
        """Return the names of all pipelines."""
        return [each["name"] for each in await self._server.get("/pipelines")]

    async def plan_of(self, pipeline: str) -> StoredPlan:
        """Return what a pipeline is."""
        view = await self._pipeline(pipeline)
        made = {each["name"]: _destination(each) for each in view["destinations"]}
        return StoredPlan(name=view["name"], version=view["version"], settings=view["settings"], destinations=made)

    async def destinations(self, pipeline: str) -> list[DestinationInfo]:
        """Return what is stored of the destinations of a pipeline."""
        found = (await self._pipeline(pipeline))["destinations"]
        return records(DestinationInfo, [each for each in found if each.get("since") is not None])

    async def counts(self, pipeline: str) -> dict[tuple[str, str, TaskState], int]:
        """Return how many tasks there are, by stage, destination and state."""
        words = {each.word: each for each in TaskState}
        found = (await self._pipeline(pipeline))["tasks"]
        return {(each["stage"], each["destination"], words[each["state"]]): each["count"] for each in found}

    async def _pipeline(self, name: str) -> View:
        found: View = await self._asked(f"/pipelines/{quoted(name)}", PipelineNotFound(name))
        return found

    async def tasks(
        self,
        pipeline: str,
        *,
        destination: str | None = None,
        states: Sequence[TaskState] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> list[TaskInfo]:
        """Return tasks, the newest first."""
        if before is not None:
            raise NotSupported(WITHOUT_DATABASE, "--before; raise --limit instead")
        words = [each.word for each in states] or None
        path = f"/pipelines/{quoted(pipeline)}/tasks"
        return records(TaskInfo, await self._server.some(path, limit, destination=destination, state=words))

    async def stuck(self, pipeline: str | None = None, *, overdue: float = 900.0, limit: int = 100) -> list[TaskInfo]:
        """Return what should have been done a while ago, and what a person has to look at; the oldest first."""
        path = "/stuck" if pipeline is None else f"/pipelines/{quoted(pipeline)}/stuck"
        return records(TaskInfo, await self._server.get(path, overdue=overdue, limit=limit))

    async def history(self, pipeline: str | None = None, *, limit: int = 100) -> list[ActionInfo]:
        """Return what was done last, the newest first."""
        found: list[ActionInfo] = []
        for name in [pipeline] if pipeline is not None else await self.names():
            found += records(ActionInfo, await self._server.get(f"/pipelines/{quoted(name)}/history", limit=limit))
        return sorted(found, key=lambda each: -each.number)[:limit]

    async def show(self, task: str) -> TaskDetail:
        """Return a task with its shipments and its history."""
        view = await self._asked(f"/tasks/{quoted(task)}", TaskNotFound(task))
        shipments, history = records(ShipmentInfo, view["shipments"]), records(ActionInfo, view["history"])
        return TaskDetail(record(TaskInfo, view), tuple(shipments), tuple(history))

    async def shipments(self, task: str) -> list[ShipmentInfo]:
        """Return the shipments of a task."""
        return list((await self.show(task)).shipments)

    async def trace(self, item: str) -> Trace:
        """Return where an item, or all items of a task, have come from and gone to."""
        view = await self._asked(f"/tasks/{quoted(item)}/trace", TaskNotFound(item))
        edges = [
            LineageEdge(
                item=each["item"],
                parent=None if each["parent"] is None else _place(each["parent"]),
                child=_place(each["child"]),
                shipment=each["shipment"],
            )
            for each in view["steps"]
        ]
        return Trace(tuple(edges), tuple(records(TaskInfo, view["tasks"])))

    async def _asked(self, path: str, missing: Exception) -> Any:  # noqa: ANN401 - what JSON has
        try:
            return await self._server.get(path)
        except ProblemReported as problem:
            if problem.code == getattr(missing, "code", ""):
                raise missing from None
            raise

    # --- changes

    async def hold(self, pipeline: str, destination: str, *, actor: str = "", reason: str = "") -> None:
        """Let nothing be batched for a destination and sent to it."""
        path = f"/pipelines/{quoted(pipeline)}/destinations/{quoted(destination)}/hold"
        await self._server.send("POST", path, {"reason": reason})

    async def release(self, pipeline: str, destination: str, *, actor: str = "", reason: str = "") -> None:
        """Let a destination that was held go on."""
        path = f"/pipelines/{quoted(pipeline)}/destinations/{quoted(destination)}/release"
        await self._server.send("POST", path, {"reason": reason})

    async def resend(
        self, task: str, *, which: str = "failed", again: bool = False, actor: str = "", reason: str = ""
    ) -> TaskInfo:
        """Send a task again, or process it again."""
        return await self._changed(task, "resend", {"items": which, "again": again, "reason": reason})

    async def revive(self, task: str, *, actor: str = "", reason: str = "") -> TaskInfo:
        """Let a task wait for the next slot of its destination."""
        return await self._changed(task, "revive", {"reason": reason})

    async def resolve(
        self, task: str, items: Sequence[int], *, arrived: bool, actor: str = "", reason: str = ""
    ) -> TaskInfo:
        """Say what has become of shipments with an unknown outcome."""
        body = {"items": list(items), "arrived": arrived, "reason": reason}
        return await self._changed(task, "resolve", body)

    async def cancel(self, task: str, *, actor: str = "", reason: str = "") -> TaskInfo:
        """Let nothing more be done with a task."""
        return await self._changed(task, "cancel", {"reason": reason})

    async def _changed(self, task: str, verb: str, body: View) -> TaskInfo:
        return record(TaskInfo, await self._server.send("POST", f"/tasks/{quoted(task)}/{verb}", body))


def _destination(view: View) -> StoredDestination:
    slot = view["next_slot"]
    timing = None if slot is None else cast("Timing", SeenTiming(datetime.fromisoformat(slot)))
    return StoredDestination(
        name=view["name"],
        kind=view["kind"],
        transport=view["transport"],
        timing=timing,
        rule=view["timing"] or "",
        settings=view["settings"],
    )


def _place(value: Sequence[Any]) -> tuple[str, int]:
    return value[0], value[1]
