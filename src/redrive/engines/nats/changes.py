# SPDX-License-Identifier: MIT
"""Turns effects into what is stored for them: one change, all of it fenced.

What is remembered about queues may be old; a plan that could not be stored is made again from what is read anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from redrive.broker import rules
from redrive.broker.port import (
    Abandon,
    Cancel,
    Complete,
    DeadLetter,
    Defer,
    Effect,
    EffectResult,
    Lock,
    Message,
    QueueSettings,
    Send,
)
from redrive.clock import system_clock
from redrive.engines import stored
from redrive.engines.fan_out import Recipient, recipients_of
from redrive.engines.nats.catalog import Definition
from redrive.engines.nats.group_commit import StreamEntry, entry_of, removing, rewriting
from redrive.engines.nats.locks import Held
from redrive.engines.nats.parts import Parts
from redrive.engines.nats.records import GONE, MessageRecord, record_of
from redrive.engines.nats.subjects import MessageLane, MessagePlace
from redrive.errors import LockLost, MessageNotFound, MessageTooLarge, NotSupported, RedriveError

_ROOM_TO_GROW: Final = 32_768
"""How many bytes are left at sending for what is noted later: a message that was taken must fit as a dead letter."""

_ROOM_SETTING: Final = "the NATS server's max_payload"

_MARKER_SPARE_S: Final = 5.0
"""How much longer a marker is kept than it counts."""


@dataclass(slots=True)
class EffectPlan:
    """What is stored for a list of effects.

    Attributes:
        entries: the messages.
        results: what each effect gives back.
        used: the locks it settles.
        touched: the names of the queues that get something.
        woken: the keys of those in which something becomes ready.
        seen: where it notes that an id was seen.
        read: the queues and topics that were looked up for it, by their names.
        is_anew: whether nothing that was remembered counts.
    """

    entries: list[StreamEntry] = field(default_factory=list[StreamEntry])
    results: list[EffectResult] = field(default_factory=list[EffectResult])
    used: list[Held] = field(default_factory=list[Held])
    touched: dict[str, Definition] = field(default_factory=dict[str, Definition])
    woken: set[str] = field(default_factory=set[str])
    seen: set[str] = field(default_factory=set[str])
    read: dict[str, Definition] = field(default_factory=dict[str, Definition])
    is_anew: bool = False


class Planner:
    """Makes plans.

    Args:
        parts: the parts of the engine.
    """

    def __init__(self, parts: Parts) -> None:
        self._connection = parts.connection
        self._subjects = parts.subjects
        self._catalog = parts.catalog
        self._locks = parts.locks
        self._numbers = parts.numbers
        self._clock = parts.clock
        self._pace = parts.pace

    async def plan(self, effects: Sequence[Effect], *, anew: bool) -> EffectPlan:
        """Return what is to be stored.

        Args:
            effects: what is to happen.
            anew: whether nothing that is remembered counts.
        """
        plan = EffectPlan(is_anew=anew)
        for effect in effects:
            result: EffectResult = None
            if isinstance(effect, Send):
                result = await self._send(plan, effect, anew=anew)
            elif isinstance(effect, Cancel):
                await self._cancel(plan, effect, anew=anew)
            elif isinstance(effect, Complete | Abandon | Defer | DeadLetter):
                await self._settle(plan, effect, anew=anew)
            else:
                raise NotSupported("NATS", "sessions")
            plan.results.append(result)
        return plan

    async def _definition(self, plan: EffectPlan, name: str, *, anew: bool) -> Definition:
        """Return what a queue or a topic is; it is looked up once for a plan, which is fenced by that."""
        source = rules.source_queue(name)
        known = plan.read.get(source)
        if known is None or (anew and not plan.is_anew):
            known = plan.read[source] = await self._catalog.get(name, anew=anew)
        return known

    # --- sending

    async def _send(self, plan: EffectPlan, effect: Send, *, anew: bool) -> int | None:
        try:
            return await self._sent(plan, effect, anew=anew)
        except RedriveError:
            if anew:
                raise
        return await self._sent(plan, effect, anew=True)  # what was remembered may be old

    async def _sent(self, plan: EffectPlan, effect: Send, *, anew: bool) -> int | None:
        definition = await self._definition(plan, effect.queue, anew=anew)
        if definition.is_topic and not rules.is_dead_letter_queue(effect.queue):
            return await self._publish(plan, effect, definition, anew=anew)
        is_dead = rules.is_dead_letter_queue(effect.queue)
        settings = definition.of_dead_letters if is_dead else definition.of_queue
        properties = stored.checked_properties(effect.message, effect.queue, settings)
        if not is_dead and await self._is_duplicate(plan, effect, definition, settings.duplicate_detection):
            return None
        number = self._numbers.next()
        lane = MessageLane.DEAD if is_dead else MessageLane.READY
        record = self._record(effect, properties, definition, settings, MessagePlace(lane, definition.key, number))
        self._store(plan, record, definition, effect.queue)
        return number

    def _record(
        self, effect: Send, properties: str | None, definition: Definition, settings: QueueSettings, place: MessagePlace
    ) -> MessageRecord:
        now = self._clock.time()
        due = effect.at.timestamp() if effect.at is not None else now
        is_later = due > now
        expires = rules.expires_at(max(due, now), effect.message.ttl_s, settings.default_ttl)
        if place.lane is MessageLane.DEAD:
            expires = None
        lane = MessageLane.SCHEDULED if is_later and place.lane is MessageLane.READY else place.lane
        at = MessagePlace(lane, definition.key, place.number, int(expires) + 1 if expires is not None else 0, place.of)
        due_at = due if is_later else None
        record = MessageRecord(
            at, effect.message.id or "", properties, effect.message.body, now, expires, due_at=due_at
        )
        return replace(record, is_only=lane is MessageLane.READY)

    def _store(self, plan: EffectPlan, record: MessageRecord, definition: Definition, queue: str) -> None:
        room = self._connection.largest - _ROOM_TO_GROW
        if record.size > room:
            raise MessageTooLarge(queue, record.size, room, _ROOM_SETTING)
        entry = (
            self._scheduling(record) if record.place.lane is MessageLane.SCHEDULED else entry_of(record, self._subjects)
        )
        plan.entries.append(self._catalog.guarding(definition, entry))
        plan.touched[definition.name] = definition
        if record.place.lane is not MessageLane.SCHEDULED:
            plan.woken.add(definition.key)

    def _scheduling(self, record: MessageRecord) -> StreamEntry:
        """Return what stores a message for later: the server moves it in its time."""
        entry = entry_of(record, self._subjects)
        left = ((record.due_at or 0.0) - self._clock.time()) * self._pace
        at = datetime.fromtimestamp(min(system_clock.time() + max(0.0, left), _LAST), UTC)
        entry.headers["Nats-Schedule"] = f"@at {at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}"
        entry.headers["Nats-Schedule-Target"] = self._subjects.message(record.place.moved(MessageLane.READY))
        return entry

    async def _is_duplicate(self, plan: EffectPlan, effect: Send, definition: Definition, window: float | None) -> bool:
        """Say whether an id was seen; otherwise note it with the message."""
        if window is None:
            return False
        subject = self._subjects.seen(definition.key, effect.message.id or "")
        if subject in plan.seen:
            return not effect.even_if_seen
        found = await self._connection.last(self._subjects.stream, subject)
        now = self._clock.time()
        if found is not None and float(found.body) > now and not effect.even_if_seen:
            return True
        plan.seen.add(subject)
        marker = StreamEntry(subject, repr(now + window).encode()).alone()
        marker.fenced(0 if found is None else found.sequence).lasting(window * self._pace + _MARKER_SPARE_S)
        plan.entries.append(marker)
        return False

    # --- topics

    async def _publish(self, plan: EffectPlan, effect: Send, topic: Definition, *, anew: bool) -> int | None:
        settings = topic.of_topic
        stored.checked_properties(effect.message, effect.queue, settings.of_queue())
        if await self._is_duplicate(plan, effect, topic, settings.duplicate_detection):
            return None
        of = self._numbers.next()
        queues = [await self._definition(plan, queue, anew=anew) for queue in topic.subscriptions]
        by_rule = zip(topic.subscriptions.values(), queues, strict=True)
        recipients = recipients_of(by_rule, effect.message, lambda queue: _check(effect.message, queue))
        self._guard(plan, topic)
        if not recipients:
            await self._unmatched(plan, effect, topic, of)
            return of if settings.keep_unmatched else None
        return of if await self._legs(plan, effect, recipients, of) else None

    async def _legs(self, plan: EffectPlan, effect: Send, recipients: list[Recipient[Definition]], of: int) -> int:
        properties = stored.properties_of(effect.message)
        count = 0
        for queue, reason, description in recipients:
            if reason is None and await self._is_duplicate(plan, effect, queue, queue.of_queue.duplicate_detection):
                continue
            place = MessagePlace(MessageLane.READY, queue.key, self._numbers.next(), of=of)
            record = self._record(effect, properties, queue, queue.of_queue, place)
            if reason is not None:
                record = record.buried(reason, description, queue.name)
            self._store(plan, record, queue, queue.name)
            count += 1
        return count

    def _guard(self, plan: EffectPlan, topic: Definition) -> None:
        """Let the plan fail if the topic has other subscriptions by then."""
        plan.entries.append(self._catalog.guarding(topic, self._guard_entry()))

    def _guard_entry(self) -> StreamEntry:
        """Return something that is stored for its fence only, and goes by itself."""
        return StreamEntry(self._subjects.receipt(f"g{self._numbers.next()}")).lasting(0.5)

    async def _unmatched(self, plan: EffectPlan, effect: Send, topic: Definition, of: int) -> None:
        subject = self._subjects.unmatched(topic.key)
        same = next((entry for entry in plan.entries if entry.subject == subject), None)
        if same is not None:
            same.body = b"%d" % (int(same.body) + 1)
        else:
            found = await self._connection.last(self._subjects.stream, subject)
            count = b"%d" % (1 + (int(found.body) if found is not None else 0))
            plan.entries.append(StreamEntry(subject, count).alone().fenced(0 if found is None else found.sequence))
        if topic.of_topic.keep_unmatched:
            place = MessagePlace(MessageLane.DEAD, topic.key, of)
            record = self._record(effect, stored.properties_of(effect.message), topic, topic.of_queue, place)
            record = record.buried(rules.NO_SUBSCRIPTION, rules.NO_SUBSCRIPTION_TEXT, topic.name)
            self._store(plan, record, topic, effect.queue)

    # --- cancelling

    async def _cancel(self, plan: EffectPlan, effect: Cancel, *, anew: bool) -> None:
        definition = await self._definition(plan, effect.queue, anew=anew)
        number = stored.storable(effect.sequence)
        patterns = [self._subjects.numbered(MessageLane.SCHEDULED, definition.key, number)]
        if definition.is_topic:
            topic = await self._catalog.topic(effect.queue)
            queues = [await self._definition(plan, queue, anew=anew) for queue in topic.subscriptions]
            patterns = [self._subjects.legs(queue.key, number) for queue in queues]
        found = [await self._connection.last(self._subjects.stream, pattern) for pattern in patterns]
        there = [each for each in found if each is not None and GONE not in each.headers]
        if not there or any(entry.subject == there[0].subject for entry in plan.entries):
            raise MessageNotFound(effect.queue, effect.sequence, "scheduled")
        plan.entries += [removing(each.subject, each.sequence) for each in there]

    # --- settling

    async def _settle(self, plan: EffectPlan, effect: Complete | Abandon | Defer | DeadLetter, *, anew: bool) -> None:
        definition = await self._definition(plan, effect.lock.queue, anew=anew)
        held = self._held(plan, effect.lock, definition)
        if anew or not self._locks.is_own(held):
            held = await self.current(held)
        plan.used.append(held)
        if isinstance(effect, Complete):
            plan.entries.append(removing(held.subject, held.sequence, is_only=held.is_only))
            return
        record = held.record
        assert record is not None  # noqa: S101 - own locks have it, and those of others have just got it
        is_dead = record.place.lane is MessageLane.DEAD
        settings = definition.of_dead_letters if is_dead else definition.of_queue
        if isinstance(effect, Abandon):
            count = 0 if effect.reset_count else held.count - effect.uncount
            if rules.has_had_its_deliveries(count, settings.max_delivery_count) and not is_dead:
                text = rules.over_delivered_text(settings.max_delivery_count)
                after = record.buried(rules.MAX_DELIVERY_COUNT_EXCEEDED, text, definition.name)
            else:
                after = self._given_back(record, effect, count)
        elif isinstance(effect, Defer):
            after = record.moved(MessageLane.DEAD if is_dead else MessageLane.ASIDE, is_aside=True, count=held.count)
        else:
            after = record.buried(effect.reason, effect.description, definition.name)
        self._replace(plan, held, after.with_headers(effect.headers), definition)

    def _given_back(self, record: MessageRecord, effect: Abandon, count: int) -> MessageRecord:
        due = self._clock.time() + effect.delay if effect.delay else None
        lane = record.place.lane
        if due is not None and lane is not MessageLane.DEAD:
            return record.moved(MessageLane.SCHEDULED, due_at=due, count=count)
        is_aside = record.is_aside and due is None
        return record.moved(lane, due_at=due, count=count, is_aside=is_aside)

    def _replace(self, plan: EffectPlan, held: Held, record: MessageRecord, definition: Definition) -> None:
        """Store a message as it is now instead of the version that was locked."""
        room = self._connection.largest
        if record.size > room:
            raise MessageTooLarge(held.queue, record.size, room, _ROOM_SETTING)
        plan.touched[definition.name] = definition
        plan.woken.add(definition.key)
        if self._subjects.message(record.place) == held.subject:
            plan.entries.append(rewriting(record, self._subjects, held.sequence))
            if held.reply:
                plan.entries.append(self._while_held(held, definition, self._guard_entry()))
            return
        plan.entries.append(removing(held.subject, held.sequence, is_only=held.is_only))
        is_later = record.place.lane is MessageLane.SCHEDULED
        entry = self._scheduling(record) if is_later else entry_of(record, self._subjects)
        plan.entries.append(self._while_held(held, definition, entry) if held.reply else entry)

    def _while_held(self, held: Held, definition: Definition, entry: StreamEntry) -> StreamEntry:
        """Let something be stored only if no one has taken the lock over."""
        return entry.fenced(held.takeover, self._subjects.takeover(definition.key, held.sequence))

    def _held(self, plan: EffectPlan, lock: Lock, definition: Definition) -> Held:
        held = self._locks.find(lock)
        if held is None:
            raise LockLost(lock.queue, lock.sequence)
        place = self._subjects.place(held.subject)
        is_here = place.key == definition.key and (place.lane is MessageLane.DEAD) == rules.is_dead_letter_queue(
            lock.queue
        )
        if not is_here or any(held.subject == used.subject for used in plan.used):
            raise LockLost(lock.queue, lock.sequence)
        return held

    async def current(self, held: Held) -> Held:
        """Return a lock with the version of the message that is stored now.

        Raises:
            LockLost: the lock is not good for that.
        """
        found = await self._connection.last(self._subjects.stream, held.subject)
        place = self._subjects.place(held.subject)
        record = None if found is None else record_of(place, found.headers, found.body, found.sequence)
        is_same = record is not None and (
            record.sequence == held.sequence if held.reply else record.token == held.token
        )
        if record is None or not is_same or (held.reply and await self._was_taken_over(held, place.key)):
            raise LockLost(held.queue, held.number)
        return replace(held, sequence=record.sequence, record=record)

    async def _was_taken_over(self, held: Held, key: str) -> bool:
        """Say whether another has the message by now."""
        found = await self._connection.last(self._subjects.stream, self._subjects.takeover(key, held.sequence))
        return (0 if found is None else found.sequence) != held.takeover


_LAST: Final = datetime(9_999, 12, 31, tzinfo=UTC).timestamp()


def _check(message: Message, queue: Definition) -> None:
    stored.check_message(message, stored.properties_of(message), queue.name, queue.of_queue)
