# SPDX-License-Identifier: MIT
"""Reads failures from error queues and dead-letter queues into the ledger, and confirmations too.

A page of messages is locked; then it is recorded and completed, in one transaction if the ledger is with the queues,
otherwise in this order. If the process stops in between, the same messages are delivered again, and recording them
again changes nothing. A message that was delivered before, and neither completed nor given back, may have killed its
reader: it is read alone, and set aside if that happens again.

If there are many, and the ledger is with the queues, the following pages are not locked: they are looked at, and taken
out in the transaction that records them. That is noted before it begins. If the process dies, the note stays, and the
next one locks all that is there, so that deliveries are counted.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar, cast

from redrive.broker import Abandon, Complete, DeadLetter, Effect, Message, Received, Send, dead_letter_queue
from redrive.broker.headers import RECOVERY_TAG
from redrive.broker.port import StoredMessage, StoredMessages, find_ability, unsealed
from redrive.broker.rules import CONFIRMATIONS, digest_of, source_queue
from redrive.clock import give_way
from redrive.errors import LockLost, QueueNotFound, RedriveError
from redrive.recovery.alike_failures import Alike, read_arrived
from redrive.recovery.alike_texts import AlikeTexts
from redrive.recovery.arrivals import AlikeArrival, Arrival, Heard, Recorded, SetAside
from redrive.recovery.confirmations import read_confirmation
from redrive.recovery.environment import Tools
from redrive.recovery.events import MessageFailed, MessageRecovered, MessageSetAside
from redrive.recovery.failure_formats import Failure, Unreadable
from redrive.recovery.fingerprint import Group, exception_group, group_id, without_message
from redrive.recovery.identity import exact_key, failure_id
from redrive.recovery.own_queues import PAGE_BYTES
from redrive.recovery.tags import read_tag
from redrive.recovery.unlocked_pages import UnlockedPages
from redrive.telemetry import Event

S = TypeVar("S")
A = TypeVar("A")

Classifier: TypeAlias = Callable[[Failure, Message], str | None]
"""Returns in a few words what a failure has in common with others; None: nothing."""

_PAGE = 500
_FIRST_PAGE = 100
"""The first page is locked and decoded. If it is full, there is more, which is read at half the cost or less."""

_PAGES_AT_ONCE = 3
_AT_A_TIME = 50
"""How many messages are read before other tasks and threads get a turn."""

_MOST_DEATHS = 4
"""How many readers a message that is read alone may kill before it is set aside."""

_MOST_DEATHS_AMONG_OTHERS = 20
"""The same for messages that are read together, any of which may be the cause."""

_READ_ALONE = "ReadersStopped"
"""Why a message of an error queue is in its dead-letter queue: it is read alone there."""

_DEADLY = "the process that read it stopped in the middle, {times} times; look at it before you import it again"


_exception_group = lru_cache(maxsize=1_000)(exception_group)
"""Many failures have the same trace but for its message, and parsing a trace is most of the work."""


_OpenArrival = unsealed(Arrival)


def with_dead_letters(sources: Sequence[str]) -> tuple[str, ...]:
    """Return queues to read, each error queue with its dead-letter queue: otherwise its dead letters stay unseen."""
    return tuple(dict.fromkeys(queue for source in sources for queue in (source, dead_letter_queue(source))))


class Ingester:
    """Reads failures.

    Args:
        tools: where the queues are, and where failures are recorded.
        classifiers: further ways to group failures, by name.
        events_queue: a queue that gets a message for each failure and each recovery, for integrations; None: none.
        error_queues: the queues that failed messages are moved to; their dead letters failed in another queue.
    """

    def __init__(
        self,
        tools: Tools,
        *,
        classifiers: Mapping[str, Classifier],
        events_queue: str | None,
        error_queues: Sequence[str] = (),
    ) -> None:
        self._broker = tools.broker
        self._engine = tools.broker.engine
        self._ledger = tools.ledger
        self._report, self._is_reported = tools.report, tools.is_reported
        self._classifiers = classifiers
        self._events_queue = events_queue
        self._error_queues = frozenset(error_queues)
        self._is_exact = self._engine.capabilities.is_transactional
        self._stored = cast("StoredMessages", self._engine)  # used only if it is
        self._texts = AlikeTexts()
        self._reading, self._storing = asyncio.Lock(), asyncio.Lock()  # one page at a time is read, and one stored

    async def take_all(self, queue: str) -> int:
        """Read all failures that are in a queue now; return how many messages there were."""
        found = 0
        while taken := await self.take_many(queue):
            found += taken
        return found

    async def take_many(self, queue: str) -> int:
        """Read one page of failures or, if there are more, many, several at a time; return how many messages."""
        taken = await self.take(queue, _FIRST_PAGE)
        if taken < _FIRST_PAGE:
            return taken
        if not await self._may_leave_unlocked(queue):
            return taken + await self._at_once(lambda: self._take_on(queue))
        begins = await self._ledger.begin_reading(queue)  # otherwise, who noted it died, or reads it
        unlocked = UnlockedPages(self._stored, queue, _PAGE) if begins else None
        try:
            taken += await self._at_once(lambda: self._take_on(queue, unlocked))
        except (RedriveError, asyncio.CancelledError):  # another error may be the fault of a message
            if unlocked is not None:
                await self._ledger.end_reading(queue)
            raise
        await self._ledger.end_reading(queue)
        return taken

    async def _may_leave_unlocked(self, queue: str) -> bool:
        """Say whether messages can be read without locks: in one transaction, and without a note of each delivery."""
        if not self._takes_at_once or self._is_apart(queue) or find_ability(self._engine, StoredMessages) is None:
            return False
        return not (await self._engine.inspect(queue))[0].settings.follows

    @property
    def _takes_at_once(self) -> bool:
        """Whether messages can be recorded and taken out of their queue in one transaction."""
        return self._ledger.is_with_queues and self._is_exact and self._events_queue is None

    async def _at_once(self, take: Callable[[], Coroutine[Any, Any, int]]) -> int:
        """Read several pages at once; return how many messages there were."""
        taken = 0
        for each in await asyncio.gather(*[take() for _ in range(_PAGES_AT_ONCE)], return_exceptions=True):
            if isinstance(each, BaseException):  # the others have come to their ends
                raise each
            taken += each
        return taken

    async def _take_on(self, queue: str, unlocked: UnlockedPages | None = None) -> int:
        if unlocked is not None:
            return await self._take_unlocked(queue, unlocked)
        found = 0
        while taken := await self.take(queue, _PAGE):
            found += taken
        return found

    async def _take_unlocked(self, queue: str, unlocked: UnlockedPages) -> int:
        """Read pages of failures without locks, together with others; return how many messages there were.

        Whatever is unusual is left where it is, to be locked: messages that were delivered before or cannot be read,
        and pages of which another process has taken a message.
        """
        found, key = 0, await self._ledger.key()
        while page := await unlocked.next():
            fresh = [each for each in page if not each.delivery_count]
            async with self._reading:
                arrivals, asides = await _each(fresh, lambda stored: self._stored_arrival(stored, queue, key))
            if not arrivals:
                continue
            strange = {each.sequence for each, _ in asides}
            sequences = [each.sequence for each in fresh if each.sequence not in strange]
            try:
                async with self._storing:
                    recorded = await self._ledger.record_unlocked(arrivals, queue=queue, sequences=sequences)
            except LockLost:
                unlocked.stop()
                continue
            if self._is_reported(MessageFailed):
                self._reported(arrivals, recorded, ())
            found += len(sequences)
        return found

    def _stored_arrival(self, stored: StoredMessage, queue: str, key: bytes) -> Arrival | AlikeArrival:
        """Read a message that was looked at; decode it, unless there was one like it."""
        if self._classifiers:  # they are given all of it
            return self._arrival(self._stored.decoded(stored, queue), None, key)
        known = self._texts.read(stored, queue)
        if known is not None:
            return known
        arrival = self._arrival(self._stored.decoded(stored, queue), None, key)
        self._texts.learn(stored, arrival)
        return arrival

    async def take(self, queue: str, limit: int) -> int:
        """Read one page of failures from a queue, with locks; return how many messages there were."""
        most = 1 if self._is_apart(queue) else limit
        found = await self._engine.lock_next(queue, most, max_bytes=PAGE_BYTES)
        page = await self._put_apart(found)
        moved = len(found) - len(page)
        suspects = [each for each in page if each.delivery_count > 1]
        if suspects and len(page) > 1:
            await self._give_back(suspects)
            page = [each for each in page if each.delivery_count == 1]
            if not page:
                page = await self._engine.lock_next(queue, 1, max_bytes=PAGE_BYTES)
        if page:
            try:
                await self._take_in(page)
            except RedriveError:
                await self._give_back(page)
                raise
        return moved + len(page)

    async def _take_in(self, page: Sequence[Received]) -> None:
        """Record and complete messages."""
        locks = [Complete(each.lock) for each in page if each.lock is not None]
        if self._takes_at_once:
            with suppress(LockLost):  # it took too long, or some of them are gone: what is left is delivered again
                await self.record(page, completing=locks)
                return
        events = await self.record(page)
        await self._complete(page, events)

    def _is_apart(self, queue: str) -> bool:
        """Say whether this is the dead-letter queue of an error queue, whose messages are read one by one."""
        return queue != source_queue(queue) and source_queue(queue) in self._error_queues

    async def _put_apart(self, page: Sequence[Received]) -> Sequence[Received]:
        """Dead-letter messages that several readers died with, so that each is read alone: one may be the cause."""
        apart = [each for each in page if each.queue in self._error_queues and each.delivery_count > _MOST_DEATHS]
        if apart:
            with suppress(LockLost):  # it took too long: they are delivered again
                await self._engine.apply(
                    [DeadLetter(each.lock, _READ_ALONE) for each in apart if each.lock is not None]
                )
        return [each for each in page if each not in apart]

    async def record(
        self, page: Sequence[Received], *, queue: str | None = None, completing: Sequence[Complete] = ()
    ) -> list[Event]:
        """Record failures; return their events. Messages that cannot be read are set aside.

        Args:
            page: the messages.
            queue: the queue they failed in, from a person.
            completing: the messages to be completed in the same transaction.
        """
        async with self._reading:
            arrivals, asides = await self._read(page, queue)
        async with self._storing:
            recorded = await self._store(arrivals, asides, completing)
        return self._reported(arrivals, recorded, asides)

    async def _store(
        self, arrivals: Sequence[Arrival], asides: Sequence[SetAside], completing: Sequence[Complete]
    ) -> Sequence[Recorded]:
        if asides:
            await self._ledger.set_aside(asides)
        if arrivals and completing:
            return await self._ledger.record(arrivals, completing=completing)
        if completing:
            await self._engine.apply(completing)
        return await self._ledger.record(arrivals) if arrivals else []

    async def _read(self, page: Sequence[Received], queue: str | None) -> tuple[list[Arrival], list[SetAside]]:
        """Return the failures of messages, and the messages that cannot be read."""
        key = await self._ledger.key()
        arrivals, asides = await _each(page, lambda received: self._arrival(received, queue, key))
        return arrivals, [SetAside(received=received, reason=reason) for received, reason in asides]

    def _reported(
        self, arrivals: Sequence[Arrival | AlikeArrival], recorded: Sequence[Recorded], asides: Sequence[SetAside]
    ) -> list[Event]:
        """Report what is new; return all events."""
        strange: list[Event] = [MessageSetAside(each.received.queue, each.received.id, each.reason) for each in asides]
        failed = [_failed(arrival, each.id) for arrival, each in zip(arrivals, recorded, strict=True)]
        news = [event for event, each in zip(failed, recorded, strict=True) if each.is_new]
        for event in (*news, *strange):
            self._report(event)
        return [*failed, *strange]  # also for known failures: the process that recorded them may have died

    def _arrival(self, received: Received, queue: str | None, sealed_with: bytes) -> Arrival:
        if received.delivery_count > _MOST_DEATHS:
            most = _MOST_DEATHS if self._is_apart(received.queue) else _MOST_DEATHS_AMONG_OTHERS
            if received.delivery_count > most:
                raise Unreadable(_DEADLY.format(times=received.delivery_count - 1))
        exact = exact_key(received.queue, received.sequence, received.enqueued_at) if self._is_exact else None
        failure, message, alike = read_arrived(self._undead(received), queue=queue, key=exact)
        digest, tag = digest_of(message.body), None
        if (sealed := received.message.headers.get(RECOVERY_TAG)) is not None:
            tag = read_tag(sealed, sealed_with, queue=failure.queue, message_id=received.id, digest=digest)
        if tag is not None:
            key = exact or f"{failure.key}/{tag.operation}"
            failure = replace(failure, key=key, operation=tag.operation)
        arrival = _OpenArrival()
        arrival.id = failure_id(failure, message, digest)
        arrival.failure, arrival.message, arrival.source, arrival.tag = failure, message, received.queue, tag
        arrival.groups = self._groups(failure, message, alike)
        arrival.alike = alike
        arrival.__class__ = Arrival
        return arrival  # type: ignore[no-any-return]  # now it is one

    def _undead(self, received: Received) -> Received:
        """Return a dead letter of an error queue as it was in the error queue: its headers say where it failed."""
        if not self._is_apart(received.queue):
            return received
        return replace(received, queue=source_queue(received.queue), dead_letter_info=None)

    def _groups(self, failure: Failure, message: Message, alike: Alike | None) -> Sequence[Group]:
        if alike is not None and not self._classifiers:
            return alike.groups  # the same for thousands
        groups = [_exception_group(failure.exception_type, without_message(failure.stack_trace), failure.reason)]
        for name, classify in self._classifiers.items():
            try:
                title = classify(failure, message)
            except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - the program's function; its error must not lose the failure
                title = f"{name} failed: {type(error).__name__}"
            if title is not None:
                groups.append(Group(group_id(name, str(title)), name, str(title)))
        return groups

    async def take_confirmations(self) -> int:
        """Read one page of confirmations; return how many there were."""
        taken = 0
        for queue in (CONFIRMATIONS, dead_letter_queue(CONFIRMATIONS)):
            with suppress(QueueNotFound):
                taken += await self._take_confirmations(queue)
        return taken

    async def _take_confirmations(self, queue: str) -> int:
        page = await self._engine.lock_next(queue, _PAGE, max_bytes=PAGE_BYTES)
        if page:
            try:
                events = await self._confirm(page)
            except RedriveError:
                await self._give_back(page)
                raise
            await self._complete(page, events)
        return len(page)

    async def _confirm(self, page: Sequence[Received]) -> list[Event]:
        key = await self._ledger.key()
        confirmations = [each for each in (read_confirmation(received, key) for received in page) if each is not None]
        heard = await self._ledger.confirm(confirmations)
        events = [
            (MessageRecovered(each.id, each.operation), each) for each in heard if each.heard is not Heard.UNKNOWN
        ]
        for event, each in events:
            if each.heard is Heard.NEW:
                self._report(event)
        return [event for event, _ in events]

    async def _complete(self, page: Sequence[Received], events: Sequence[Event]) -> None:
        """Complete recorded messages, and send their events to the events queue in the same transaction."""
        done: list[Effect] = [Complete(each.lock) for each in page if each.lock is not None]
        if self._events_queue is not None:
            done += [Send(self._events_queue, _as_message(event)) for event in events]
        try:
            await self._broker.apply(*done)
        except LockLost:  # it took too long: they are delivered again, are known by then, and are completed
            return

    async def _give_back(self, page: Sequence[Received]) -> None:
        with suppress(RedriveError):  # the locks end by themselves; the first error is raised
            await self._engine.apply([Abandon(each.lock, uncount=True) for each in page if each.lock is not None])


async def _each(page: Sequence[S], read: Callable[[S], A]) -> tuple[list[A], list[tuple[S, str]]]:
    """Return the failures of messages, and the messages that cannot be read, each with the reason."""
    arrivals: list[A] = []
    asides: list[tuple[S, str]] = []
    for start in range(0, len(page), _AT_A_TIME):
        for message in page[start : start + _AT_A_TIME]:
            try:
                arrivals.append(read(message))
            except Unreadable as error:
                asides.append((message, error.reason))
        if start:
            give_way()
            await asyncio.sleep(0)  # noqa: TID251 - takes no time, lets other tasks run
    return arrivals, asides


def _failed(arrival: Arrival | AlikeArrival, id_: str) -> MessageFailed:
    failure = arrival.failure
    return MessageFailed(
        id_, failure.message_id, failure.queue, failure.exception_type, arrival.groups[0].id, failure.operation
    )


def _as_message(event: Event) -> Message:
    body = json.dumps(event.fields(), default=str).encode()
    return Message(body, subject=event.name, content_type="application/json")
