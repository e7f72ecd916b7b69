# SPDX-License-Identifier: MIT
"""One handler at work on one queue: lock, handle, settle."""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from redrive.broker import Complete, QueueInfo, QueueSettings, parents, spans
from redrive.clock import pause
from redrive.errors import UsageError
from redrive.telemetry import is_traced
from redrive.tracing import note_failure
from redrive.worker.call import Caller
from redrive.worker.completions import Completions
from redrive.worker.context import BlockingContext, Context
from redrive.worker.environment import WorkerEnvironment
from redrive.worker.handler import Handler
from redrive.worker.handling_times import HandlingTimes
from redrive.worker.held_message import HeldMessage
from redrive.worker.hung_handlers import LATEST_END_S, HungHandlers
from redrive.worker.lock_keeper import LockKeeper
from redrive.worker.pacer import Pacer
from redrive.worker.receiver import Receiver
from redrive.worker.receiver_setup import ReceiverSetup
from redrive.worker.redelivery import Redelivery, counts_against_all
from redrive.worker.reporter import Reporter
from redrive.worker.session_receiver import SessionReceiver
from redrive.worker.settler import Settler
from redrive.worker.store_errors import StoreErrors


class HandlerRun:
    """The messages of one queue on their way through one handler.

    Args:
        handler: the handler.
        queue: its queue.
        environment: what the worker's handlers share.

    Attributes:
        idle_since: since when no message has been held, on the monotonic clock.
        times: how long messages took to be handled.
    """

    def __init__(self, handler: Handler, queue: QueueInfo, environment: WorkerEnvironment) -> None:
        self._handler = handler
        self._environment = environment
        self._clock = environment.broker.clock
        self._running: set[HeldMessage] = set()
        self._busy: set[HeldMessage] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._fetching: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self.idle_since = self._clock.monotonic()
        self.times = HandlingTimes()
        self._store_errors = self._new_store_errors()
        lock_s = queue.settings.lock_duration
        self._reporter = Reporter(handler.queue, self._clock, environment.report)
        self._hung = HungHandlers(handler, self._clock, environment.report, environment.on_fatal)
        self._keeper = LockKeeper(
            environment.broker.engine,
            self._clock,
            lock_s=lock_s,
            max_renewal_s=handler.max_lock_renewal,
            store_errors=self._store_errors,
            on_lost=self._note_lost,
        )
        self._receiver = self._new_receiver(queue.settings)
        self._pacer = Pacer(handler, self._clock, lock_s, environment.chance, environment.report)
        self._caller = Caller(handler, self._clock, environment.chance, self._note_overdue)
        self._settler = Settler(
            environment.broker, self._keeper, self._store_errors, self._reporter, is_deleting=handler.receive_and_delete
        )
        self._completions = self._new_completions()
        self._redelivery = Redelivery(
            handler,
            queue.settings,
            environment,
            settler=self._settler,
            store_errors=self._store_errors,
            reporter=self._reporter,
        )

    def _new_store_errors(self) -> StoreErrors:
        return StoreErrors(
            self._handler.queue,
            clock=self._clock,
            chance=self._environment.chance,
            report=self._environment.report,
            on_error=self._environment.on_error,
            reconnect=self._environment.reconnect,
        )

    def _new_receiver(self, settings: QueueSettings) -> Receiver | SessionReceiver:
        handler = self._handler
        setup = ReceiverSetup(
            queue=handler.queue,
            engine=self._environment.broker.engine,
            clock=self._clock,
            lock_s=settings.lock_duration,
            store_errors=self._store_errors,
            reporter=self._reporter,
            keeper=self._keeper,
            wanted=self._wanted,
            on_arrival=self._pump,
        )
        if settings.requires_session:
            return SessionReceiver(setup, most=handler.concurrency, on_change=self._note_idle)
        return Receiver(setup, delete=handler.receive_and_delete)

    def _new_completions(self) -> Completions | None:
        """Return what completes messages together, if several are handled at a time."""
        engine = self._environment.broker.engine
        if self._handler.concurrency == 1 or not engine.capabilities.is_transactional:
            return None
        return Completions(engine, lambda lease: self._start(lease, self._complete_alone(lease)), self._completed)

    # --- starting and stopping

    def start(self) -> None:
        """Begin to receive messages and to handle them."""
        self._fetching = asyncio.create_task(self._receiver.run())
        self._watch(self._fetching)
        self._spawn(self._keeper.run())

    async def stop_receiving(self) -> None:
        """Receive no more messages, and give back those that wait."""
        self._settler.is_stopping = True
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])
        self._receiver.clear()
        await self._receiver.released()

    async def finished(self) -> None:
        """Wait until no handler is running, except those that hang."""
        while tasks := [lease.task for lease in self._running if lease.task is not None]:
            await asyncio.wait(tasks)

    def cancel_handlers(self) -> None:
        """Cancel every handler; its message is given back when it has ended."""
        for lease in (*self._running, *self._hung):
            lease.cancel()

    async def release(self) -> None:
        """Give all messages back at once, while their handlers run."""
        held = [lease for lease in self._running if lease.phase == "handling" and not lease.is_lost]
        await asyncio.gather(*(self._give_back(lease) for lease in held))

    async def close(self) -> None:
        """End the background tasks."""
        await self._receiver.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._caller.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._watch(asyncio.create_task(work))

    def _watch(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._check)

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._environment.on_fatal(error)

    # --- being idle

    @property
    def queue(self) -> str:
        """Its queue."""
        return self._handler.queue

    @property
    def concurrency(self) -> int:
        """How many messages are handled at a time."""
        return self._handler.concurrency

    @property
    def in_flight(self) -> int:
        """How many messages are being handled."""
        return len([*self._running, *self._hung])

    @property
    def taken(self) -> int:
        """How many messages have been received so far."""
        return self._receiver.taken

    @property
    def is_idle(self) -> bool:
        """Whether no message is held, and messages may be received."""
        return self._idle.is_set()

    async def idle(self) -> None:
        """Wait until no message is held, and messages may be received."""
        await self._idle.wait()

    async def look(self) -> bool:
        """Say whether there is a message to handle; if there is, begin to handle it."""
        return await self._receiver.look()

    def _note_idle(self) -> None:
        is_pausing = self._pacer.is_slow and self._clock.monotonic() < self._pacer.resume_at
        if self._running or not self._receiver.is_empty or is_pausing:
            self._idle.clear()
        elif not self._idle.is_set():
            self._idle.set()
            self.idle_since = self._clock.monotonic()

    # --- receiving messages

    def _wanted(self) -> int:
        if self._pacer.is_slow:
            is_idle = not self._running and not self._receiver.waiting
            return 1 if is_idle and self._clock.monotonic() >= self._pacer.resume_at else 0
        return self._handler.concurrency + self._handler.prefetch - len(self._busy) - self._receiver.waiting

    def _pump(self) -> None:
        """Start the handler for waiting messages, up to its concurrency."""
        limit = self._handler.concurrency  # a slow worker holds at most one message
        is_closed = (
            self._settler.is_stopping and not self._handler.receive_and_delete
        )  # what is deleted cannot be given back
        while len(self._busy) < limit and not is_closed and (lease := self._receiver.next()) is not None:
            lease.phase = "settled" if self._handler.receive_and_delete else "handling"
            lease.began_at = self._clock.monotonic()
            lease.is_probe = self._pacer.is_slow
            self._keeper.watch(lease)
            self._running.add(lease)
            self._busy.add(lease)
            self._start(lease, self._traced(lease) if is_traced() else self._process(lease))
            self._idle.clear()

    def _start(self, lease: HeldMessage, work: Coroutine[Any, Any, None]) -> None:
        lease.task = asyncio.create_task(work, name=f"redrive-handler-{lease.id}")
        lease.task.add_done_callback(partial(self._ended, lease))

    def _ended(self, lease: HeldMessage, task: asyncio.Task[None]) -> None:
        if lease.task is task:
            self._done([lease], task)
        else:  # another task completes it
            self._check(task)

    def _done(self, leases: Sequence[HeldMessage], task: asyncio.Task[None]) -> None:
        """Forget messages that are settled, or cannot be."""
        for lease in leases:
            self._running.discard(lease)
            self._hung.discard(lease)
            self._busy.discard(lease)
            self._receiver.ended(lease)
        self._check(task)
        self._go_on()
        self._note_idle()

    def _free(self, lease: HeldMessage) -> None:
        """Make room for the next message: this one's handler has ended, though it may not be settled yet."""
        self._busy.discard(lease)
        self._go_on()

    def _make_room(self, lease: HeldMessage) -> None:
        """Do the same for a handler that has nothing left to do but settling, for as many as run at a time."""
        if len(self._running) < 2 * self._handler.concurrency:
            self._free(lease)

    def _go_on(self) -> None:
        self._receiver.wake()
        if not self._receiver.is_empty:
            self._pump()

    # --- handlers that go on after their message is lost

    def _note_lost(self, lease: HeldMessage) -> None:
        self._reporter.lost(lease, self._keeper.stalled_s)
        if lease.phase != "handling":
            return
        if self._handler.is_async:
            lease.cancel()
        self._spawn(self._give_up_on(lease))

    def _note_overdue(self, lease: HeldMessage, timeout: float) -> None:
        self._reporter.overdue(lease, timeout)
        if lease.phase in ("settled", "joined"):  # it has no lock to lose
            self._spawn(self._give_up_on(lease))

    async def _give_up_on(self, lease: HeldMessage) -> None:
        """Give a handler's place to the next message, unless the handler ends soon."""
        await pause(self._clock, LATEST_END_S)
        if lease in self._running:
            self._running.discard(lease)
            self._hung.add(lease)
            self._receiver.ended(lease)
            self._free(lease)
            self._note_idle()

    # --- handling

    async def _traced(self, lease: HeldMessage) -> None:
        with spans.processing(lease.received):
            await self._process(lease)

    async def _process(self, lease: HeldMessage) -> None:
        parents.note_handled(lease.id)
        context = self._context(lease)
        try:
            await self._caller.call(lease, context)
            if not self._handler.auto_complete or lease.phase != "handling":
                await self._check_settled(lease)
            else:
                self._free(lease)  # so that the next messages are locked in the transaction that completes this one
                sends = [] if context is None else context.take_sends()
                if self._completions is not None and not sends and self._completions.fits(lease):
                    self._completions.add(lease)
                    return
                await self._settler.settle(lease, [Complete(lease.lock), *sends], is_handled=True)
        except asyncio.CancelledError:
            if lease.is_cancelled:
                await self._give_back(lease)
                return
            await self._failed(lease, RuntimeError("the handler was cancelled from inside"))
        except KeyboardInterrupt as interrupt:  # it ends the program, as always on an event loop
            await self._give_back(lease)
            self._environment.on_fatal(interrupt)
        except Exception as error:  # noqa: BLE001 - recoverability decides what becomes of the message
            await self._failed(lease, error)
        else:
            self._succeeded(lease)

    async def _complete_alone(self, lease: HeldMessage) -> None:
        """Complete a message that could not be completed with others."""
        try:
            await self._settler.settle(lease, [Complete(lease.lock)], is_handled=True)
        except Exception as error:  # noqa: BLE001 - recoverability decides what becomes of the message
            await self._failed(lease, error)
        else:
            self._succeeded(lease)

    def _completed(self, leases: Sequence[HeldMessage], task: asyncio.Task[None]) -> None:
        """Note that messages were completed together, or that it was cancelled."""
        for lease in leases:
            if lease.phase == "settled":
                self._succeeded(lease)
        self._done(leases, task)

    async def _check_settled(self, lease: HeldMessage) -> None:
        if lease.phase == "handling":
            raise UsageError(
                f"{self._handler.name} returned without settling its message; await context.complete() or another"
            )
        if lease.phase == "joined" and not await self._settler.has_committed(lease):
            raise UsageError(
                f"{self._handler.name} returned, but the transaction that completes its message was not committed"
            )

    def _context(self, lease: HeldMessage) -> Context | BlockingContext | None:
        if not self._handler.takes_context:
            return None
        if self._handler.is_async:
            return Context(lease, self._settler, partial(self._make_room, lease))
        return BlockingContext(lease, self._settler, asyncio.get_running_loop())

    async def _give_back(self, lease: HeldMessage) -> None:
        if self._handler.receive_and_delete:
            self._redelivery.dropped(lease)
        else:
            await self._settler.give_back(lease)

    async def _failed(self, lease: HeldMessage, error: Exception) -> None:
        note_failure(error)
        decision = await self._redelivery.failed(lease, error)
        if self._handler.receive_and_delete or (decision is not None and counts_against_all(decision)):
            self._slow_down(lease)
        if decision is not None:
            self._note_time(lease)

    def _slow_down(self, lease: HeldMessage) -> None:
        if seconds := self._pacer.failed(is_probe=lease.is_probe):
            self._receiver.clear()
            self._spawn(self._wake_after(seconds))

    async def _wake_after(self, seconds: float) -> None:
        await pause(self._clock, seconds)
        self._note_idle()
        self._receiver.wake()

    def _succeeded(self, lease: HeldMessage) -> None:
        self._pacer.succeeded()
        self._note_time(lease)

    def _note_time(self, lease: HeldMessage) -> None:
        taken = self._clock.monotonic() - lease.began_at
        self._pacer.took(taken)
        self.times.add(taken)
