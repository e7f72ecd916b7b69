# SPDX-License-Identifier: MIT
"""Receives messages: in turn through a queue's consumer, or by their numbers and from among the dead letters.

A message that a consumer hands out is locked by that. Messages that are set aside or dead have no consumer: their lock
is part of the record, and locking is a change like any other.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from redrive.broker import rules
from redrive.broker.port import Lock, QueueSettings, Received, State
from redrive.clock import pause, system_clock
from redrive.engines import stored
from redrive.engines.nats import errors
from redrive.engines.nats.catalog import Definition
from redrive.engines.nats.consumers import HandedOut, PullEnd
from redrive.engines.nats.errors import StreamRefusal
from redrive.engines.nats.group_commit import StreamEntry, entry_of, removing, rewriting
from redrive.engines.nats.locks import Held
from redrive.engines.nats.parts import Parts
from redrive.engines.nats.pulls import Pulled, SharedPulls
from redrive.engines.nats.records import MessageRecord, record_of
from redrive.engines.nats.subjects import MessageLane
from redrive.errors import EngineBusy, MessageNotFound, NotSupported

_TRIES: Final = 20
_PAGE: Final = 256
_IN_VAIN: Final = 3
_ROUNDS: Final = 10_000
"""How often a receive looks on that finds nothing but what has expired or was settled."""

_TAKEOVER_S: Final = 86_400
"""How long it is remembered that a lock was taken over: longer than anyone has a message."""

_BEHIND: Final = 25
_LONGEST_PAUSE_S: Final = 0.1
"""How often, and how far apart, a consumer is asked again that is behind: for about two seconds."""


class Receiving:
    """What receives messages of a namespace.

    Args:
        parts: the parts of the engine.
    """

    def __init__(self, parts: Parts) -> None:
        self._connection = parts.connection
        self._subjects = parts.subjects
        self._catalog = parts.catalog
        self._consumers = parts.consumers
        self._commits = parts.commits
        self._locks = parts.locks
        self._clock = parts.clock
        self._pulls = SharedPulls(self._pulled, parts.clock)

    # --- in turn

    async def next(self, name: str, limit: int, max_bytes: int | None, *, delete: bool) -> list[Received]:
        """Lock the next messages that are ready, or take them out."""
        queue = await self._catalog.queue(name)
        if limit < 1:
            return []
        if rules.is_dead_letter_queue(name):
            return await self._next_dead(queue, name, limit, max_bytes, delete=delete)
        found = await self._held_next(queue, limit, max_bytes)
        if delete:
            return await self._taken(queue, found)
        return [self._locked(name, held) for held in found]

    async def _held_next(self, queue: Definition, limit: int, max_bytes: int | None) -> list[Held]:
        found: list[Held] = []
        in_vain = 0
        for _ in range(_ROUNDS):
            room = _room(found, max_bytes)
            if room is not None and room <= 0:
                break
            pulled = await self._pulls.next(queue, min(limit - len(found), _PAGE), room)
            if pulled.end is PullEnd.FULL and not pulled.messages and not found:
                pulled = await self._pulls.next(queue, 1, None)  # one at least
            found += await self._sorted_out(queue, pulled)
            in_vain = 0 if pulled.messages or pulled.end is PullEnd.REMAINS else in_vain + 1
            is_full = pulled.end is PullEnd.FULL and not pulled.messages
            is_empty = pulled.end is PullEnd.EMPTY and (bool(found) or not await self._may_come(queue, in_vain))
            if len(found) >= limit or is_empty or is_full or (in_vain > _IN_VAIN and pulled.end is PullEnd.MORE):
                break
        return found

    async def _may_come(self, queue: Definition, in_vain: int) -> bool:
        """Wait a moment if a message is ready that the consumer has not heard of; say whether it is so."""
        if in_vain > _BEHIND or not await self._consumers.is_behind(queue):
            return False
        await pause(system_clock, min(_LONGEST_PAUSE_S, 0.002 * 2**in_vain))
        return True

    async def _pulled(self, queue: Definition, limit: int, max_bytes: int | None) -> tuple[list[HandedOut], PullEnd]:
        try:
            return await self._connection.again("receive", self._consumers.next, queue, limit, max_bytes)
        except LookupError:
            current = await self._catalog.queue(queue.name, anew=True)
            await self._consumers.create(current)
            return await self._connection.again("receive", self._consumers.next, current, limit, max_bytes)

    async def _sorted_out(self, queue: Definition, pulled: Pulled) -> list[Held]:
        """Return what may be handed on; what has expired or had its deliveries is dead or gone then."""
        settings = queue.of_queue
        kept: list[tuple[HandedOut, MessageRecord]] = []
        ended: list[MessageRecord] = []
        spent: list[MessageRecord] = []
        for each in pulled.messages:
            self._locks.forget_returned(each.subject)
            record = record_of(self._subjects.place(each.subject), each.headers, each.body, each.sequence)
            if record is None:
                continue
            is_spent = record.count + each.times > settings.max_delivery_count
            if is_spent and each.times > 1:
                spent.append(record)  # that was so when its last lock ended, whether it has expired since or not
            elif is_spent or record.has_expired(self._clock.time()):
                ended.append(record)
            else:
                kept.append((each, record))
        await self.end(ended, queue)
        await self.end(spent, queue, is_spent=True)
        taken = await self._taken_over([record for each, record in kept if each.times > 1])
        kept = [(each, record) for each, record in kept if each.times == 1 or each.sequence in taken]
        until = pulled.began + settings.lock_duration
        return [self._handed_out(record, each, until, taken.get(each.sequence, 0)) for each, record in kept]

    def _handed_out(self, record: MessageRecord, each: HandedOut, until: float, takeover: int) -> Held:
        count = record.count + each.times
        return self._locks.new(record, each.subject, count, until, takeover=takeover, reply=each.reply)

    async def _taken_over(self, records: Sequence[MessageRecord]) -> dict[int, int]:
        """Take the locks on messages over from those who had them; return the numbers of the notes, by the versions.

        A message is missing that was settled in the last moment.
        """
        notes = {each.sequence: self._takeover(each) for each in records}
        try:
            if notes:
                await self._commits.commit([*notes.values()])
        except StreamRefusal:
            if len(records) > 1:
                one_by_one = [await self._taken_over([each]) for each in records]
                return {version: note for each in one_by_one for version, note in each.items()}
            self._commits.clean([each.sequence for each in records])
            return {}
        return {version: note.sequence or await self._sequence(note.subject) for version, note in notes.items()}

    def _takeover(self, record: MessageRecord) -> StreamEntry:
        note = StreamEntry(self._subjects.takeover(record.place.key, record.sequence)).alone()
        return note.fenced(record.sequence, self._subjects.message(record.place)).lasting(_TAKEOVER_S)

    def _locked(self, name: str, held: Held) -> Received:
        record = held.record
        assert record is not None  # noqa: S101 - it was read a moment ago
        self._locks.keep(held, held.until - self._clock.time())
        state = State.DEFERRED_LOCKED if record.is_aside else State.LOCKED
        lock = Lock(name, held.number, held.token)
        return record.received(name, state, count=held.count, lock=lock, until=held.until)

    async def _taken(self, queue: Definition, found: Sequence[Held]) -> list[Received]:
        taken: list[Received] = []
        for start in range(0, len(found), _PAGE):
            page = found[start : start + _PAGE]
            try:
                await self._commits.commit(
                    [removing(held.subject, held.sequence, is_only=held.is_only) for held in page]
                )
            except StreamRefusal:  # one of them has expired, or was settled with an old lock
                page = [held for held in page if await self._was_removed(held)]
            taken += [_taken(queue.name, held) for held in page]
        return taken

    async def _was_removed(self, held: Held) -> bool:
        try:
            await self._commits.commit([removing(held.subject, held.sequence, is_only=held.is_only)])
        except StreamRefusal:
            return False
        return True

    # --- what has expired or had its deliveries

    async def end(self, records: Sequence[MessageRecord], queue: Definition, *, is_spent: bool = False) -> int:
        """Remove messages that have expired or had their deliveries, or make dead letters of them; say how many.

        Args:
            records: the messages.
            queue: where they are.
            is_spent: whether they had had their deliveries, whether they have expired or not.
        """
        if not records:
            return 0
        entries = [entry for record in records for entry in self._ending(record, queue, is_spent=is_spent)]
        try:
            await self._commits.commit(entries)
        except StreamRefusal:  # one of them is not what it was: one by one then
            if len(records) == 1:
                return 0
            return sum([await self.end([record], queue, is_spent=is_spent) for record in records])
        return len(records)

    def _ending(self, record: MessageRecord, queue: Definition, *, is_spent: bool) -> list[StreamEntry]:
        removal = removing(self._subjects.message(record.place), record.sequence, is_only=record.is_only)
        settings = queue.of_queue
        # A deferred message has its lock in its record: if that was its last one, it ended before it could expire.
        is_spent |= record.token is not None and rules.has_had_its_deliveries(record.count, settings.max_delivery_count)
        if is_spent or not record.has_expired(self._clock.time()):
            text = rules.over_delivered_text(settings.max_delivery_count)
            dead = record.buried(rules.MAX_DELIVERY_COUNT_EXCEEDED, text, queue.name)
        elif settings.dead_letter_on_expiration:
            dead = record.buried(rules.TTL_EXPIRED, rules.EXPIRED_TEXT, queue.name)
        else:
            return [removal]
        return [removal, entry_of(dead, self._subjects)]

    # --- records that have their lock in them

    async def _next_dead(
        self, queue: Definition, name: str, limit: int, max_bytes: int | None, *, delete: bool
    ) -> list[Received]:
        for _ in range(_TRIES):
            found = await self._ready_dead(queue, limit, max_bytes)
            if not found:
                return []
            if delete:
                held = [self._to_hold(record, name, queue.of_dead_letters) for record in found]
                taken = await self._taken(queue, held)
                return [replace(one, queue=name) for one in taken]
            try:
                return await self._lock_records(name, found, queue.of_dead_letters)
            except StreamRefusal:
                continue  # another was faster
        raise errors.busy(self._connection.where)

    async def _ready_dead(self, queue: Definition, limit: int, max_bytes: int | None) -> list[MessageRecord]:
        now = self._clock.time()
        found: list[MessageRecord] = []
        room = max_bytes
        subjects = await self.in_order(self._subjects.lane(MessageLane.DEAD, queue.key))
        for start in range(0, len(subjects), _PAGE):
            for record in await self.records(subjects[start : start + _PAGE]):
                if record.state(now) is not State.READY:
                    continue
                if room is not None:
                    if found and len(record.body) > room:
                        return found
                    room -= len(record.body)
                found.append(record)
                if len(found) >= min(limit, _PAGE):
                    return found
        return found

    async def _lock_records(
        self, name: str, records: Sequence[MessageRecord], settings: QueueSettings
    ) -> list[Received]:
        """Lock messages by storing them with a lock: all or, if one is not what it was, none."""
        held = [self._to_hold(record, name, settings) for record in records]
        entries: list[StreamEntry] = []
        for record, one in zip(records, held, strict=True):
            locked = replace(record, token=one.token, until=one.until, count=one.count, due_at=None)
            entries.append(rewriting(locked, self._subjects, record.sequence))
        await self._commits.commit(entries)
        for index, (record, entry) in enumerate(zip(records, entries, strict=True)):
            sequence = entry.sequence or await self._sequence(entry.subject)
            held[index] = replace(held[index], record=replace(record, sequence=sequence), sequence=sequence)
        return [self._locked(name, one) for one in held]

    async def _sequence(self, subject: str) -> int:
        found = await self._connection.last(self._subjects.stream, subject)
        return 0 if found is None else found.sequence

    def _to_hold(self, record: MessageRecord, name: str, settings: QueueSettings) -> Held:
        until = self._clock.time() + settings.lock_duration
        held = self._locks.new(record, self._subjects.message(record.place), record.count + 1, until)
        return replace(held, queue=name)

    async def renew(self, held: Held, seconds: float) -> float | None:
        """Lengthen a lock that is part of its record; return when it ends, None if it was lost."""
        for record in await self.records([held.subject]):
            if record.token != held.token:
                continue
            until = self._clock.time() + seconds
            entry = rewriting(replace(record, until=until), self._subjects, record.sequence)
            try:
                await self._commits.commit([entry])
            except StreamRefusal:
                return None
            sequence = entry.sequence or await self._sequence(held.subject)
            current = replace(record, sequence=sequence)
            self._locks.keep(replace(held, until=until, sequence=sequence, record=current), seconds)
            return until
        return None

    # --- by number

    async def numbered(self, name: str, sequences: Sequence[int], *, deferred: bool) -> list[Received]:
        """Lock messages by their numbers: all or none."""
        queue = await self._catalog.queue(name)
        wanted = "deferred" if deferred else "ready"
        is_dead = rules.is_dead_letter_queue(name)
        settings = queue.of_dead_letters if is_dead else queue.of_queue
        for _ in range(_TRIES):
            records = [await self._numbered(queue, name, each, deferred=deferred) for each in sequences]
            missing = [number for number, record in zip(sequences, records, strict=True) if record is None]
            found = list({record.place.number: record for record in records if record is not None}.values())
            has_spent = await self._bury_spent(found, queue, settings, is_dead=is_dead)
            if has_spent or len(found) < len(sequences):
                raise MessageNotFound(name, missing[0] if missing else sequences[0], wanted)
            try:
                return await self._lock_records(name, found, settings) if found else []
            except StreamRefusal:
                continue
        raise EngineBusy(f"{self._connection.where}: others receive the same messages; nothing was locked")

    async def _numbered(self, queue: Definition, name: str, sequence: int, *, deferred: bool) -> MessageRecord | None:
        is_dead = rules.is_dead_letter_queue(name)
        lane = MessageLane.DEAD if is_dead else MessageLane.ASIDE
        number = stored.storable(sequence)
        pattern = self._subjects.numbered(lane if deferred or is_dead else MessageLane.READY, queue.key, number)
        found = await self._connection.last(self._subjects.stream, pattern)
        if found is None:
            return None
        record = record_of(self._subjects.place(found.subject), found.headers, found.body, found.sequence)
        if record is None or record.has_expired(self._clock.time()):
            return None
        if not deferred and not is_dead:
            raise NotSupported("NATS", "receiving a message out of turn that is no dead letter")
        wanted = State.DEFERRED if deferred else State.READY
        return record if record.state(self._clock.time()) is wanted else None

    async def _bury_spent(
        self, records: Sequence[MessageRecord], queue: Definition, settings: QueueSettings, *, is_dead: bool
    ) -> bool:
        """Make dead letters of those that have had their deliveries; say whether there were any."""
        most = settings.max_delivery_count
        spent = [each for each in records if rules.has_had_its_deliveries(each.count, most) and not is_dead]
        await self.end(spent, queue, is_spent=True)
        return bool(spent)

    # --- reading records

    async def in_order(self, pattern: str) -> list[str]:
        """Return the subjects of messages in order of their numbers."""
        found = await self._connection.subjects(self._subjects.stream, pattern)
        return sorted(found, key=lambda subject: self._subjects.place(subject).number)

    async def records(self, subjects: Sequence[str]) -> list[MessageRecord]:
        """Return messages by their subjects, in that order, without those that are settled."""
        if not subjects:
            return []
        stored_ = {each.subject: each for each in await self._connection.last_of_each(self._subjects.stream, subjects)}
        there = [stored_[subject] for subject in subjects if subject in stored_]
        found = [
            record_of(self._subjects.place(each.subject), each.headers, each.body, each.sequence) for each in there
        ]
        return [record for record in found if record is not None]


def _room(found: Sequence[Held], max_bytes: int | None) -> int | None:
    """Return how many bytes are left for more messages."""
    if max_bytes is None:
        return None
    return max_bytes - sum(len(held.record.body) for held in found if held.record is not None)


def _taken(name: str, held: Held) -> Received:
    record = held.record
    assert record is not None  # noqa: S101 - it was received a moment ago
    return record.received(name, State.LOCKED, count=held.count)
