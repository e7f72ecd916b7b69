# SPDX-License-Identifier: MIT
"""The worker: handlers for queues, running until they are told to stop."""

import asyncio
import random
import socket
from collections.abc import Callable
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
from redrive.worker.recoverability import Recoverability
from redrive.worker.run import WorkerRun
from redrive.worker.signals import STOP_SIGNALS, handling_signals
from redrive.worker.slowdown import SlowDown
from redrive.worker.store_errors import RECONNECT, OnError, check_reconnect

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
        self._run: WorkerRun | None = None

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

    async def run(
        self, broker: Broker, *, until_idle: bool | duration.Duration = False, handle_signals: bool = False
    ) -> None:
        """Handle messages until ``stop()``, or until there are none.

        Args:
            broker: where the queues are; it is open, and stays so.
            until_idle: whether to return when nothing is ready in any of its queues and no handler holds a message; or
                for how long that has to be so. What becomes ready later is not waited for, be it scheduled or
                redelivered after a delay, and neither is what others have locked.
            handle_signals: whether SIGTERM and SIGINT stop the worker, and a second one at once. Only the program's
                main thread can ask for it.

        Raises:
            QueueNotFound: nobody has declared a queue that has a handler.
            InvalidSetting: a handler's settings and its queue's do not go together.
        """
        _check_broker(broker)
        idle_s = _idle_seconds(until_idle)
        if self._run is not None:
            raise UsageError(f"worker {self.name!r} is running already; make another one")
        if not self._handlers:
            raise UsageError(f"worker {self.name!r} has no handlers; declare one with @worker.handler('orders')")
        self._run = run = WorkerRun(broker, self._grace_s)
        try:
            for handler in self._handlers.values():
                run.add(handler, await self._checked(broker, handler), self._surroundings(broker, run))
            with handling_signals(STOP_SIGNALS if handle_signals else (), self._on_signal):
                await run.until_stopped(idle_s)
        finally:
            self._run = None

    def run_blocking(self, broker: Broker, *, until_idle: bool | duration.Duration = False) -> None:
        """Open a broker and handle messages until a signal, or until there are none: a program that is a worker.

        Args:
            broker: where the queues are; it is not open.
            until_idle: as for ``run``.
        """
        _check_broker(broker)

        async def open_and_run() -> None:
            async with broker:
                await self.run(broker, until_idle=until_idle, handle_signals=True)

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

    def _surroundings(self, broker: Broker, run: WorkerRun) -> Surroundings:
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


def _idle_seconds(until_idle: bool | duration.Duration) -> float | None:  # noqa: FBT001 - the setting's own value
    if isinstance(until_idle, bool):
        return 0.0 if until_idle else None
    return duration.seconds("until_idle", until_idle, zero=True)


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
