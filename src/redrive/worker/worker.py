# SPDX-License-Identifier: MIT
"""The worker: runs the handlers of queues until it is stopped."""

import asyncio
import random
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Never, TypeVar, Unpack

from redrive import duration, number
from redrive.broker import BlockingBroker, Broker, counting_calls, random_id
from redrive.broker.rules import DEAD_LETTER_SUFFIX, check_queue_name
from redrive.errors import InvalidSetting, UnknownSetting, UsageError
from redrive.retry import Backoff
from redrive.telemetry import Event, report
from redrive.worker.environment import WorkerEnvironment
from redrive.worker.handler import Handler, checked_handler, name_of
from redrive.worker.heartbeat import heartbeat
from redrive.worker.queue_setup import checked_queue, declare_queues
from redrive.worker.run import WorkerRun
from redrive.worker.settings import HandlerOptions, HandlerSettings
from redrive.worker.signals import STOP_SIGNALS, handling_signals
from redrive.worker.store_errors import RECONNECT, OnError, check_reconnect

F = TypeVar("F", bound=Callable[..., Any])


class Worker:
    """Handlers for queues. Declare them with ``@worker.handler``, then ``await worker.run(broker)``.

    Args:
        name: what failure headers and telemetry call it.
        grace: seconds that running handlers have to end when the worker stops.
        on_error: a function, plain or async, that is called with an error and with what failed when the store does not
            answer. ``redrive.retry`` retries the call first, and the worker goes on trying. No message is blamed.
        reconnect: the policy of those retries, from ``redrive.retry``, with ``max_attempts``. After each round of them
            the worker calls ``on_error``, waits for the policy's longest delay, and begins the next round.
        declare: whether the worker declares its queues and their error queues when it starts, with the settings that
            each handler states. A handler's own ``declare`` overrides it.
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
        declare: bool = False,
        on_event: Callable[[Event], object] | None = None,
        chance: Callable[[], float] = random.random,  # noqa: TID251 - the default; tests pass their own
        **unknown: Never,
    ) -> None:
        _check_known("Worker", unknown, tuple(type(self).__init__.__kwdefaults__ or ()))
        if not isinstance(name, str) or not name:
            raise InvalidSetting("name", name, "must be a text, such as 'billing'")
        for setting, value in (("on_error", on_error), ("on_event", on_event)):
            if value is not None and not callable(value):
                raise InvalidSetting(setting, value, "must be a function")
        self.name = name
        self._grace_s = duration.seconds("grace", grace, zero=True)
        self._on_error = on_error
        self._reconnect = check_reconnect(reconnect)
        self._report = partial(report, on_event=on_event)
        self._declare = number.flag("declare", declare)
        self._chance = chance
        self._handlers: dict[str, Handler] = {}
        self._run: WorkerRun | None = None

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that have a handler."""
        return tuple(self._handlers)

    def handler(self, queue: str, **settings: Unpack[HandlerOptions]) -> Callable[[F], F]:
        """Declare the function below as the handler of a queue.

        Its first parameter is the payload, made from the body by its annotation: ``bytes``, ``str``, JSON types, a
        dataclass, a pydantic or msgspec model. A second one is a ``Context``, or a ``BlockingContext`` for a function
        that is not async; that one runs in a thread. When it returns, the message is completed; when it raises,
        ``recoverability`` decides.

        Args:
            queue: the queue.
            settings: how messages are handed to it: ``concurrency``, ``prefetch``, ``recoverability``,
                ``auto_complete``, ``timeout``, ``max_lock_renewal``, ``retry_in_place``, ``slow_down``, ``max_hung``,
                ``receive_and_delete``, ``declare``.
        """
        _check_known("handler", settings, HandlerSettings.names())
        _check_queue(queue)
        if queue in self._handlers:
            raise InvalidSetting("queue", queue, f"has a handler already: {self._handlers[queue].name}")
        checked = HandlerSettings(**settings)  # type: ignore[arg-type]  # it turns timedelta into seconds

        def declare(fn: F) -> F:
            self._handlers[queue] = checked_handler(queue, fn, checked)
            return fn

        return declare

    async def run(
        self, broker: Broker, *, until_idle: bool | duration.Duration = False, handle_signals: bool = False
    ) -> None:
        """Handle messages until ``stop()``, or until there are none.

        Args:
            broker: where the queues are; it is open, and stays so.
            until_idle: whether to return when nothing is ready in any of its queues and no handler holds a message; or
                for how long that must be so. The worker does not wait for messages that become ready later, because
                they are scheduled or redelivered after a delay, nor for messages that other receivers have locked.
            handle_signals: whether SIGTERM and SIGINT stop the worker; a second signal stops it at once. This works in
                the program's main thread only.

        Raises:
            QueueNotFound: a queue that has a handler is not declared.
            QueueConflict: a queue that the worker declares exists already, with a different setting.
            InvalidSetting: a handler's settings do not fit its queue's.
        """
        _check_broker(broker)
        idle_s = _idle_seconds(until_idle)
        if self._run is not None:
            raise UsageError(f"worker {self.name!r} is running already; make another one")
        if not self._handlers:
            raise UsageError(f"worker {self.name!r} has no handlers; declare one with @worker.handler('orders')")
        self._run = run = WorkerRun(broker, self._grace_s)
        try:
            handlers = list(self._handlers.values())
            await declare_queues(broker, handlers, self._declare)
            for handler in handlers:
                queue = await checked_queue(broker, handler, self._report)
                run.add(handler, queue, self._environment(broker, run))
            look = partial(run.report, self.name, random_id())
            with counting_calls(broker), handling_signals(STOP_SIGNALS if handle_signals else (), self._on_signal):
                async with heartbeat(broker, look):
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
        """Stop: receive no more messages, give running handlers ``grace`` seconds to end, and give the rest back.

        It returns at once; ``run`` returns when the worker has stopped. It may be called from any thread.

        Args:
            now: give all messages back at once and do not wait for handlers.
        """
        if self._run is not None:
            self._run.stop(now=now)

    def _on_signal(self) -> None:
        if self._run is not None:
            self._run.stop(now=self._run.is_stopping)

    def _environment(self, broker: Broker, run: WorkerRun) -> WorkerEnvironment:
        return WorkerEnvironment(
            broker=broker,
            worker=self.name,
            host=socket.gethostname(),
            chance=self._chance,
            report=self._report,
            on_error=self._on_error,
            reconnect=self._reconnect,
            on_fatal=run.fail,
        )


def _check_known(of: str, given: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise UnknownSetting(of, name, known)


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
    url = repr(broker) if isinstance(broker, str) and "@" not in broker else "url"  # it may contain a password
    what = url if isinstance(broker, str) else repr(broker)
    raise UsageError(f"{what} is no broker; pass connect({url})")
