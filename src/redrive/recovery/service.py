# SPDX-License-Identifier: MIT
"""What one process does for recovery: it reads failures, marks operations, works in lanes.

Any number of processes may do so on one ledger. A process holds a lease for whatever it works on; when it dies, the
lease ends and another process goes on. So no process touches the work of a live one. The list of processes is for
people to see; nothing depends on it.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from redrive.broker import QueueSettings
from redrive.broker.rules import CONFIRMATIONS, RECOVERY_HINTS, staging_queue
from redrive.clock import pause
from redrive.errors import LeaseLost, QueueNotFound, RedriveError, Unavailable
from redrive.recovery.broken_operations import halt
from redrive.recovery.environment import NotYet, Stopping, Tools
from redrive.recovery.events import OperationChanged, RecoveryFault
from redrive.recovery.ingest import Ingester
from redrive.recovery.lane_runner import LaneRunner
from redrive.recovery.leases import Leases
from redrive.recovery.operation import Verdict, judge
from redrive.recovery.own_queues import declare_own
from redrive.recovery.records import Lease
from redrive.recovery.staging_queue import LaneSettings
from redrive.recovery.states import ENDED, OperationEvent, OperationState, Outcome
from redrive.recovery.transformer import TransformSettings
from redrive.recovery.work_hints import WorkHints
from redrive.retry.backoff import exponential, jittered

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """How a process works.

    Attributes:
        lease: seconds after which another process takes over the work of this one, if it dies.
        poll: seconds after which the process asks the ledger for work although it got no hint.
        most_lanes: how many lanes this process works in at a time.
        lanes: how it works in them.
        transforms: which functions may change messages, and how much time and memory they may use.
    """

    lease: float = 15.0
    poll: float = 30.0
    most_lanes: int = 64
    lanes: LaneSettings = field(default_factory=LaneSettings)
    transforms: TransformSettings = field(default_factory=TransformSettings)


@dataclass(frozen=True, slots=True)
class Step:
    """What was done in one step. It is true if something was.

    Attributes:
        has_worked: whether anything was done.
        next_in: seconds until there is more to do, as far as is known: a rate allows the next messages, an operation is
            due, or the lease of another process ends. None: nothing is waiting.
    """

    has_worked: bool
    next_in: float | None = None

    def __bool__(self) -> bool:
        return self.has_worked


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
        self._hints = WorkHints(tools)
        self._leases = Leases(tools, self.session, settings.lease)
        self._is_running = False
        self._is_stopping = False
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()
        self._runners: dict[str, LaneRunner] = {}
        self._failures: dict[str, int] = {}
        self._room = asyncio.Semaphore(settings.most_lanes)

    async def prepare(self, *queues: str) -> None:
        """Declare the queues that recovery itself uses. It may be another event loop than the last time."""
        self._is_stopping = False
        self._woken, self._stopped = asyncio.Event(), asyncio.Event()
        self._room = asyncio.Semaphore(self._settings.most_lanes)
        self._runners.clear()
        lock_s = self._settings.lanes.lock_duration  # when a process dies, another soon gets its messages
        for queue in (CONFIRMATIONS, RECOVERY_HINTS):
            await declare_own(self._broker.engine, queue, lock_s)
        for queue in queues:
            await self._broker.engine.declare(queue, QueueSettings(lock_duration=lock_s))

    # --- step by step

    async def step(self) -> Step:
        """Do everything that can be done now, and return."""
        found = await self.ingest()
        step = await self.work()
        return Step(has_worked=found or step.has_worked, next_in=step.next_in)

    async def ingest(self) -> bool:
        """Read all failures and confirmations that are there now; False if there were none."""
        found = 0
        for queue in self._sources:
            with suppress(QueueNotFound):
                found += await self._ingester.take_all(queue)
        while taken := await self._ingester.take_confirmations():
            found += taken
        return bool(found)

    async def work(self, *, waits: bool = False) -> Step:
        """Do all work on operations that can be done now.

        Args:
            waits: whether to wait for work that is not due yet, such as the next moment that a rate allows.
        """
        if not self._is_running:
            self._is_stopping = False  # a call after a stop is meant
            self._stopped.clear()
        due: list[float] = []
        work = await self._ledger.work()
        attended = [await self._attend(number, due) for number in work.operations]
        work = await self._ledger.work()
        lanes = await self._lanes(work.lanes)
        worked = await asyncio.gather(*(self._in_lane(lane, due, waits=waits) for lane in lanes))
        if work.next_at is not None:
            due.append(max(0.001, work.next_at - await self._ledger.now()))
        return Step(has_worked=any(attended) or any(worked), next_in=min(due, default=None))

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
            self._is_running = self._is_stopping = False  # not at the beginning: an earlier stop counts
            self._stopped.clear()

    def stop(self) -> None:
        """Stop; unfinished work goes on later, here or in another process."""
        self._is_stopping = True
        self._stopped.set()
        self._woken.set()

    async def wake(self) -> None:
        """Tell every process that there is work."""
        self._woken.set()
        await self._hints.send()

    async def _ingesting(self, queue: str) -> None:
        await self._forever(f"reading {queue}", queue, lambda: self._taken(queue))

    async def _taken(self, queue: str) -> bool:
        try:
            taken = await self._ingester.take_many(queue)
        except QueueNotFound:
            taken = 0  # the queue is not declared yet, or was deleted
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
                    self._report(RecoveryFault.of("saying that this process serves", error))
                await pause(self._clock, self._settings.lease)
        finally:
            with suppress(RedriveError):  # its entry ends by itself
                await self._ledger.absent(self.session)

    async def _forever(self, doing: str, queue: str, do: Callable[[], Awaitable[bool]]) -> None:
        """Call a function again and again; wait when it has nothing to do, and longer when it fails."""
        failures = 0
        while not self._is_stopping:
            try:
                if not await do():
                    await self._broker.engine.wait(queue, self._settings.poll)
                failures = 0
            except QueueNotFound:
                await pause(self._clock, 1.0)
            except Exception as error:
                if isinstance(error, RedriveError) and not isinstance(error, Unavailable):
                    raise  # a usage error: another attempt would fail too
                failures += 1  # the store is down, or the page too large: its messages are read again, one by one
                await self._back_off(doing, error, failures)

    async def _back_off(self, doing: str, error: Exception, failures: int) -> None:
        self._report(RecoveryFault.of(doing, error))
        delay = exponential(failures, _FIRST_WAIT_S, _FIRST_WAIT_S, _LONGEST_WAIT_S)
        await pause(self._clock, jittered(delay, 0.2, self._tools.chance()))

    async def _working(self) -> None:
        """Start the work that there is, and wait for more."""
        at_work: dict[str, asyncio.Task[None]] = {}
        try:
            while not self._is_stopping:
                self._woken.clear()
                wait = await self._start_work(at_work)
                await self._hints.wait(self._woken, wait)
        finally:
            await self._come_to_an_end(list(at_work.values()))
            await self._hand_on()

    async def _come_to_an_end(self, tasks: "list[asyncio.Task[None]]") -> None:
        """Let lanes finish their current page; a lane that takes longer is interrupted, and its work goes on later."""
        with suppress(TimeoutError):
            async with self._clock.timeout(self._settings.lease):
                await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hand_on(self) -> None:
        """Tell the other processes of the work that is left: they heard of it while this one held it."""
        with suppress(RedriveError):  # their poll finds it
            work = await self._ledger.work()
            if work.operations or work.lanes:
                await self.wake()

    async def _start_work(self, at_work: "dict[str, asyncio.Task[None]]") -> float:
        """Start what is not under way; return how long to wait before looking again."""
        try:
            work = await self._ledger.work()
            now = await self._ledger.now()
            lanes = await self._lanes(work.lanes)
        except Exception as error:  # noqa: BLE001 - also a bug of this package must not stop the work that is possible
            self._report(RecoveryFault.of("looking for work", error))
            return min(1.0, self._settings.poll)
        jobs = {f"operation/{number}": partial(self._attend, number) for number in work.operations}
        jobs |= {f"lane/{lane}": partial(self._in_lane, lane) for lane in lanes}
        for name in [name for name in jobs if name not in at_work]:
            at_work[name] = asyncio.create_task(self._guarded(name, jobs[name]), name=name)
            at_work[name].add_done_callback(lambda task: at_work.pop(task.get_name()))
        wait = self._settings.poll if not jobs else min(self._settings.poll, self._settings.lease)
        return wait if work.next_at is None else max(0.01, min(wait, work.next_at - now))

    async def _lanes(self, busy: Sequence[str]) -> list[str]:
        """Return the lanes with work, and idle lanes whose staging queue has copies left that belong to no batch."""
        found = list(busy)
        for lane in await self._ledger.lanes():
            if lane.name not in busy and lane.batch is None and lane.session is None:
                with suppress(QueueNotFound):
                    info = (await self._broker.engine.inspect(staging_queue(lane.name)))[0]
                    found += [lane.name] if info.ready + info.locked + info.dead else []
        return found

    async def _guarded(self, name: str, job: Callable[[], Awaitable[bool]]) -> None:
        """Do a piece of work; after a failure, wait, longer each time, and try again.

        Whatever goes wrong, even a bug of this package, all other work goes on: one operation stops no service.
        """
        try:
            has_worked = await job()
        except Exception as error:  # noqa: BLE001 - see above; it is reported, and tried again
            self._failures[name] = self._failures.get(name, 1) + 1
            await self._back_off(name, error, self._failures[name])
            self._woken.set()
            return
        self._failures.pop(name, None)
        if has_worked:
            self._woken.set()  # there may be more

    # --- pieces of work

    async def _attend(self, number: int, due: list[float] | None = None) -> bool:
        """Start or end an operation, judge its canaries, and mark its messages, whichever is due."""
        async with self._leases.held(f"operation/{number}", due) as lease:
            if lease is None:
                return False
            try:
                before = await self._ledger.operation(number)
                has_marked = await self._mark(lease, number, due)
                return await self._report_change(number, before.state) or has_marked
            except LeaseLost:  # another process goes on with it
                return False
            except Unavailable:
                raise
            except Exception as error:  # noqa: BLE001 - it halts its own operation only
                await halt(self._tools, lease, number, error)
                return True

    async def _mark(self, lease: Lease, number: int, due: list[float] | None) -> bool:
        """Mark the next messages of an operation; False if there are none."""
        state = await self._ledger.settle(lease, number)
        if state is OperationState.WATCHING:
            state = await self._judge(lease, number, due)
        claimed = 0 if state in ENDED else await self._ledger.claim(lease, number)
        has_more = state in (OperationState.RUNNING, OperationState.CANCELLING)
        while has_more and not self._is_stopping:
            has_more = await self._ledger.mark(lease, number)
            claimed += await self._ledger.claim(lease, number)
        await self._ledger.settle(lease, number)
        return bool(claimed)

    async def _judge(self, lease: Lease, number: int, due: list[float] | None) -> OperationState:
        canary = (await self._ledger.operation(number)).plan.canary
        counts, silent = await self._ledger.canaries(number)
        verdict, reason = (Verdict.APPROVE, "") if canary is None else judge(canary, counts, silent)
        if verdict is Verdict.WAIT:
            if due is not None and canary is not None and not counts.get(Outcome.PENDING, 0):
                due.append(max(0.001, canary.patience - silent))
            return OperationState.WATCHING
        event = OperationEvent.APPROVE if verdict is Verdict.APPROVE else OperationEvent.STOP
        await self._ledger.advance(lease, number, event, reason)
        return (await self._ledger.operation(number)).state

    async def _report_change(self, number: int, before: OperationState) -> bool:
        now = await self._ledger.operation(number)
        if now.state is before:
            return False
        self._report(OperationChanged(number, now.plan.kind.value, now.state.word, "", now.state_reason))
        return True

    async def _in_lane(self, lane: str, due: list[float] | None = None, *, waits: bool = True) -> bool:
        """Work in a lane until nothing is left to do there; False if there was nothing to do."""
        runner = self._runner(lane)
        async with self._room, self._leases.held(f"lane/{lane}", due) as lease:
            if lease is None:
                return False
            try:
                await runner.run(lease, waits=waits)
            except (LeaseLost, Stopping):  # another process goes on with it, or this one will
                return False
            except NotYet as error:
                if due is not None:
                    due.append(error.seconds)
                return runner.has_worked
        return True

    def _runner(self, lane: str) -> LaneRunner:
        """Return the runner of a lane: always the same one, because it knows what it has sent there."""
        if lane not in self._runners:
            self._runners[lane] = LaneRunner(
                lane,
                self._tools,
                settings=self._settings.lanes,
                transforms=self._settings.transforms,
                stopped=self._stopped,
            )
        return self._runners[lane]
