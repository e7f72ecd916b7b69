# SPDX-License-Identifier: MIT
"""A broker in fifty lines of memory, built on the transition table: what engines are compared with."""

from dataclasses import dataclass, field

from redrive.broker import QueueSettings, State, dead_letter_queue
from redrive.broker.lifecycle import TRANSITIONS, End, MessageEvent
from redrive.broker.rules import (
    LOCKED_STATES,
    MAX_DELIVERY_COUNT_EXCEEDED,
    TTL_EXPIRED,
    expires_at,
    has_had_its_deliveries,
)


@dataclass
class Entry:
    """A message as the model knows it. ``token`` is whatever the engine gave out, kept to be shown back."""

    sequence: int
    queue: str
    body: bytes
    state: State
    expires: float | None
    due: float | None = None
    count: int = 0
    token: object = None
    dead: tuple[str, str] | None = None

    def seen(self):
        """Return what anybody can see of it."""
        return (self.sequence, self.body, self.state, self.count, self.dead, self.expires)


@dataclass
class Model:
    """Queues with their settings, and messages by number. Time is an argument; it is always up to date."""

    queues: dict[str, QueueSettings]
    entries: dict[int, Entry] = field(default_factory=dict)

    def happen(self, entry: Entry, event: MessageEvent, reason: str = "") -> None:
        """Let something happen to a message, as the table says."""
        after = TRANSITIONS[entry.state, event]
        entry.due = None
        if after is End.GONE:
            del self.entries[entry.sequence]
        elif after is End.DEAD:
            entry.dead = (reason, entry.dead[1] if entry.dead else entry.queue)
            entry.queue = dead_letter_queue(entry.queue)
            entry.state, entry.count, entry.expires, entry.token = State.READY, 0, None, None
        else:
            entry.state = after
            entry.token = None if after not in LOCKED_STATES else entry.token

    def catch_up(self, now: float) -> None:
        """Let everything happen whose time has come."""
        for entry in list(self.entries.values()):
            if entry.due is not None and entry.due <= now:
                event = MessageEvent.COME_DUE if entry.state is State.SCHEDULED else MessageEvent.LOSE_LOCK
                if event is MessageEvent.LOSE_LOCK and self.is_spent(entry):
                    self.happen(entry, MessageEvent.EXCEED_DELIVERIES, MAX_DELIVERY_COUNT_EXCEEDED)
                else:
                    self.happen(entry, event)
            if entry.expires is not None and entry.expires <= now and (entry.state, MessageEvent.EXPIRE) in TRANSITIONS:
                is_kept = self.queues[entry.queue].dead_letter_on_expiration
                self.happen(entry, MessageEvent.EXPIRE_TO_DEAD_LETTER if is_kept else MessageEvent.EXPIRE, TTL_EXPIRED)

    def is_spent(self, entry: Entry) -> bool:
        return has_had_its_deliveries(entry.count, self.queues[entry.queue].max_delivery_count)

    def send(self, sequence: int, queue: str, body: bytes, *, ttl: float | None, at: float, now: float) -> None:
        expires = expires_at(max(at, now), ttl, self.queues[queue].default_ttl)
        is_later = at > now
        state = State.SCHEDULED if is_later else State.READY
        self.entries[sequence] = Entry(sequence, queue, body, state, expires, at if is_later else None)

    def next_ready(self, queue: str, limit: int) -> list[Entry]:
        """Return what a receive would bring; what had had its deliveries dies on the way."""
        found = []
        for entry in sorted(self.entries.values(), key=lambda entry: entry.sequence):
            if entry.queue == queue and entry.state is State.READY and len(found) < limit:
                if self.is_spent(entry):
                    self.happen(entry, MessageEvent.EXCEED_DELIVERIES, MAX_DELIVERY_COUNT_EXCEEDED)
                else:
                    found.append(entry)
        return found

    def lock(self, entry: Entry, token: object, now: float) -> None:
        self.happen(entry, MessageEvent.LOCK)
        entry.due, entry.token, entry.count = now + self.queues[entry.queue].lock_duration, token, entry.count + 1

    def held(self, sequence: int, queue: str, token: object) -> Entry | None:
        """Return the message that a lock is good for."""
        entry = self.entries.get(sequence)
        is_good = entry is not None and entry.token == token and entry.state in LOCKED_STATES and entry.queue == queue
        return entry if is_good else None

    def give_back(self, entry: Entry, delay: float, now: float, *, is_reset: bool) -> None:
        entry.count = 0 if is_reset else entry.count
        if self.is_spent(entry):
            self.happen(entry, MessageEvent.EXCEED_DELIVERIES, MAX_DELIVERY_COUNT_EXCEEDED)
        elif delay:
            self.happen(entry, MessageEvent.POSTPONE)
            entry.due = now + delay
        else:
            self.happen(entry, MessageEvent.ABANDON)

    def visible(self, queue: str) -> list[tuple]:
        here = [entry for entry in self.entries.values() if entry.queue == queue]
        return [entry.seen() for entry in sorted(here, key=lambda entry: entry.sequence)]
