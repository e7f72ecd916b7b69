# SPDX-License-Identifier: MIT
"""One lane: the messages for one destination, staged and forwarded batch by batch.

Staging puts copies of a batch into the lane's staging queue and then, in one transaction of the ledger, moves the batch
to forwarding. Forwarding moves the copies to their destination, each in one transaction of the broker. An interrupted
step starts again: staging under a new id, so that copies with the old id are dropped; forwarding by draining the
staging queue.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from redrive.broker import Abandon, Received
from redrive.errors import EngineUnavailable, LockLost, RedriveError, Unavailable
from redrive.recovery.arrivals import SetAside
from redrive.recovery.broken_operations import halt
from redrive.recovery.environment import NotYet, Stopping, Tools
from redrive.recovery.events import MessagesEjected, MessageSetAside, OperationChanged, StraysDropped
from redrive.recovery.pace import Pace, at_once
from redrive.recovery.records import Batch, Lease
from redrive.recovery.spans import recovering
from redrive.recovery.staged_copy import NOT_STAGED, Sorted, forwarding, sort
from redrive.recovery.stager import NotWanted, Stager
from redrive.recovery.staging_queue import LONGEST_NAP_S, LaneSettings, StagingQueue, removals
from redrive.recovery.states import AT_WORK, ENDED, BatchState, OperationState
from redrive.recovery.transformer import Transformer, TransformSettings

_SENT_BEFORE = "sent before the process stopped"
_VANISHED = "its copy has vanished from the staging queue; whether it was sent is not known"
_TWICE = "may have been sent twice: the broker cannot receive and send in one transaction"
_BEFORE = "may have been sent before: the broker cannot receive and send in one transaction"


@dataclass(frozen=True, slots=True)
class _Done:
    """Copies that need no more work: those that were sent, and those that must not be sent."""

    sent: Sequence[tuple[Received, int]] = ()
    gone: Sequence[tuple[Received, int]] = ()

    @property
    def numbers(self) -> set[int]:
        """The numbers of their failed messages."""
        return {number for _, number in (*self.sent, *self.gone)}


class LaneRunner:
    """The work of one process in one lane. It remembers what it has sent, and what was refused.

    Args:
        lane: the destination.
        tools: the broker and the ledger.
        settings: how lanes work.
        transforms: which functions may change messages.
        stopped: set when the process is about to stop.

    Attributes:
        has_worked: whether anything was done in the last run.
    """

    def __init__(
        self,
        lane: str,
        tools: Tools,
        *,
        settings: LaneSettings,
        transforms: TransformSettings,
        stopped: asyncio.Event,
    ) -> None:
        self.has_worked = False
        self._lane = lane
        self._tools = tools
        self._staging = StagingQueue(lane, tools.broker, settings)
        self._engine = tools.broker.engine
        self._clock = tools.broker.clock
        self._ledger = tools.ledger
        self._new_id = tools.new_id
        self._report = tools.report
        self._settings = settings
        self._transforms = transforms
        self._stopped = stopped
        self._refusals: dict[int, int] = {}
        self._pace = Pace()
        self._listening_to = 0
        self._key = b""

    async def run(self, lease: Lease, *, waits: bool) -> None:
        """Work until nothing is left to do in this lane.

        Args:
            lease: the right to work in it.
            waits: whether to wait for work that is not due yet, such as the next moment that a rate allows.

        Raises:
            NotYet: the next work is not due yet, and ``waits`` is false.
            Stopping: the process is about to stop.
        """
        self._lease, self._waits, self.has_worked = lease, waits, False
        self._key = await self._ledger.key()
        await self._staging.open()
        while (batch := await self._ledger.next_batch(self._lease, self._lane)) is not None:
            self._check_stopping()
            try:
                await self._advance(batch)
            except (Unavailable, Stopping, NotYet):
                raise
            except Exception as error:  # noqa: BLE001 - it halts its own operation only
                await halt(self._tools, lease, batch.operation, error)
        await self._clear()

    async def _advance(self, batch: Batch) -> None:
        """Bring a batch one step further."""
        if batch.state is BatchState.FORWARDING:
            await self._forward(batch)
        elif batch.operation_state is OperationState.CANCELLING:
            await self._finish(batch)
        else:
            await self._stage(batch)

    def _check_stopping(self) -> None:
        if self._stopped.is_set():
            raise Stopping

    async def _nap(self, seconds: float) -> None:
        """Wait for a short while, or until the process is about to stop."""
        if not self._waits:
            raise NotYet(seconds)
        try:
            async with self._clock.timeout(min(seconds, LONGEST_NAP_S)):
                await self._stopped.wait()
        except TimeoutError:
            return
        raise Stopping

    async def _wait_for(self, queue: str, seconds: float) -> None:
        if not self._waits:
            raise NotYet(seconds)
        await self._engine.wait(queue, seconds)

    # --- staging

    async def _stage(self, batch: Batch) -> None:
        """Put copies of a batch into the staging queue, and move the batch to forwarding."""
        self.has_worked = True
        self._staging.was_deleted = False
        batch = replace(batch, staging_id=self._new_id())
        async with Transformer(self._transforms, stopped=self._stopped) as transformer:
            stager = Stager(
                self._lease,
                batch,
                self._tools,
                settings=self._settings,
                staging=self._staging,
                transformer=transformer,
                key=self._key,
            )
            try:
                copied, refused = await stager.run(self._stopped)
            except NotWanted:
                return  # its copies are strays now, and dropped
        pending = await self._ledger.staged(self._lease, batch, copied, refused)
        self._report_ejected(batch, refused)
        await self._forward(replace(batch, state=BatchState.FORWARDING), pending)

    # --- forwarding

    async def _forward(self, batch: Batch, staged: set[int] | None = None) -> None:
        """Move a batch to its destination.

        Args:
            batch: the batch.
            staged: the numbers that this process has just staged; None: it goes on with another process's work.
        """
        is_fresh = staged is not None
        pending = await self._ledger.pending(batch) if staged is None else staged
        await self._respect_others(batch)
        if self._listening_to != batch.number:
            self._staging.listen()
            self._listening_to = batch.number
        while True:
            batch = await self._turn(batch)
            page = await self._staging.lock(self._page_size(batch))
            batch = await self._ledger.latest(self._lease, batch)  # after locking: the lease was valid then
            page = await self._admitted(batch, page)
            found = sort(page, batch, pending, self._key)
            may_send = batch.operation_state in AT_WORK
            done = await (self._send(batch, found) if may_send else self._take_back(batch, found))
            pending -= done.numbers
            if (is_fresh and not pending) or (not page and await self._staging.is_drained(self._wait_for)):
                break
            await self._note_sent(batch, done.sent)
        await self._conclude(batch, pending, done, is_fresh=is_fresh)

    async def _conclude(self, batch: Batch, pending: set[int], last: "_Done", *, is_fresh: bool) -> None:
        """Account for messages that are no longer in the staging queue, and finish the batch."""
        numbers = sorted(pending)
        if numbers and (is_fresh or self._staging.was_deleted):
            await self._eject(batch, dict.fromkeys(numbers, _VANISHED))
        elif numbers:
            await self._ledger.forwarded(self._lease, batch, numbers, reason=_SENT_BEFORE)
        once = await self._note_doubtful(batch, last.sent)
        await self._note_pace(batch)
        await self._finish(batch, once)

    async def _finish(self, batch: Batch, forwarded: Sequence[int] = ()) -> None:
        self.has_worked = True
        state = await self._ledger.finish(self._lease, batch, forwarded)
        if state in ENDED:
            self._report(OperationChanged(batch.operation, batch.plan.kind.value, state.word, "", ""))

    # --- the rate

    def _page_size(self, batch: Batch) -> int:
        most = self._engine.capabilities.most_effects or 2 * self._settings.page
        page = min(self._settings.page, most // 2)  # each message is sent and completed
        return page if batch.plan.rate is None else min(page, at_once(batch.plan.rate))

    async def _respect_others(self, batch: Batch) -> None:
        """Find out by when other processes have sent what they were about to send."""
        if batch.next_at and batch.next_at != self._pace.noted:
            ahead = batch.next_at - await self._ledger.now()
            ahead = min(ahead, self._settings.lock_duration)  # it can only be more if a clock was set back
            self._pace.others(self._clock.monotonic() + ahead)
            self._pace.noted = batch.next_at

    async def _turn(self, batch: Batch) -> Batch:
        """Wait until the lane may send again, or must not send any more; return the batch as it is then."""
        while True:
            try:
                self._check_stopping()
                if (rate := batch.plan.rate) is None or batch.operation_state not in AT_WORK:
                    return batch
                if not (wait := self._pace.wait(rate, self._clock.monotonic())):
                    return batch
                await self._nap(max(wait, 0.001))
            except (Stopping, NotYet):
                await self._note_pace(batch)
                raise
            batch = await self._ledger.latest(self._lease, batch)

    async def _admitted(self, batch: Batch, page: Sequence[Received]) -> Sequence[Received]:
        """Return what may be sent of a page, and give the rest back: the rate may have changed, or just begun.

        Before that, note by when it is sent at the latest, even if this process dies. That cannot be later than the end
        of its locks, and these are older than the note.
        """
        if batch.plan.rate is None or batch.operation_state not in AT_WORK or not page:
            return page
        now = self._clock.monotonic()
        room = self._pace.room(batch.plan.rate, now)
        await self._staging.give_back(page[room:])
        if room:
            await self._note_pace(batch, self._settings.lock_duration)
            self._pace.begin(len(page[:room]), now)
        return page[:room]

    async def _note_pace(self, batch: Batch, ahead: float = 0.0) -> None:
        """Note for other processes by when everything has been sent."""
        if batch.plan.rate is None or (not ahead and not self._pace.is_ahead):
            return
        self._pace.noted = await self._ledger.now() + ahead
        await self._ledger.reserve(self._lease, batch, self._pace.noted)
        self._pace.is_ahead = bool(ahead)

    async def _send(self, batch: Batch, found: Sorted) -> "_Done":
        """Forward copies; return those that need no more work."""
        if not found.mine and not found.strays and not found.foreign:
            return _Done()
        self.has_worked = True
        try:
            return await self._send_found(batch, found)
        finally:
            self._pace.end(len(found.mine), self._clock.monotonic())

    async def _send_found(self, batch: Batch, found: Sorted) -> "_Done":
        if not self._engine.capabilities.is_transactional:  # one refused copy would leave a page half sent
            return await self._send_one_by_one(batch, found)
        await self._set_aside(found.foreign)
        try:
            sends = [effect for received, _ in found.mine for effect in forwarding(received)]
            with recovering(batch, self._lane, [received.message for received, _ in found.mine]):
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
            await self._ledger.forwarded(self._lease, batch, again, reason=_TWICE)
        return [number for _, number in sent if number not in again]

    def _doubtful(self, copies: Sequence[tuple[Received, int]]) -> list[int]:
        """Return copies that another process may have sent before it died, without settling them."""
        if self._engine.capabilities.is_transactional:
            return []
        return [number for received, number in copies if received.delivery_count > 1]

    async def _send_one_by_one(self, batch: Batch, found: Sorted) -> "_Done":
        """Forward copies one by one, so that only the refused one stays behind."""
        sent: list[tuple[Received, int]] = []
        ejected: dict[int, str] = {}
        for received, number in found.mine:
            try:
                with recovering(batch, self._lane, [received.message]):
                    await self._engine.apply(forwarding(received))
            except LockLost:
                continue  # it is delivered again
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
            await self._staging.settle(Abandon(received.lock, uncount=True))

    async def _eject(self, batch: Batch, reasons: Mapping[int, str]) -> None:
        """Note first, then drop the copies: the copy of a message that is noted as ejected is a stray."""
        if reasons:
            await self._ledger.eject(self._lease, batch, reasons)
            self._report_ejected(batch, reasons)

    async def _take_back(self, batch: Batch, found: Sorted) -> "_Done":
        """Take back copies that must not be sent: note first, then drop them, as with ejected ones."""
        await self._doubt(batch, found.mine)
        numbers = [number for _, number in found.mine]
        if numbers:
            await self._ledger.unstage(self._lease, batch, numbers)
        await self._staging.drop([received for received, _ in found.mine])
        await self._put_away(found)
        await self._count_strays(found)
        return _Done(gone=found.mine)

    async def _doubt(self, batch: Batch, copies: Sequence[tuple[Received, int]]) -> None:
        """Note which copies may have been sent before, although this process does not send them."""
        if doubtful := self._doubtful(copies):
            await self._ledger.doubt(self._lease, batch, doubtful, _BEFORE)

    # --- strays

    async def _clear(self) -> None:
        """Empty the staging queue: what is in it now belongs to no batch."""
        while True:
            page = await self._staging.lock(self._settings.page)
            found = sort(page, None, (), self._key)
            await self._count_strays(found)  # it checks the lease before anything is dropped
            await self._put_away(found)
            is_known = self._engine.capabilities.counts_exactly
            if not page and (not is_known or await self._staging.is_drained(self._wait_for)):
                return
            if await self._ledger.next_batch(self._lease, self._lane) is not None:
                return
            self._check_stopping()

    async def _put_away(self, found: Sorted) -> None:
        """Drop strays, and set aside messages that recovery did not stage."""
        await self._set_aside(found.foreign)
        await self._staging.drop([*found.strays, *found.foreign])

    async def _set_aside(self, foreign: Sequence[Received]) -> None:
        """Dead-letter messages that recovery did not put into its staging queue, so that people find them."""
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
