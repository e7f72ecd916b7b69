# SPDX-License-Identifier: MIT
"""One lane: what goes to one destination, staged and forwarded batch by batch.

Staging puts copies of a batch into the lane's staging queue and then, in one transaction of the ledger, lets the batch
go forward. Forwarding moves the copies to their destination, each in one transaction of the broker. Whatever is
interrupted is begun again: staging under a new id, so that copies of the old one are dropped; forwarding by draining
the staging queue, after which whatever was in it has left.
"""

import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redrive.broker import Abandon, Send
from redrive.broker.message import Message, Received
from redrive.errors import EngineUnavailable, LockLost, RedriveError, TransformFailed
from redrive.recovery.copies import NOT_STAGED, Sorted, destination_of, forwarding, sort, staged_copy
from redrive.recovery.events import MessagesEjected, MessageSetAside, OperationChanged, StraysDropped
from redrive.recovery.plan import chunk
from redrive.recovery.records import Batch, Lease, SetAside, Staged
from redrive.recovery.staging import LONGEST_NAP_S, LaneSettings, StagingQueue, removals
from redrive.recovery.states import AT_WORK, ENDED, BatchState, OperationState
from redrive.recovery.tools import Tools

_SENT_BEFORE = "sent before the process stopped"
_VANISHED = "its copy has vanished from the staging queue; whether it was sent is not known"
_TWICE = "may have been sent twice: the broker cannot receive and send in one transaction"
_BEFORE = "may have been sent before: the broker cannot receive and send in one transaction"


@dataclass(frozen=True, slots=True)
class _Done:
    """Copies that are done with: those that were sent, and those that are not to be."""

    sent: Sequence[tuple[Received, int]] = ()
    gone: Sequence[tuple[Received, int]] = ()

    @property
    def numbers(self) -> set[int]:
        """The numbers of their failed messages."""
        return {number for _, number in (*self.sent, *self.gone)}


class Stopping(Exception):
    """The process is about to stop; what is under way goes on later."""


class LaneRunner:
    """The work of one process in one lane.

    Args:
        lane: the destination.
        lease: the right to work in this lane.
        tools: where the queues are, and where it is noted what is done.
        settings: how.
        is_stopping: says whether to come to an end.
        nap: waits for some seconds, or until it is time to come to an end.
    """

    def __init__(
        self,
        lane: str,
        lease: Lease,
        tools: Tools,
        *,
        settings: LaneSettings,
        is_stopping: Callable[[], bool],
        nap: Callable[[float], Awaitable[None]],
    ) -> None:
        self._lane = lane
        self._staging = StagingQueue(lane, tools.broker, settings)
        self._engine = tools.broker.engine
        self._ledger = tools.ledger
        self._new_id = tools.new_id
        self._report = tools.report
        self._lease = lease
        self._settings = settings
        self._is_stopping = is_stopping
        self._nap = nap
        self._refusals: dict[int, int] = {}
        self._next_at = 0.0
        self._key = b""

    async def run(self) -> None:
        """Work until nothing is left to do in this lane."""
        self._key = await self._ledger.key()
        await self._staging.open()
        while (batch := await self._ledger.next_batch(self._lease, self._lane)) is not None:
            self._check_stopping()
            if batch.state is BatchState.FORWARDING:
                await self._forward(batch)
            elif batch.operation_state is OperationState.CANCELLING:
                await self._finish(batch)
            else:
                await self._stage(batch)
        await self._clear()

    def _check_stopping(self) -> None:
        if self._is_stopping():
            raise Stopping

    # --- staging

    async def _stage(self, batch: Batch) -> None:
        """Put copies of a batch into the staging queue, and let it go forward."""
        self._staging.was_deleted = False
        batch = replace(batch, staging_id=self._new_id())
        copied: dict[str, int] = {}
        refused: dict[int, str] = {}
        redirects = await self._ledger.redirects()
        after: int | None = 0
        while after is not None:
            self._check_stopping()
            page, after = await self._ledger.to_stage(batch, after=after, limit=self._settings.page)
            if page:
                refused |= await self._stage_page(page, batch, redirects)
                copied |= {each.id: each.failure for each in page if each.failure not in refused}
        pending = await self._ledger.staged(self._lease, batch, copied, refused)
        self._report_ejected(batch, refused)
        await self._forward(replace(batch, state=BatchState.FORWARDING), pending)

    async def _stage_page(self, page: Sequence[Staged], batch: Batch, redirects: Mapping[str, str]) -> dict[int, str]:
        """Stage a page; return what was refused, and why."""
        refused: dict[int, str] = {}
        copies: dict[int, Message] = {}
        for each in page:
            try:
                to = destination_of(each, batch, redirects)
                copies[each.failure] = staged_copy(each, batch, to, self._key, load)
            except TransformFailed as error:
                refused[each.failure] = str(error)
        try:
            await self._engine.apply([Send(self._staging.name, copy) for copy in copies.values()])
        except EngineUnavailable:
            raise
        except RedriveError:
            refused |= await self._stage_one_by_one(copies)
        return refused

    async def _stage_one_by_one(self, copies: Mapping[int, Message]) -> dict[int, str]:
        refused: dict[int, str] = {}
        for failure, copy in copies.items():
            for _ in range(self._settings.eject_after):
                try:
                    await self._engine.apply([Send(self._staging.name, copy)])
                except EngineUnavailable:
                    raise
                except RedriveError as error:
                    refused[failure] = f"could not be staged: {error}"
                else:
                    refused.pop(failure, None)
                    break
        return refused

    # --- forwarding

    async def _forward(self, batch: Batch, staged: set[int] | None = None) -> None:
        """Move a batch to its destination.

        Args:
            batch: the batch.
            staged: the numbers of what this process has staged just now; None: it goes on with another's work.
        """
        is_fresh = staged is not None
        pending = await self._ledger.pending(batch) if staged is None else staged
        self._next_at = batch.next_at
        self._staging.listen()
        while True:
            self._check_stopping()
            batch = await self._turn(batch)
            page = await self._staging.lock(self._page_size(batch))
            batch = await self._ledger.latest(self._lease, batch)  # after it: so what was locked was ours to lock
            found = sort(page, batch, pending, self._key)
            may_send = batch.operation_state in AT_WORK
            done = await (self._send(batch, found) if may_send else self._take_back(batch, found))
            pending -= done.numbers
            if (is_fresh and not pending) or (not page and await self._staging.is_drained()):
                break
            await self._note_sent(batch, done.sent)
        await self._conclude(batch, pending, done, is_fresh=is_fresh)

    async def _conclude(self, batch: Batch, pending: set[int], last: "_Done", *, is_fresh: bool) -> None:
        """Account for what is not in the staging queue any more, and be done with the batch."""
        numbers = sorted(pending)
        if numbers and (is_fresh or self._staging.was_deleted):
            await self._eject(batch, dict.fromkeys(numbers, _VANISHED))
        elif numbers:
            await self._ledger.forwarded(self._lease, batch, numbers, told=_SENT_BEFORE)
        once = await self._note_doubtful(batch, last.sent)
        await self._finish(batch, once)

    async def _finish(self, batch: Batch, forwarded: Sequence[int] = ()) -> None:
        state = await self._ledger.finish(self._lease, batch, forwarded)
        if state in ENDED:
            self._report(OperationChanged(batch.operation, batch.plan.kind.value, state.word, "", ""))

    def _page_size(self, batch: Batch) -> int:
        page = self._settings.page
        return page if batch.plan.rate is None else min(page, chunk(batch.plan.rate)[0])

    async def _turn(self, batch: Batch) -> Batch:
        """Wait until the lane may send again, or is to send nothing any more; return what the batch is then."""
        while (rate := batch.plan.rate) is not None:
            now = await self._ledger.now()
            if now >= self._next_at:
                self._next_at = now + chunk(rate)[1]
                await self._ledger.reserve(self._lease, batch, self._next_at)  # first: a crash sends none too soon
                break
            await self._nap(min(self._next_at - now, LONGEST_NAP_S))
            self._check_stopping()
            batch = await self._ledger.latest(self._lease, batch)
            if batch.operation_state not in AT_WORK:
                break
            if batch.plan.rate is not None and batch.plan.rate != rate:  # somebody who found it too slow has changed it
                self._next_at = min(self._next_at, now + chunk(batch.plan.rate)[1])
        return batch

    async def _send(self, batch: Batch, found: Sorted) -> "_Done":
        """Forward copies; return what is done with."""
        if not found.mine and not found.strays and not found.foreign:
            return _Done()
        if not self._engine.capabilities.is_transactional:  # a page of which one is refused would be sent in part
            return await self._send_one_by_one(batch, found)
        await self._set_aside(found.foreign)
        try:
            sends = [effect for received, _ in found.mine for effect in forwarding(received)]
            await self._engine.apply([*sends, *removals([*found.strays, *found.foreign])])
        except EngineUnavailable:
            raise
        except RedriveError:
            return await self._send_one_by_one(batch, found)
        await self._count_strays(found)
        return _Done(found.mine)

    async def _note_sent(self, batch: Batch, sent: Sequence[tuple[Received, int]]) -> None:
        once = await self._note_doubtful(batch, sent)
        if once:
            await self._ledger.forwarded(self._lease, batch, once)

    async def _note_doubtful(self, batch: Batch, sent: Sequence[tuple[Received, int]]) -> list[int]:
        """Note what may have been sent twice; return what was sent once."""
        again = self._doubtful(sent)
        if again:
            await self._ledger.forwarded(self._lease, batch, again, told=_TWICE)
        return [number for _, number in sent if number not in again]

    def _doubtful(self, copies: Sequence[tuple[Received, int]]) -> list[int]:
        """Return those of some copies that somebody may have sent before, who then died before he settled them."""
        if self._engine.capabilities.is_transactional:
            return []
        return [number for received, number in copies if received.delivery_count > 1]

    async def _send_one_by_one(self, batch: Batch, found: Sorted) -> "_Done":
        """Forward copies of which one was refused, so that it is the only one that stays behind."""
        sent: list[tuple[Received, int]] = []
        ejected: dict[int, str] = {}
        for received, number in found.mine:
            try:
                await self._engine.apply(forwarding(received))
            except LockLost:
                continue  # it comes again
            except EngineUnavailable:
                raise
            except RedriveError as error:
                await self._refuse(received, number, error, ejected)
            else:
                sent.append((received, number))
        gone = [(received, number) for received, number in found.mine if number in ejected]
        await self._doubt(batch, gone)
        await self._eject(batch, ejected)
        await self._staging.drop([received for received, _ in gone])
        await self._put_away(found)
        await self._count_strays(found)
        return _Done(sent, gone)

    async def _refuse(self, received: Received, number: int, error: RedriveError, ejected: dict[int, str]) -> None:
        self._refusals[number] = self._refusals.get(number, 0) + 1
        if self._refusals[number] >= self._settings.eject_after:
            ejected[number] = f"could not be sent: {error}"
            del self._refusals[number]
        elif received.lock is not None:
            await self._staging.insist(Abandon(received.lock, uncount=True))

    async def _eject(self, batch: Batch, reasons: Mapping[int, str]) -> None:
        """Note first, drop the copies then: a copy of what is noted as ejected is a stray."""
        if reasons:
            await self._ledger.eject(self._lease, batch, reasons)
            self._report_ejected(batch, reasons)

    async def _take_back(self, batch: Batch, found: Sorted) -> "_Done":
        """Take copies back that are not to be sent: note first, drop then, as with ejected ones."""
        await self._doubt(batch, found.mine)
        numbers = [number for _, number in found.mine]
        if numbers:
            await self._ledger.unstage(self._lease, batch, numbers)
        await self._staging.drop([received for received, _ in found.mine])
        await self._put_away(found)
        await self._count_strays(found)
        return _Done(gone=found.mine)

    async def _doubt(self, batch: Batch, copies: Sequence[tuple[Received, int]]) -> None:
        """Note which of some copies may have been sent before, although we do not send them."""
        if doubtful := self._doubtful(copies):
            await self._ledger.doubt(self._lease, batch, doubtful, _BEFORE)

    # --- strays

    async def _clear(self) -> None:
        """Leave nothing in the staging queue: what is there now belongs to no batch."""
        while True:
            page = await self._staging.lock(self._settings.page)
            found = sort(page, None, (), self._key)
            await self._count_strays(found)  # shows the lease before anything is dropped
            await self._put_away(found)
            if not page and (not self._engine.capabilities.counts_exactly or await self._staging.is_drained()):
                return
            if await self._ledger.next_batch(self._lease, self._lane) is not None:
                return
            self._check_stopping()

    async def _put_away(self, found: Sorted) -> None:
        """Drop strays, and set aside what nobody staged."""
        await self._set_aside(found.foreign)
        await self._staging.drop([*found.strays, *found.foreign])

    async def _set_aside(self, foreign: Sequence[Received]) -> None:
        """Keep what recovery did not put into its staging queue, where people find it."""
        if not foreign:
            return
        reason = NOT_STAGED.format(queue=self._staging.name)
        await self._ledger.set_aside([SetAside(received=each, reason=reason) for each in foreign])
        for each in foreign:
            self._report(MessageSetAside(each.queue, each.id, reason))

    async def _count_strays(self, found: Sorted) -> None:
        if found.strays or found.foreign:
            await self._ledger.count_strays(self._lease, self._lane, len(found.strays))
            self._report(StraysDropped(self._lane, len(found.strays), len(found.foreign)))

    def _report_ejected(self, batch: Batch, reasons: Mapping[int, str]) -> None:
        if reasons:
            self._report(MessagesEjected(batch.operation, self._lane, len(reasons), next(iter(reasons.values()))))


def load(name: str) -> Callable[..., Any]:
    """Return a function by its name, ``package.module:function``."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
