# SPDX-License-Identifier: MIT
"""What people write down about failures, and the upkeep of the store: the part of recovery that sends nothing."""

from collections.abc import Coroutine, Mapping
from datetime import datetime
from typing import Any, TypeVar, Unpack

from redrive import duration
from redrive.clock import utc
from redrive.errors import InvalidSetting, MessageError, UsageError
from redrive.recovery.filter_values import check_instant
from redrive.recovery.group_state import GroupChange, GroupState, check_change
from redrive.recovery.queries import Reader
from redrive.recovery.records import AuditEntry, CountDifference, Note, check_words, storable
from redrive.recovery.settings import check_known

T = TypeVar("T")


class Bookkeeper(Reader):
    """What can be written down about failed messages and operations; every change is in the audit trail."""

    # --- redirects, notes, the audit trail

    async def redirect(self, queue: str, to: str | None, *, actor: str = "") -> None:
        """Send failed messages of a queue to another from now on, or no longer (None).

        Raises:
            QueueNotFound: the other queue is not declared.
            RedirectRefused: it would make a chain, or there is one already.
        """

        async def change() -> None:
            if to is not None:
                await self._broker.inspect(to)
            await self._ledger.redirect(queue, to, actor=actor)

        await self._audited("redirect", f"queue:{queue}", {"actor": actor}, change())

    async def note(self, subject: str, text: str, *, actor: str = "") -> Note:
        """Write a note about ``group:<id>``, ``failure:<id>`` or ``operation:<number>``."""
        kind, _, which = subject.partition(":")
        if kind not in ("group", "failure", "operation") or not which:
            raise InvalidSetting("subject", subject, "must be group:<id>, failure:<id> or operation:<number>")
        check_words("actor", actor)
        return await self._ledger.note(subject, check_words("text", text, 100_000), actor)

    async def drop_note(self, number: int, *, actor: str = "") -> None:
        """Remove a note; the audit trail keeps what it said.

        Raises:
            NoteNotFound: there is none with this number.
        """
        await self._audited("drop-note", f"note:{number}", {"actor": actor}, self._ledger.drop_note(number, actor))

    async def audit(
        self, action: str, subject: str, *, actor: str = "", reason: str = "", outcome: str = "done"
    ) -> None:
        """Write an entry to the audit trail about a change that is not recovery's own, such as one of a queue.

        Args:
            action: what was done: ``queues.delete``.
            subject: what it was about: ``queue:orders``.
            actor: who did it.
            reason: why.
            outcome: what came of it.
        """
        await self._write_down(action, subject, {"actor": actor, "reason": reason}, outcome)

    # --- groups

    async def set_group_state(self, id: str, **change: Unpack[GroupChange]) -> GroupState:  # noqa: A002 - as in show
        """Decide who takes care of a group, and until when it needs no person; what is left out stays as it is.

        A snoozed group is counted and listed as before. It wakes at its time, or when more of its messages are
        unresolved than ``wake_above`` allows.

        Raises:
            GroupNotFound: there is none with that id; groups by queue or type have no state.
        """

        async def decide() -> GroupState:
            check_known("set_group_state", change, GroupChange)
            decided: dict[str, Any] = {name: value for name, value in change.items() if name not in ("actor", "reason")}
            check_change(decided)
            if "owner" in decided:
                check_words("owner", decided["owner"])
            if "snoozed_until" in decided:
                decided["snoozed_until"] = await self._instant("snoozed_until", decided["snoozed_until"])
            who = {name: check_words(name, str(change.get(name, ""))) for name in ("actor", "reason")}
            return await self._ledger.set_group_state(id, decided, **who)

        return await self._audited("group-state", f"group:{id}", change, decide())

    async def _instant(self, name: str, at: datetime | duration.Duration | None) -> datetime | None:
        if at is None or isinstance(at, datetime):
            return check_instant(name, at)
        return utc(await self._ledger.now() + duration.seconds(name, at))

    # --- upkeep

    async def sweep(self, keep: duration.Duration, *, actor: str = "") -> int:
        """Delete what was resolved or archived longer ago than that, and operations that ended; return how many."""
        before = utc(await self._ledger.now() - duration.seconds("keep", keep, zero=True))
        subject = f"before:{before.isoformat()}"
        await self._write_down("sweep", subject, {"actor": actor}, "begun")  # first: every deletion has an entry
        swept = 0
        while gone := await self._ledger.sweep(before):
            swept += gone
        await self._write_down("sweep", subject, {"actor": actor}, f"{swept} deleted")
        return swept

    async def check_counts(self, *, repair: bool = False, actor: str = "") -> list[CountDifference]:
        """Compare the stored counts of failed messages with the messages, which takes long; return what differs.

        Args:
            repair: whether to count all messages anew if a count is wrong; changes of failures wait for that.
            actor: who asks for it.
        """
        if not repair:
            return await self._ledger.check_counts()
        differences = await self._ledger.repair_counts()
        await self._write_down("repair-counts", "counts", {"actor": actor}, f"{len(differences)} differed")
        return differences

    # --- inside

    async def _audited(self, action: str, subject: str, who: Mapping[str, Any], doing: Coroutine[Any, Any, T]) -> T:
        """Carry out a request; the ledger audits what it does, and this audits what it refuses."""
        try:
            return await doing
        except (UsageError, MessageError) as error:
            await self._write_down(action, subject, who, f"refused: {error}")
            raise

    async def _write_down(self, action: str, subject: str, who: Mapping[str, Any], outcome: str) -> None:
        entry = AuditEntry(
            number=0,
            at=utc(self._broker.clock.time()),
            actor=storable(who.get("actor", "")),
            action=storable(action),
            subject=storable(subject),
            reason=storable(who.get("reason", "")),
            outcome=storable(outcome),
        )
        await self._ledger.audit(entry)
