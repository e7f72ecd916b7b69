# SPDX-License-Identifier: MIT
"""Looks at queues and messages without touching them.

What the server says is exact about which messages there are, and knows of each that was handed out only that it was.
Which of those are locked is known for the locks of this engine; all others count as locked until they are received
again, or settled. What is left of a settled message goes after a second; until then, this engine knows its own.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from math import inf
from typing import Final

from redrive.broker import rules
from redrive.broker.port import QueueInfo, Received, State, TopicInfo
from redrive.broker.topics import SubscriptionInfo
from redrive.clock import system_clock, utc
from redrive.engines import stored
from redrive.engines.nats.catalog import Definition
from redrive.engines.nats.consumers import ConsumerProgress
from redrive.engines.nats.group_commit import StreamEntry
from redrive.engines.nats.parts import Parts
from redrive.engines.nats.receiver import Receiving
from redrive.engines.nats.records import GONE, MessageRecord
from redrive.engines.nats.subjects import MessageLane

_REMEMBERED_S: Final = 5.0
_PAGE: Final = 256
_MOST_READ: Final = 100
"""How many messages are read to tell which of them are settled or locked. More are only counted: then what others have
settled counts for a second longer."""

_AT_ONCE: Final = 20


class Looking:
    """What looks at the queues of a namespace.

    Args:
        parts: the parts of the engine.
        receiving: reads messages.
    """

    def __init__(self, parts: Parts, receiving: Receiving) -> None:
        self._connection = parts.connection
        self._subjects = parts.subjects
        self._catalog = parts.catalog
        self._consumers = parts.consumers
        self._locks = parts.locks
        self._clock = parts.clock
        self._receiving = receiving
        self._removed: dict[str, float] = {}

    def note(self, entries: Iterable[StreamEntry]) -> None:
        """Note what was stored: what has removed a message is no message."""
        now = system_clock.monotonic()
        for entry in entries:
            self._removed.pop(entry.subject, None)
            if GONE in entry.headers:
                self._removed[entry.subject] = now  # so the oldest are the first
        while self._removed and next(iter(self._removed.values())) < now - _REMEMBERED_S:
            del self._removed[next(iter(self._removed))]

    # --- messages

    async def peek(
        self, name: str, limit: int, start: int, states: Sequence[State] | None, max_bytes: int | None
    ) -> list[Received]:
        """Return messages in order of their numbers, one at least if ``max_bytes`` are few."""
        queue = await self._catalog.queue(name, anew=True)
        lanes = (
            (MessageLane.DEAD,)
            if rules.is_dead_letter_queue(name)
            else (MessageLane.READY, MessageLane.SCHEDULED, MessageLane.ASIDE)
        )
        there = await self._there(self._subjects.lanes(queue.key))
        subjects = [each for lane in lanes for each in there[queue.key, lane]]
        subjects = sorted((each for each in subjects if self._number(each) >= start), key=self._number)
        progress = ConsumerProgress() if MessageLane.DEAD in lanes else await self._consumers.progress(queue)
        wanted = tuple(State) if states is None else tuple(states)
        found: list[Received] = []
        room = inf if max_bytes is None else max_bytes
        for first in range(0, len(subjects) if limit else 0, _PAGE):
            for record in await self._receiving.records(subjects[first : first + _PAGE]):
                seen = self._seen(name, record, progress)
                if seen.state not in wanted:
                    continue
                room -= len(seen.body)
                if found and room < 0:
                    return found
                found.append(seen)
                if len(found) >= limit:
                    return found
        return found

    def _seen(self, name: str, record: MessageRecord, progress: ConsumerProgress) -> Received:
        now = self._clock.time()
        if record.place.lane is MessageLane.SCHEDULED:
            return record.received(name, State.SCHEDULED, count=record.count)
        if record.place.lane is not MessageLane.READY:
            state = record.state(now)
            until = record.until if state in rules.LOCKED_STATES else None
            return record.received(name, state, count=record.count, until=until)
        subject = self._subjects.message(record.place)
        is_out = self._is_out(subject, record.sequence, progress)
        held = self._locks.held_at(subject)
        count = held.count if held is not None else max(record.count, self._locks.deliveries(subject))
        until = held.until if held is not None and is_out else None
        return record.received(name, State.LOCKED if is_out else State.READY, count=count, until=until)

    def _is_out(self, subject: str, sequence: int, progress: ConsumerProgress) -> bool:
        """Say whether a message is locked, as far as that is known."""
        self._locks.sort_out()
        if self._locks.held_at(subject) is not None:
            return True
        return sequence <= progress.last and progress.out > 0 and not self._locks.is_returned(subject)

    def _number(self, subject: str) -> int:
        return self._subjects.place(subject).number

    async def _there(self, pattern: str) -> dict[tuple[str, MessageLane], list[str]]:
        """Return the subjects that have a message, by queue and lane."""
        found: dict[tuple[str, MessageLane], list[str]] = defaultdict(list)
        for subject in await self._connection.subjects(self._subjects.stream, pattern):
            if subject not in self._removed:
                place = self._subjects.place(subject)
                found[place.key, place.lane].append(subject)
        return found

    # --- queues

    async def inspect(self, name: str | None) -> list[QueueInfo]:
        """Describe one queue or all."""
        if name is not None:
            definition = await self._catalog.get(name, anew=True)
            there = await self._there(self._subjects.lanes(definition.key))
            return [await self._info(definition, name, there)]
        there = await self._there(self._subjects.messages)
        found: list[QueueInfo] = []
        queues = await self._catalog.all()
        for start in range(0, len(queues), _AT_ONCE):
            page = queues[start : start + _AT_ONCE]
            found += await asyncio.gather(*(self._info(each, each.name, there) for each in page))
        return found

    async def _info(self, queue: Definition, name: str, there: dict[tuple[str, MessageLane], list[str]]) -> QueueInfo:
        ready, scheduled, aside, dead = [await self._living(there[queue.key, lane]) for lane in MessageLane]
        is_dead = rules.is_dead_letter_queue(name)
        states = await self._dead_states(dead) if is_dead else await self._states(queue, ready, scheduled, aside)
        numbers = [self._number(each) for each in (dead if is_dead else (*ready, *scheduled, *aside))]
        used = await self._connection.last(self._subjects.stream, self._subjects.used(queue.key))
        oldest = await self._oldest(states[State.READY])
        return QueueInfo(
            name=name,
            settings=queue.of_dead_letters if is_dead else queue.of_queue,
            ready=len(states[State.READY]),
            scheduled=len(states[State.SCHEDULED]),
            locked=len(states[State.LOCKED]) + len(states[State.DEFERRED_LOCKED]),
            deferred=len(states[State.DEFERRED]),
            dead=0 if is_dead else len(dead),
            last_sequence=max(numbers, default=0),
            oldest_at=oldest,
            created_at=utc(queue.created_at),
            used_at=utc(queue.created_at if used is None else float(used.body)),
            is_topic=queue.is_topic,
        )

    async def _living(self, subjects: list[str]) -> list[str]:
        """Return the subjects without those whose message was settled, by whomever, unless they are many."""
        if len(subjects) > _MOST_READ:
            return subjects
        return [self._subjects.message(record.place) for record in await self._receiving.records(subjects)]

    async def _states(
        self, queue: Definition, ready: list[str], scheduled: list[str], aside: list[str]
    ) -> dict[State, list[str]]:
        states = await self._dead_states(aside, State.DEFERRED)
        states[State.SCHEDULED] += scheduled
        progress = ConsumerProgress() if queue.is_topic or not ready else await self._consumers.progress(queue)
        out = await self._out(ready, progress)
        states[State.LOCKED] += [each for each in ready if each in out]
        states[State.READY] += [each for each in ready if each not in out]
        return states

    async def _out(self, ready: list[str], progress: ConsumerProgress) -> set[str]:
        """Return which messages are locked: the first in the stream's order were handed out."""
        self._locks.sort_out()
        own = {each for each in ready if self._locks.held_at(each) is not None}
        returned = sum(1 for each in ready if self._locks.is_returned(each))
        if progress.out - returned <= len(own):
            return own
        if len(ready) > _MOST_READ:  # of so many, how many is all that is asked
            others = [each for each in ready if each not in own]
            return own | {*others[: progress.out - returned - len(own)]}
        stored_ = await self._connection.last_of_each(self._subjects.stream, ready)
        living = [each for each in stored_ if GONE not in each.headers]
        return {each.subject for each in living if self._is_out(each.subject, each.sequence, progress)}

    async def _dead_states(self, subjects: list[str], default: State = State.READY) -> dict[State, list[str]]:
        """Return what messages are doing whose records say it; of very many, none is looked at."""
        states: dict[State, list[str]] = {state: [] for state in State}
        if len(subjects) > _MOST_READ:
            states[default] += subjects
            return states
        now = self._clock.time()
        for record in await self._receiving.records(subjects):
            states[record.state(now)].append(self._subjects.message(record.place))
        return states

    async def _oldest(self, ready: list[str]) -> datetime | None:
        for subject in sorted(ready, key=self._number)[:_PAGE]:
            for record in await self._receiving.records([subject]):
                return stored.instant(record.enqueued_at)
        return None

    async def topics(self, name: str | None) -> list[TopicInfo]:
        """Describe one topic or all."""
        if name is not None:
            return [await self._topic(await self._catalog.topic(name))]
        return [await self._topic(each) for each in await self._catalog.all() if each.is_topic]

    async def _topic(self, topic: Definition) -> TopicInfo:
        counted = await self._connection.last(self._subjects.stream, self._subjects.unmatched(topic.key))
        subscriptions = [
            SubscriptionInfo(name=queue.removeprefix(f"{topic.name}/"), queue=queue, rule=rule)
            for queue, rule in topic.subscriptions.items()
        ]
        return TopicInfo(
            name=topic.name,
            settings=topic.of_topic,
            subscriptions=tuple(subscriptions),
            unmatched=0 if counted is None else int(counted.body),
            created_at=utc(topic.created_at),
        )
