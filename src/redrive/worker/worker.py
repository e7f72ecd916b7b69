# SPDX-License-Identifier: MIT
"""The worker: handlers for queues, running until they are told to stop."""

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Never, TypeVar

from redrive import duration
from redrive.broker import BlockingBroker, Broker, QueueInfo
from redrive.broker.rules import DEAD_LETTER_SUFFIX, check_queue_name, is_dead_letter_queue
from redrive.errors import InvalidSetting, UnknownSetting, UsageError
from redrive.retry import Backoff
from redrive.telemetry import Event, report
from redrive.worker.environment import Surroundings
from redrive.worker.events import DeliveriesTooFew
from redrive.worker.handler import Decide, Handler, checked_handler, name_of
from redrive.worker.hung_handlers import LATEST_END_S
from redrive.worker.recoverability import Recoverability
from redrive.worker.signals import STOP_SIGNALS, handling_signals
from redrive.worker.slowdown import SlowDown
from redrive.worker.store_errors import RECONNECT, OnError, check_reconnect
from redrive.worker.subscription import Subscription

F = TypeVar("F", bound=Callable[..., Any])


class Worker:
    """Handlers for queues. Declare them with ``@worker.handler``, then ``await worker.run(broker)``.

    Args:
        name: what failure headers and telemetry call it.
        grace: seconds that running handlers have to end when the worker stops.
        on_error: a function, plain or async, of an error and of what failed, for faults that no message is to blame
            for: the store does not answer. ``redrive.retry`` retries them first, and the worker goes on trying.
        reconnect: how those retries go: a policy of ``redrive.retry`` with ``max_attempts``. After each round of them
            ``on_error`` is told, and the next comes after the policy's longest wait.
        on_event: a function that gets every telemetry event, beside logging and OpenTelemetry.
        chance: where random numbers come from, 0 <= x < 1.
    """

    def __init__(
        self,
        name: str = "worker",
        *,
        grace: duration.Duration = 30.0,
        on_error: OnError | None = None,
        reconnect: Backoff = RECONNECT,
        on_event: Callable[[Event], object] | None = None,
        chance: Callable[[], float] = random.random,  # noqa: TID251 - the default; tests pass their own
        **unknown: Never,
    ) -> None:
        _check_known("Worker", unknown, type(self).__init__)
        if not isinstance(name, str) or not name:
            raise InvalidSetting("name", name, "must be a text, such as 'billing'")
        for setting, value in (("on_error", on_error), ("on_event", on_event)):
            if value is not None and not callable(value):
                raise InvalidSetting(setting, value, "must be a function")
        self.name = name
        self._grace_s = duration.seconds("grace", grace, zero=True)
        self._on_error = on_error
        self._reconnect = check_reconnect(reconnect)
        self._on_event = on_event
        self._chance = chance
        self._handlers: dict[str, Handler] = {}
        self._run: _Run | None = None

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that have a handler."""
        return tuple(self._handlers)

    def handler(
        self,
        queue: str,
        *,
        concurrency: int = 1,
        prefetch: int = 0,
        recoverability: Recoverability | Decide | None = None,
        auto_complete: bool = True,
        timeout: duration.Duration | None = None,
        max_lock_renewal: duration.Duration = 300.0,
        retry_in_place: Backoff | None = None,
        slow_down: SlowDown | None = SlowDown(),  # noqa: B008 - a frozen value
        max_hung: int | None = None,
        receive_and_delete: bool = False,
        **unknown: Never,
    ) -> Callable[[F], F]:
        """Declare the function below as the handler of a queue.

        Its first parameter is the payload, made from the body by its annotation: ``bytes``, ``str``, JSON types, a
        dataclass, a pydantic or msgspec model. A second one is a ``Context``, or a ``BlockingContext`` for a function
        that is not async; that one runs in a thread. When it returns, the message is completed; when it raises,
        ``recoverability`` decides.

        Args:
            queue: the queue.
            concurrency: how many messages are handled at a time.
            prefetch: how many more are fetched ahead. They are locked while they wait.
            recoverability: what becomes of a message when the handler fails: a ``Recoverability``, or a function of a
                ``HandlerFailure`` that returns a decision.
            auto_complete: whether the worker completes a message when its handler returns without having settled it;
                otherwise that is a failure.
            timeout: seconds one call may take. An async handler is cancelled; one in a thread cannot be: it is
                reported, and counts as failed when it ends.
            max_lock_renewal: seconds for which the lock is renewed while the handler runs; 0: not at all.
            retry_in_place: call the handler again while the lock is held, as this policy says; refused at the start if
                its waits could outlast the lock.
            slow_down: when to slow down because everything fails; None: never.
            max_hung: how many calls may go on although their messages' locks were lost; one more, and the worker ends
                with ``HandlersHung``. None: as many as ``concurrency``, and 10 at least.
            receive_and_delete: take messages out of their queue before they are handled: each is handled at most once,
                and is gone if its handler fails, or if the process ends meanwhile.
            unknown: there are no others.
        """
        _check_known("handler", unknown, type(self).handler)
        _check_queue(queue)
        if queue in self._handlers:
            raise InvalidSetting("queue", queue, f"has a handler already: {self._handlers[queue].name}")

        def declare(fn: F) -> F:
            self._handlers[queue] = checked_handler(
                queue,
                fn,
                concurrency=concurrency,
                prefetch=prefetch,
                recoverability=recoverability,
                auto_complete=auto_complete,
                timeout=timeout,
                max_lock_renewal=max_lock_renewal,
                retry_in_place=retry_in_place,
                slow_down=slow_down,
                max_hung=max_hung,
                receive_and_delete=receive_and_delete,
            )
            return fn

        return declare

    async def run(self, broker: Broker, *, handle_signals: bool = False) -> None:
        """Handle messages until ``stop()``.

        Args:
            broker: where the queues are; it is open, and stays so.
            handle_signals: whether SIGTERM and SIGINT stop the worker, and a second one at once. Only the program's
                main thread can ask for it.

        Raises:
            QueueNotFound: nobody has declared a queue that has a handler.
            InvalidSetting: a handler's settings and its queue's do not go together.
        """
        _check_broker(broker)
        if self._run is not None:
            raise UsageError(f"worker {self.name!r} is running already; make another one")
        if not self._handlers:
            raise UsageError(f"worker {self.name!r} has no handlers; declare one with @worker.handler('orders')")
        self._run = run = _Run(broker, self._grace_s)
        try:
            for handler in self._handlers.values():
                run.add(handler, await self._checked(broker, handler), self._surroundings(broker, run))
            with handling_signals(STOP_SIGNALS if handle_signals else (), self._on_signal):
                await run.until_stopped()
        finally:
            self._run = None

    def run_forever(self, broker: Broker) -> None:
        """Open a broker and handle messages until a signal ends it; for programs that are nothing but a worker."""
        _check_broker(broker)

        async def open_and_run() -> None:
            async with broker:
                await self.run(broker, handle_signals=True)

        asyncio.run(open_and_run())

    def stop(self, *, now: bool = False) -> None:
        """Stop: take no more messages, let running handlers end for at most ``grace`` seconds, give the rest back.

        It returns at once; ``run`` returns when it is done. It may be called from any thread.

        Args:
            now: give everything back at once and wait for no handler.
        """
        if self._run is not None:
            self._run.stop(now=now)

    def _on_signal(self) -> None:
        if self._run is not None:
            self._run.stop(now=self._run.is_stopping)

    def _surroundings(self, broker: Broker, run: "_Run") -> Surroundings:
        return Surroundings(
            broker=broker,
            worker=self.name,
            host=socket.gethostname(),
            chance=self._chance,
            report=partial(report, on_event=self._on_event),
            on_error=self._on_error,
            reconnect=self._reconnect,
            on_fatal=run.fail,
        )

    async def _checked(self, broker: Broker, handler: Handler) -> QueueInfo:
        """Return a handler's queue, if the two go together."""
        queue = await broker.inspect(handler.queue)
        if queue.settings.requires_session:
            raise InvalidSetting(
                "queue", handler.queue, "has sessions, which a worker does not serve; accept them yourself"
            )
        if handler.receive_and_delete:
            return queue
        handler.check_fits(queue)
        policy = handler.recoverability
        if policy is not None:
            await _check_error_queue(broker, handler, policy)
            if policy.immediate + 1 > queue.settings.max_delivery_count:
                limit = queue.settings.max_delivery_count
                report(DeliveriesTooFew(handler.queue, policy.immediate, limit), self._on_event)
        return queue


def _check_known(of: str, unknown: dict[str, Never], called: Callable[..., object]) -> None:
    for name in unknown:
        raise UnknownSetting(of, name, tuple(called.__kwdefaults__ or ()))


def _check_queue(queue: str) -> None:
    if callable(queue):
        raise UsageError(f"write @worker.handler('orders') above {name_of(queue)}: a handler needs its queue")
    check_queue_name(queue.removesuffix(DEAD_LETTER_SUFFIX) if isinstance(queue, str) else queue)


def _check_broker(broker: object) -> None:
    if isinstance(broker, Broker):
        return
    if isinstance(broker, BlockingBroker):
        raise UsageError("a worker has an event loop of its own; pass connect(url), not connect_blocking(url)")
    url = repr(broker) if isinstance(broker, str) and "@" not in broker else "url"  # there may be a password in it
    what = url if isinstance(broker, str) else repr(broker)
    raise UsageError(f"{what} is no broker; pass connect({url})")


async def _check_error_queue(broker: Broker, handler: Handler, policy: Recoverability) -> None:
    name = policy.error_queue
    if name is None:
        if is_dead_letter_queue(handler.queue):
            raise InvalidSetting(
                "queue", handler.queue, "is a dead-letter queue, which has none of its own: give it an error_queue"
            )
        return
    if name == handler.queue:
        raise InvalidSetting("error_queue", name, "is the handler's own queue: failures would come back for ever")
    settings = (await broker.inspect(name)).settings
    if settings.duplicate_detection is not None or settings.requires_session:
        raise InvalidSetting(
            "error_queue",
            name,
            "must have neither duplicate detection nor sessions: each would lose or refuse failures",
        )
    largest = (await broker.inspect(handler.queue)).settings.max_message_bytes
    if settings.max_message_bytes < largest:
        raise InvalidSetting(
            "error_queue",
            name,
            f"must take what {handler.queue!r} takes: update it with max_message_bytes={largest}, or more",
        )


class _Run:
    """One run of a worker, from its start to its end."""

    def __init__(self, broker: Broker, grace_s: float) -> None:
        self._clock = broker.clock
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._subscriptions: list[Subscription] = []
        self._stopping = asyncio.Event()
        self._now = asyncio.Event()
        self._fatal: BaseException | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether it has been told to stop."""
        return self._stopping.is_set()

    def add(self, handler: Handler, queue: QueueInfo, around: Surroundings) -> None:
        """Take a handler into it."""
        self._subscriptions.append(Subscription(handler, queue, around))

    def stop(self, *, now: bool) -> None:
        """Begin to stop."""
        with suppress(RuntimeError):  # the loop is closed: it has stopped
            self._loop.call_soon_threadsafe(self._stop, now)

    def _stop(self, now: bool) -> None:  # noqa: FBT001 - a callback's argument
        self._stopping.set()
        if now:
            self._now.set()

    def fail(self, error: BaseException) -> None:
        """Note an error that ends the worker."""
        self._fatal = self._fatal or error
        self._stopping.set()

    async def until_stopped(self) -> None:
        """Run, wind down, and raise what ended it if that was an error."""
        for subscription in self._subscriptions:
            subscription.start()
        try:
            await self._stopping.wait()
            await self._each(Subscription.stop_receiving)
            await self._wind_down()
        finally:  # also when the program cancels us
            await self._each(Subscription.stop_receiving)
            await self._each(Subscription.release)
            for subscription in self._subscriptions:
                subscription.cancel_handlers()
            await self._each(Subscription.close)
        if self._fatal is not None:
            raise self._fatal

    async def _wind_down(self) -> None:
        """Let handlers end by themselves, then by being cancelled, unless it has to be now."""
        if await self._finished_within(self._grace_s) or self._now.is_set():
            return
        for subscription in self._subscriptions:
            subscription.cancel_handlers()
        await self._finished_within(LATEST_END_S)  # then its message is given back all the same

    async def _finished_within(self, seconds: float) -> bool:
        """Wait until all handlers have ended; False if it took too long, or has to be now."""
        finished = asyncio.ensure_future(self._each(Subscription.finished))
        now = asyncio.ensure_future(self._now.wait())
        try:
            with suppress(TimeoutError):
                async with self._clock.timeout(seconds):
                    await asyncio.wait((finished, now), return_when=asyncio.FIRST_COMPLETED)
            return finished.done()
        finally:
            finished.cancel()
            now.cancel()
            await asyncio.wait((finished, now))

    async def _each(self, do: Callable[[Subscription], Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*(do(subscription) for subscription in self._subscriptions))
