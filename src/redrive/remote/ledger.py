# SPDX-License-Identifier: MIT
"""The failed messages behind a server: the verbs of recovery's ledger that only look, as requests to the API."""

from collections.abc import Sequence
from typing import Any, Final, NoReturn

from redrive.broker.views import View
from redrive.clock import Clock
from redrive.errors import GroupNotFound, NotSupported, ProblemReported
from redrive.recovery import (
    AuditEntry,
    DryRun,
    FailedDetail,
    FailedMessage,
    Filter,
    Found,
    GroupInfo,
    GroupState,
    LaneInfo,
    Note,
    Operation,
    Order,
    Outcome,
    Part,
    Place,
    Plan,
    ServiceInfo,
    SetAside,
    Status,
    TrailFilter,
)
from redrive.remote.broker import WITHOUT_DATABASE
from redrive.remote.connection import ServerConnection, quoted
from redrive.remote.records import detail, operation, record, records, set_aside

_START: Final = Place(0)


def filter_text(chosen: Filter) -> str:
    """Return a filter as the API takes it; none would match everything that is unresolved, and is spelled out."""
    return str(chosen) or "status:unresolved"


def request_body(plan: Plan) -> View:
    """Return what a plan asks for, as the API takes it."""
    how = plan.settings_to_json()
    if "not_before" in how:
        how["at"] = how.pop("not_before")
    return {"kind": plan.kind.value, "filter": filter_text(plan.filter), **how}


class RemoteLedger:
    """What can be seen of the failed messages behind a server.

    Args:
        server: the server.
        clock: tells the time from which ages are counted.
    """

    def __init__(self, server: ServerConnection, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def __getattr__(self, name: str) -> NoReturn:
        raise NotSupported(WITHOUT_DATABASE, f"this command ({name}); give the URL of the database: --url")

    async def now(self) -> float:
        """Return the time."""
        return self._clock.time()

    # --- failed messages

    async def find(
        self, chosen: Filter, *, after: Place = _START, limit: int = 100, order: Order = Order.OLDEST, **more: Any
    ) -> list[FailedMessage]:
        """Return failed messages."""
        place = str(after) if after.number else None
        found = await self._server.some(
            "/failures", limit, q=filter_text(chosen), after=place, order=order.value, **more
        )
        return records(FailedMessage, found)

    async def search(
        self, chosen: Filter, *, after: Place = _START, limit: int = 100, order: Order = Order.OLDEST, part: int = 0
    ) -> Found:
        """Return failed messages that contain a text; the server looks through all of them, page by page."""
        found = await self.find(chosen, after=after, limit=limit, order=order)
        return Found(found, found[-1].place if found else after, is_over=len(found) < limit)

    async def count(self, chosen: Filter, *, most: int | None = None) -> int:
        """Count failed messages."""
        exact = True if most is None else None
        found: int = (await self._server.get("/failures/count", q=filter_text(chosen), exact=exact))["count"]
        return found

    async def count_by_status(self, chosen: Filter) -> dict[Status, int]:
        """Count failed messages of each status."""
        found = await self._server.get("/failures/statuses", q=filter_text(chosen))
        return {status: found[status.word] for status in Status if status.word in found}

    async def groups(
        self,
        classifier: str,
        chosen: Filter,
        *,
        after: str | None = None,
        limit: int = 100,
        largest_first: bool = False,
    ) -> list[GroupInfo]:
        """Return groups."""
        order = "largest" if largest_first else "id"
        found = await self._server.some(
            "/groups", limit, q=filter_text(chosen), by=classifier, order=order, after=after
        )
        return records(GroupInfo, found)

    async def group_state(self, id: str) -> GroupState:  # noqa: A002 - it is called that everywhere
        """Return what people decided about a group."""
        found = record(GroupInfo, await self._server.get(f"/groups/{quoted(id)}"))
        if found.state is None:
            raise GroupNotFound(id)
        return found.state

    async def show(self, id: str) -> FailedDetail | None:  # noqa: A002 - it is called that everywhere
        """Return everything about a failed message; None if there is none."""
        try:
            return detail(await self._server.get(f"/failures/{quoted(id)}"))
        except ProblemReported as problem:
            if problem.code == "failure-not-found":
                return None
            raise

    async def aside(self, *, after: int = 0, limit: int = 100) -> list[SetAside]:
        """Return messages that could not be read."""
        found = await self._server.some("/asides", limit, after=after or None)
        return [set_aside(each) for each in found]

    async def dry_run(self, plan: Plan) -> DryRun:
        """Say what an operation would find."""
        return record(DryRun, await self._server.send("POST", "/dry-runs", request_body(plan)))

    # --- operations

    async def operations(
        self, *, is_open: bool | None = None, before: int | None = None, limit: int = 50
    ) -> list[Operation]:
        """Return operations, the newest first."""
        found = await self._server.some("/operations", limit, open=is_open, before=before)
        return [operation(each) for each in found]

    async def operation(self, number: int, *, newcomers: bool = False) -> Operation:
        """Return an operation."""
        return operation(await self._server.get(f"/operations/{number}"))

    async def parts(
        self, number: int, outcomes: Sequence[Outcome] = (), *, after: int = 0, limit: int = 100
    ) -> list[Part]:
        """Return the messages of an operation."""
        words = [each.word for each in outcomes] or None
        found = await self._server.some(f"/operations/{number}/outcomes", limit, outcome=words, after=after or None)
        return records(Part, found)

    async def lanes(self) -> list[LaneInfo]:
        """Return the lanes."""
        return records(LaneInfo, await self._server.get("/lanes"))

    async def services(self) -> list[ServiceInfo]:
        """Return the processes that serve."""
        return records(ServiceInfo, await self._server.get("/services"))

    async def requested(self, key: str) -> Operation | None:
        """Return the operation that was requested with a key."""
        return next((operation(each) for each in await self._server.get("/operations", key=key)), None)

    async def redirects(self) -> dict[str, str]:
        """Return where failed messages go instead of the queue they failed in."""
        return {each["from"]: each["to"] for each in await self._server.get("/redirects")}

    async def notes(self, subject: str) -> list[Note]:
        """Return the notes about something."""
        return records(Note, await self._server.get("/notes", subject=subject))

    async def trail(self, wanted: TrailFilter, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """Return entries of the audit trail, the newest first."""
        times = {"since": wanted.since, "until": wanted.until}
        asked = {name: None if at is None else at.isoformat() for name, at in times.items()}
        names = {"subject": wanted.subject, "actor": wanted.actor, "action": wanted.action}
        return records(AuditEntry, await self._server.some("/audit", limit, before=before, **names, **asked))
