# SPDX-License-Identifier: MIT
"""Declares a worker's queues when it starts, if it is set to, and checks that they fit their handlers."""

from collections.abc import Callable, Sequence

from redrive.broker import Broker, QueueInfo, QueueOptions, source_queue
from redrive.broker.rules import is_dead_letter_queue
from redrive.errors import InvalidSetting, QueueNotFound
from redrive.telemetry import Event
from redrive.worker.events import DeliveriesTooFew
from redrive.worker.handler import Handler
from redrive.worker.recoverability import Recoverability


async def declare_queues(broker: Broker, handlers: Sequence[Handler], by_default: bool) -> None:  # noqa: FBT001 - the worker's setting
    """Declare the queues of the handlers that are set to, and their error queues.

    Raises:
        QueueConflict: a queue exists already, with another setting than its handler states.
    """
    chosen = [(each, by_default if each.declare is None else each.declare) for each in handlers]
    declaring = [(handler, declare) for handler, declare in chosen if declare is not False]
    for handler, declare in declaring:
        settings: QueueOptions = {} if isinstance(declare, bool) else declare
        await broker.declare(source_queue(handler.queue), **settings)
    for handler, _ in declaring:  # after all queues: one handler's error queue may be another handler's queue
        if handler.policy is not None and handler.policy.error_queue is not None and not handler.receive_and_delete:
            await _declare_error_queue(broker, handler.queue, handler.policy.error_queue)


async def _declare_error_queue(broker: Broker, queue: str, name: str) -> None:
    """Declare an error queue, unless it exists; an existing one is not changed."""
    try:
        await broker.inspect(name)
    except QueueNotFound:
        largest = (await broker.inspect(queue)).settings.max_message_bytes
        await broker.declare(name, max_message_bytes=largest)


async def checked_queue(broker: Broker, handler: Handler, report: Callable[[Event], None]) -> QueueInfo:
    """Return a handler's queue, if it fits the handler.

    Raises:
        InvalidSetting: it does not.
        QueueNotFound: the queue, or the handler's error queue, is not declared.
    """
    queue = await broker.inspect(handler.queue)
    if queue.settings.requires_session and (handler.prefetch or handler.receive_and_delete):
        setting = "prefetch" if handler.prefetch else "receive_and_delete"
        problem = f"cannot be combined with sessions, which {handler.queue!r} has: their messages come one by one"
        raise InvalidSetting(setting, getattr(handler, setting), problem)
    if handler.receive_and_delete:
        return queue
    handler.check_fits(queue)
    policy = handler.policy
    if policy is not None:
        await _check_error_queue(broker, handler, policy)
        if policy.immediate + 1 > queue.settings.max_delivery_count:
            report(DeliveriesTooFew(handler.queue, policy.immediate, queue.settings.max_delivery_count))
    return queue


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
