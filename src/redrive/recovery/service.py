# SPDX-License-Identifier: MIT
"""What one process does for recovery: it reads failures, marks operations, works in lanes.

Any number of processes may do so on one ledger. Whatever one of them works on it holds a lease for; when it dies, the
lease ends and another goes on. So a live neighbour's work is left alone, and nothing depends on the list of processes
that is kept for people to see.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from redrive.broker import Message, QueueSettings, Send
from redrive.clock import pause
from redrive.errors import LeaseLost, QueueNotFound, RedriveError, Unavailable
from redrive.recovery.copies import staging_queue
from redrive.recovery.events import OperationChanged, RecoveryFault
from redrive.recovery.ingest import Ingester
from redrive.recovery.lane import LaneRunner, Stopping
from redrive.recovery.own_queues import declare_own
from redrive.recovery.plan import Verdict, judge
from redrive.recovery.records import Lease
from redrive.recovery.staging import LaneSettings
from redrive.recovery.states import ENDED, OperationEvent, OperationState
from redrive.recovery.tools import Tools
from redrive.retry.policy import Exponential, Failure, RetryAfter
from redrive.worker.confirming import CONFIRMATIONS

WAKE: Final = "redrive.recovery"
"""A message to this queue wakes every process that waits for work. It is a hint; nothing depends on it."""

_AGAIN = Exponential(min=0.5, max=30.0, max_attempts=1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """How a process works.

    Attributes:
        lease: seconds after which another process goes on with what this one was doing, if it dies.
        poll: seconds after which the ledger is asked for work although nobody said that there is any.
        most_lanes: how many lanes this process works in at a time.
        lanes: how it works in them.
    """

    lease: float = 15.0
    poll: float = 30.0
    most_lanes: int = 64
    lanes: LaneSettings = field(default_factory=LaneSettings)


class Service:
    """One process at work.

    Args:
        tools: where the queues are, and the ledger.
        ingester: reads failures.
        sources: the error queues and dead-letter queues to read.
        settings: how it works.
    """

    def __init__(self, tools: Tools, ingester: Ingester, *, sources: Sequence[str], settings: ServiceSettings) -> None:
        self._tools = tools
        self._broker = tools.broker
        self._clock = tools.broker.clock
        self._ledger = tools.ledger
        self._report = tools.report
        self._ingester = ingester
        self._sources = sources
        self._settings = settings
        self.session = tools.new_id()
        self._busy: set[str] = set()
        self._is_running = False
        self._is_stopping = False
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()
        self._fatal: Exception | None = None
        self._room = asyncio.Semaphore(settings.most_lanes)

    async def prepare(self, *queues: str) -> None:
        """Declare the queues that recovery itself uses."""
        self._is_stopping = False
        self._stopped.clear()
        lock_s = self._settings.lanes.lock_duration  # what a process has in hand when it dies is soon another's
        for queue in (CONFIRMATIONS, WAKE):
            await declare_own(self._broker.engine, queue, lock_s)
        for queue in queues:
            await self._broker.engine.declare(queue, QueueSettings(lock_duration=lock_s))

    # --- at one's own pace

    async def step(self) -> bool:
        """Do everything there is to do now, and return; False if there was nothing."""
        found = await self.ingest()
        return await self.work() or found

    async def ingest(self) -> bool:
        """Read all failures and confirmations that are there now; False if there were none."""
        found = 0
        for queue in self._sources:
            with suppress(QueueNotFound):
                while taken := await self._ingester.take(queue):
                    found += taken
        while taken := await self._ingester.take_confirmations():
            found += taken
        return bool(found)

    async def work(self) -> bool:
        """Do all work on operations that there is now; False if there was none for this process."""
        if not self._is_running:
            self._is_stopping = False  # whoever asks for work after a stop means it
        work = await self._ledger.work()
        attended = [await self._attend(number) for number in work.operations]
        lanes = await self._lanes((await self._ledger.work()).lanes)
        worked = await asyncio.gather(*(self._in_lane(lane) for lane in lanes))
        return any(attended) or any(worked)

    # --- until it is stopped

    async def run(self) -> None:
        """Read failures and work on operations until ``stop`` is called."""
        self._is_running = True
        reads: list[Coroutine[Any, Any, object]] = [self._ingesting(queue) for queue in self._sources]
        reads += [self._confirming(), self._being_seen(), self._stopped.wait()]
        reading = [asyncio.create_task(read) for read in reads]
        working = asyncio.create_task(self._working())
        try:
            done, _ = await asyncio.wait([*reading, working], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self.stop()
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, working, return_exceptions=True)
            self._is_running = self._is_stopping = False  # not at the beginning: who says stop before that means it
            self._stopped.clear()

    def stop(self) -> None:
        """Come to an end; what is under way goes on later, here or elsewhere."""
        self._is_stopping = True
        self._stopped.set()
        self._woken.set()

    async def wake(self) -> None:
        """Tell every process that there is work."""
        self._woken.set()
        try:
            await self._broker.engine.apply([Send(WAKE, Message(b"", id=self._tools.new_id(), ttl=60.0))])
        except RedriveError as error:  # it is a hint, and the poll finds the work
            self._report(RecoveryFault("waking others", type(error).__name__, str(error)))

    async def _ingesting(self, queue: str) -> None:
        await self._forever(f"reading {queue}", queue, lambda: self._taken(queue))

    async def _taken(self, queue: str) -> bool:
        try:
            taken = await self._ingester.take(queue)
        except QueueNotFound:
            taken = 0  # nothing has failed so far, or its queue was deleted
        if taken:
            self._woken.set()  # canaries may be among them
        return bool(taken)

    async def _confirming(self) -> None:
        async def take() -> bool:
            taken = await self._ingester.take_confirmations()
            if taken:
                self._woken.set()
            return bool(taken)

        await self._forever("reading confirmations", CONFIRMATIONS, take)

    async def _being_seen(self) -> None:
        """Let people see that this process serves."""
        try:
            while True:
                try:
                    await self._ledger.present(self.session, socket.gethostname(), 2 * self._settings.lease)
                except RedriveError as error:  # nothing depends on it
                    self._report(RecoveryFault("saying that this process serves", type(error).__name__, str(error)))
                await pause(self._clock, self._settings.lease)
        finally:
            with suppress(RedriveError):  # then it is forgotten when its time is over
                await self._ledger.absent(self.session)

    async def _forever(self, doing: str, queue: str, do: Callable[[], Awaitable[bool]]) -> None:
        """Do something again and again; wait when there is nothing to do, and longer when it does not work."""
        failures = 0
        while not self._is_stopping:
            try:
                if not await do():
                    await self._broker.engine.wait(queue, self._settings.poll)
                failures = 0
            except QueueNotFound:
                await pause(self._clock, 1.0)
            except Unavailable as error:
                failures += 1
                await self._recover_from(doing, error, failures)

    async def _recover_from(self, doing: str, error: RedriveError, failures: int) -> None:
        self._report(RecoveryFault(doing, type(error).__name__, str(error)))
        answer = _AGAIN.decide(Failure(failures, error, chance=self._tools.chance()))
        await pause(self._clock, answer.delay if isinstance(answer, RetryAfter) else _AGAIN.max)

    async def _working(self) -> None:
        """Start work on whatever wants some, and wait for more."""
        at_work: dict[str, asyncio.Task[None]] = {}
        try:
            while not self._is_stopping:
                self._woken.clear()
                if self._fatal is not None:
                    raise self._fatal
                wait = await self._start_work(at_work)
                await self._idle(wait)
        finally:
            await self._come_to_an_end(list(at_work.values()))

    async def _come_to_an_end(self, tasks: "list[asyncio.Task[None]]") -> None:
        """Let lanes finish the page they are at; whoever takes longer is interrupted, and goes on another time."""
        with suppress(TimeoutError):
            async with self._clock.timeout(self._settings.lease):
                await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _start_work(self, at_work: "dict[str, asyncio.Task[None]]") -> float:
        """Start what is not under way; return how long to wait before looking again."""
        try:
            work = await self._ledger.work()
            now = await self._ledger.now()
            lanes = await self._lanes(work.lanes)
        except Unavailable as error:
            self._report(RecoveryFault("looking for work", type(error).__name__, str(error)))
            return min(1.0, self._settings.poll)
        jobs = {f"operation/{number}": partial(self._attend, number) for number in work.operations}
        jobs |= {f"lane/{lane}": partial(self._in_lane, lane) for lane in lanes}
        for name in [name for name in jobs if name not in at_work]:
            at_work[name] = asyncio.create_task(self._guarded(name, jobs[name]), name=name)
            at_work[name].add_done_callback(lambda task: at_work.pop(task.get_name()))
        wait = self._settings.poll if not jobs else min(self._settings.poll, self._settings.lease)
        return wait if work.next_at is None else max(0.01, min(wait, work.next_at - now))

    async def _lanes(self, busy: Sequence[str]) -> list[str]:
        """Return the lanes with work, and those that are idle and have copies left that nobody will ask for."""
        found = list(busy)
        for lane in await self._ledger.lanes():
            if lane.name not in busy and lane.batch is None and lane.session is None:
                with suppress(QueueNotFound):
                    info = (await self._broker.engine.inspect(staging_queue(lane.name)))[0]
                    found += [lane.name] if info.ready + info.locked + info.dead else []
        return found

    async def _guarded(self, name: str, job: Callable[[], Awaitable[bool]]) -> None:
        """Do a piece of work; when it does not work, wait and look again."""
        try:
            if await job():
                self._woken.set()  # there may be more
        except RedriveError as error:
            await self._recover_from(name, error, 2)
            self._woken.set()
        except Exception as error:  # noqa: BLE001 - a mistake of ours: nobody may wait for what will never be done
            self._fatal = error
            self._woken.set()

    async def _idle(self, seconds: float) -> None:
        """Wait for a hint that there is work, from this process or another."""
        waits: set[asyncio.Future[Any]] = {
            asyncio.ensure_future(self._broker.engine.wait(WAKE, seconds)),
            asyncio.ensure_future(self._woken.wait()),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        with suppress(RedriveError):  # it is only a hint
            await self._broker.engine.lock_next(WAKE, 100, delete=True)

    # --- pieces of work

    async def _attend(self, number: int) -> bool:
        """Bring an operation to its beginning or its end, judge its canaries, and mark what is to be marked."""
        async with self._held(f"operation/{number}") as lease:
            if lease is None:
                return False
            before = await self._ledger.operation(number)
            try:
                has_marked = await self._mark(lease, number)
            except LeaseLost:  # another process goes on with it
                return False
        return await self._report_change(number, before.state) or has_marked

    async def _mark(self, lease: Lease, number: int) -> bool:
        """Mark what is to be marked of an operation; False if that is nothing."""
        state = await self._ledger.settle(lease, number)
        if state is OperationState.WATCHING:
            state = await self._judge(lease, number)
        claimed = 0 if state in ENDED else await self._ledger.claim(lease, number)
        has_more = state in (OperationState.RUNNING, OperationState.CANCELLING)
        while has_more and not self._is_stopping:
            has_more = await self._ledger.mark(lease, number)
            claimed += await self._ledger.claim(lease, number)
        await self._ledger.settle(lease, number)
        return bool(claimed)

    async def _judge(self, lease: Lease, number: int) -> OperationState:
        canary = (await self._ledger.operation(number)).plan.canary
        counts, silent = await self._ledger.canaries(number)
        verdict, told = (Verdict.APPROVE, "") if canary is None else judge(canary, counts, silent)
        if verdict is Verdict.WAIT:
            return OperationState.WATCHING
        event = OperationEvent.APPROVE if verdict is Verdict.APPROVE else OperationEvent.STOP
        await self._ledger.judged(lease, number, event, told)
        return (await self._ledger.operation(number)).state

    async def _report_change(self, number: int, before: OperationState) -> bool:
        now = await self._ledger.operation(number)
        if now.state is before:
            return False
        self._report(OperationChanged(number, now.plan.kind.value, now.state.word, "", now.told))
        return True

    async def _in_lane(self, lane: str) -> bool:
        """Work in a lane until nothing is left to do there; False if another process has it."""
        async with self._room, self._held(f"lane/{lane}") as lease:
            if lease is None:
                return False
            try:
                await self._runner(lane, lease).run()
            except (LeaseLost, Stopping):  # another process goes on with it, or this one will
                return False
        return True

    def _runner(self, lane: str, lease: Lease) -> LaneRunner:
        return LaneRunner(
            lane,
            lease,
            self._tools,
            settings=self._settings.lanes,
            is_stopping=lambda: self._is_stopping,
            nap=self._nap,
        )

    async def _nap(self, seconds: float) -> None:
        """Wait for some seconds, or until it is time to come to an end."""
        with suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self._stopped.wait()

    @asynccontextmanager
    async def _held(self, name: str) -> AsyncGenerator[Lease | None]:
        """Hold a lease while something is done; None if this or another process is at it already."""
        if name in self._busy:
            yield None
            return
        self._busy.add(name)
        beating: asyncio.Task[None] | None = None
        lease: Lease | None = None
        try:
            lease = await self._ledger.hold(name, self.session, self._settings.lease)
            if lease is not None:
                beating = asyncio.create_task(self._beat(lease))
            yield lease
        finally:
            self._busy.discard(name)
            if beating is not None and lease is not None:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
                with suppress(RedriveError):  # then it ends by itself
                    await self._ledger.release(lease)

    async def _beat(self, lease: Lease) -> None:
        """Lengthen a lease for as long as this process lives."""
        while True:
            await pause(self._clock, self._settings.lease / 3)
            try:
                await self._ledger.renew(lease, self._settings.lease)
            except RedriveError as error:  # the next beat may get through before the lease ends
                self._report(RecoveryFault(f"renewing {lease.name}", type(error).__name__, str(error)))
