# SPDX-License-Identifier: MIT
"""Recovery behind a server, as a command uses it: the same methods, and the server does the work."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, cast

from redrive import duration
from redrive.broker.views import View
from redrive.clock import utc
from redrive.errors import InvalidSetting, NotSupported
from redrive.recovery import Chosen, Filter, GroupState, Kind, Note, Operation, Plan, Preview, Reader, Transform
from redrive.remote.broker import WITHOUT_DATABASE, RemoteBroker
from redrive.remote.connection import ServerConnection, quoted
from redrive.remote.ledger import RemoteLedger, filter_text, request_body
from redrive.remote.records import operation, record, records

if TYPE_CHECKING:
    from redrive.broker import Broker
    from redrive.recovery import Ledger


class RemoteRecovery(Reader):
    """Failed messages behind a server, and what is done about them. The server knows who asks by the token.

    Args:
        server: the server.
        broker: its queues.
    """

    session = ""
    """No process of the ledger: nothing is done here."""

    def __init__(self, server: ServerConnection, broker: RemoteBroker) -> None:
        ledger = RemoteLedger(server, broker.clock)
        super().__init__(cast("Broker", broker), cast("Ledger", ledger))
        self._server = server
        self._stopped = asyncio.Event()
        self.ledger = ledger

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotSupported(WITHOUT_DATABASE, f"this command ({name}); give the URL of the database: --url")

    async def _off_routes(self, wanted: Filter) -> Filter:
        return wanted  # the server knows its routes

    # --- the work, which is the server's

    async def run(self) -> None:
        """Wait until ``stop`` is called."""
        await self._stopped.wait()

    def stop(self) -> None:
        """Let ``run`` come to an end."""
        self._stopped.set()

    # --- requesting

    async def recover(self, chosen: Chosen, **how: Any) -> Operation:
        """Request that messages are sent to where they failed."""
        who, settings = _split(how)
        return await self._request(Kind.RECOVER, chosen, settings, who)

    async def archive(self, chosen: Chosen, *, limit: int | None = None, **who: Any) -> Operation:
        """Request that messages are archived."""
        return await self._request(Kind.ARCHIVE, chosen, {"limit": limit}, who)

    async def restore(self, chosen: Chosen, *, limit: int | None = None, **who: Any) -> Operation:
        """Request that messages are made unresolved again."""
        return await self._request(Kind.RESTORE, chosen, {"limit": limit}, who)

    async def resolve(self, chosen: Chosen, *, limit: int | None = None, **who: Any) -> Operation:
        """Request that messages are marked as resolved."""
        return await self._request(Kind.RESOLVE, chosen, {"limit": limit}, who)

    async def edit(self, id: str, transform: Transform, **who: Any) -> Operation:  # noqa: A002 - as in show
        """Request that an edited copy of a failed message is sent."""
        body = {"transform": transform.to_json(), "reason": who.get("reason", "")}
        return operation(await self._server.send("POST", f"/failures/{quoted(id)}/edit", body, key=who.get("key")))

    async def _request(self, kind: Kind, chosen: Chosen, settings: View, who: View) -> Operation:
        if isinstance(chosen, str) and not chosen.strip():
            raise InvalidSetting("chosen", chosen, "must say which messages")
        plan, malformed = await self._plan(chosen, settings)
        body = request_body(plan if kind is Kind.RECOVER else Plan(kind=kind, filter=plan.filter, limit=plan.limit))
        if not isinstance(chosen, str | Filter):
            del body["filter"]
            body["ids"] = [*plan.filter.ids, *malformed]
        body["reason"] = who.get("reason", "")
        return operation(await self._server.send("POST", "/operations", body, key=who.get("key")))

    async def preview(self, chosen: Chosen, transform: Transform, *, sample: int = 5) -> list[Preview]:
        """Say what a transform would do to the first few messages; the server tries it."""
        wanted = await self.settled(chosen)
        body = {"filter": filter_text(wanted), "transform": transform.to_json(), "sample": sample}
        return records(Preview, (await self._server.send("POST", "/previews", body))["previews"])

    # --- operations

    async def pause(self, number: int, *, actor: str = "", reason: str = "") -> Operation:
        """Stop sending for now."""
        return await self._change(number, "pause", reason)

    async def resume(self, number: int, *, actor: str = "", reason: str = "") -> Operation:
        """Go on with an operation that was paused."""
        return await self._change(number, "resume", reason)

    async def cancel(self, number: int, *, actor: str = "", reason: str = "") -> Operation:
        """Cancel an operation."""
        return await self._change(number, "cancel", reason)

    async def acknowledge(self, number: int, *, actor: str = "") -> None:
        """Note that a person has seen how an operation ended."""
        await self._server.send("POST", f"/operations/{number}/acknowledge")

    async def set_rate(self, number: int, rate: float | None, *, actor: str = "") -> Operation:
        """Change how fast an operation sends."""
        return operation(await self._server.send("PATCH", f"/operations/{number}", {"rate": rate}))

    async def _change(self, number: int, verb: str, reason: str) -> Operation:
        return operation(await self._server.send("POST", f"/operations/{number}/{verb}", {"reason": reason}))

    # --- redirects, notes, what could not be read

    async def redirect(self, queue: str, to: str | None, *, actor: str = "") -> None:
        """Send failed messages of a queue to another from now on, or no longer (None)."""
        path = f"/redirects/{quoted(queue)}"
        if to is None:
            await self._server.send("DELETE", path)
        else:
            await self._server.send("PUT", path, {"to": to})

    async def note(self, subject: str, text: str, *, actor: str = "") -> Note:
        """Write a note."""
        return record(Note, await self._server.send("POST", "/notes", {"subject": subject, "text": text}))

    async def set_group_state(self, id: str, **change: Any) -> GroupState:  # noqa: A002 - as in show
        """Decide who takes care of a group, and until when it needs no person."""
        body = {name: value for name, value in change.items() if name != "actor"}
        if body.get("snoozed_until") is not None:
            until = body["snoozed_until"]
            if not isinstance(until, datetime):
                until = utc(await self._ledger.now() + duration.seconds("snoozed_until", until))
            body["snoozed_until"] = until.isoformat()
        return record(GroupState, await self._server.send("PUT", f"/groups/{quoted(id)}/state", body))

    async def drop_note(self, number: int, *, actor: str = "") -> None:
        """Remove a note."""
        await self._server.send("DELETE", f"/notes/{number}")

    async def sweep(self, keep: float, *, actor: str = "") -> int:
        """Delete what was settled longer ago than that; return how many there were."""
        deleted: int = (await self._server.send("POST", "/sweep", {"older_than": keep}))["deleted"]
        return deleted

    async def reimport(self, *, queue: str | None = None, actor: str = "") -> tuple[int, int]:
        """Read again what was set aside; return how many could be read, and how many still cannot."""
        found = await self._server.send("POST", "/asides/reimport", {"queue": queue})
        return found["read"], found["left"]


def _split(how: View) -> tuple[View, View]:
    """Return who asks for something, and how it is to be done."""
    names = ("actor", "reason", "key")
    return (
        {name: value for name, value in how.items() if name in names},
        {name: value for name, value in how.items() if name not in names},
    )
