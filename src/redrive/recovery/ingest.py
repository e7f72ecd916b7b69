# SPDX-License-Identifier: MIT
"""From error queues and dead-letter queues into the ledger, and word of successes too.

A page of messages is locked, recorded and completed, in this order. Whatever stops it in between delivers the same
messages again, and recording them again changes nothing.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeAlias

from redrive.broker import Abandon, Complete, Effect, Message, Send
from redrive.broker.message import Received
from redrive.errors import LockLost, QueueNotFound, RedriveError
from redrive.recovery.copies import CONFIRMATIONS, EDIT_OF, failure_id
from redrive.recovery.events import MessageFailed, MessageRecovered, MessageSetAside
from redrive.recovery.fingerprint import Group, exception_group, group_id
from redrive.recovery.records import Arrival, Confirmation, Heard, SetAside
from redrive.recovery.tools import Tools
from redrive.recovery.vocabulary import Failure, Unreadable, clean, read_failure
from redrive.telemetry import Event
from redrive.worker.confirming import RECOVERY_HANDLED_AT, RECOVERY_ID, RECOVERY_OPERATION

Classifier: TypeAlias = Callable[[Failure, Message], str | None]
"""Says what a failure has in common with others, in a few words; None: nothing."""

_PAGE = 100
_ID = re.compile(r"[0-9a-f]{32}")


_exception_group = lru_cache(maxsize=1_000)(exception_group)
"""Failures come in swarms that look alike, and taking a trace apart is most of the work."""


class Ingester:
    """Reads failures.

    Args:
        tools: where the queues are, and where failures are recorded.
        classifiers: further ways to group failures, by name.
        events_queue: a queue that is told of every failure and recovery, for integrations; None: nobody is.
    """

    def __init__(self, tools: Tools, *, classifiers: Mapping[str, Classifier], events_queue: str | None) -> None:
        self._broker = tools.broker
        self._engine = tools.broker.engine
        self._ledger = tools.ledger
        self._report = tools.report
        self._classifiers = classifiers
        self._events_queue = events_queue

    async def take(self, queue: str) -> int:
        """Read one page of failures from a queue; return how many messages there were."""
        page = await self._engine.lock_next(queue, _PAGE)
        if page:
            try:
                events = await self.record(page)
            except RedriveError:
                await self._give_back(page)
                raise
            await self._complete(page, events)
        return len(page)

    async def record(self, page: Sequence[Received], *, queue: str | None = None) -> list[Event]:
        """Record failures; return what there is to tell. What cannot be read is set aside.

        Args:
            page: the messages.
            queue: the queue they failed in, from a person who knows.
        """
        arrivals: list[Arrival] = []
        asides: list[SetAside] = []
        for received in page:
            try:
                arrivals.append(self._arrival(received, queue))
            except Unreadable as error:
                asides.append(SetAside(received=received, reason=error.reason))
        if asides:
            await self._ledger.set_aside(asides)
        is_new = await self._ledger.record(arrivals) if arrivals else []
        strange: list[Event] = [MessageSetAside(each.received.queue, each.received.id, each.reason) for each in asides]
        failed = [_failed(arrival) for arrival in arrivals]
        for event in (*(event for event, new in zip(failed, is_new, strict=True) if new), *strange):
            self._report(event)
        return [*failed, *strange]  # also those that are known: the process that recorded them may have told nobody

    def _arrival(self, received: Received, queue: str | None) -> Arrival:
        failure = read_failure(received, queue=queue)
        message = clean(received.message)
        edit_of, recovered = _id(received.headers.get(EDIT_OF)), _id(failure.recovery_id)
        if edit_of is not None:
            recovered = None  # an edited copy that fails is a failure of its own
        return Arrival(
            id=recovered or failure_id(failure.message_id, failure.queue),
            failure=failure,
            message=message,
            source=received.queue,
            groups=self._groups(failure, message),
            edit_of=edit_of,
        )

    def _groups(self, failure: Failure, message: Message) -> list[Group]:
        groups = [_exception_group(failure.exception_type, failure.stack_trace, failure.reason)]
        for name, classify in self._classifiers.items():
            try:
                title = classify(failure, message)
            except Exception as error:  # noqa: BLE001 - it is the program's own, and must not cost the failure
                title = f"{name} failed: {type(error).__name__}"
            if title is not None:
                groups.append(Group(group_id(name, str(title)), name, str(title)))
        return groups

    async def take_confirmations(self) -> int:
        """Read one page of word of successes; return how many there were."""
        try:
            page = await self._engine.lock_next(CONFIRMATIONS, _PAGE)
        except QueueNotFound:
            return 0
        if page:
            told = [each for each in map(_confirmation, page) if each is not None]
            heard = await self._ledger.confirm(told)
            events = [(MessageRecovered(each.id, each.operation), news) for each, news in zip(told, heard, strict=True)]
            for event, news in events:
                if news is Heard.NEW:
                    self._report(event)
            await self._complete(page, [event for event, news in events if news is not Heard.UNKNOWN])
        return len(page)

    async def _complete(self, page: Sequence[Received], events: Sequence[Event]) -> None:
        """Complete what was recorded, and tell integrations of it in the same transaction."""
        done: list[Effect] = [Complete(each.lock) for each in page if each.lock is not None]
        if self._events_queue is not None:
            done += [Send(self._events_queue, _as_message(event)) for event in events]
        try:
            await self._broker.apply(*done)
        except LockLost:  # it took too long: they come again, are known by then, and are completed
            return

    async def _give_back(self, page: Sequence[Received]) -> None:
        with suppress(RedriveError):  # then the locks end by themselves; the error that counts is on its way
            await self._engine.apply([Abandon(each.lock, uncount=True) for each in page if each.lock is not None])


def _failed(arrival: Arrival) -> MessageFailed:
    failure = arrival.failure
    return MessageFailed(
        arrival.id, failure.message_id, failure.queue, failure.exception_type, arrival.groups[0].id, failure.operation
    )


def _confirmation(received: Received) -> Confirmation | None:
    headers = received.headers
    id_, operation, at = headers.get(RECOVERY_ID), headers.get(RECOVERY_OPERATION), headers.get(RECOVERY_HANDLED_AT)
    is_number = isinstance(operation, int) and not isinstance(operation, bool) and 0 < operation < 2**63
    if (known := _id(id_)) is None or not is_number:
        return None
    return Confirmation(id=known, operation=int(operation or 0), at=_instant(at) or received.enqueued_at)


def _id(value: object) -> str | None:
    """Return a failed message's id, if it is one: what others write into our headers is none."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def _instant(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _as_message(event: Event) -> Message:
    body = json.dumps(event.fields(), default=str).encode()
    return Message(body, subject=event.name, content_type="application/json")
