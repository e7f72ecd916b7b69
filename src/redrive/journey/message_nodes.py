# SPDX-License-Identifier: MIT
"""The stays of messages in queues: what is known of each, and where its time went. Pure: no I/O, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from redrive.broker.rules import source_queue
from redrive.journey.journey import Happening, Node
from redrive.journey.records import Entry, FailureRecord, QueuedMessage, Records
from redrive.journey.times import Interval, Kind

_ENDS = ("completed", "expired", "failed")
_WAITING_KINDS: dict[str, Kind] = {"ready": "waiting", "deferred": "waiting", "scheduled": "delayed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStay:
    """A message in one queue.

    Attributes:
        message_id: the message's id.
        queue: the queue.
        entries: what was noted there, in order.
        queued: what it is doing there now, if it is there; or as a dead letter of that queue.
        failure: what recovery knows of it there.
        now: the time.
    """

    message_id: str
    queue: str
    entries: tuple[Entry, ...]
    queued: QueuedMessage | None
    failure: FailureRecord | None
    now: float

    @property
    def node(self) -> str:
        """The id of its node."""
        return f"{self.message_id}@{self.queue}"

    @property
    def parent(self) -> str | None:
        """The message that was being handled when it was sent."""
        known = [each.parent for each in (*self.entries, self.queued, self.failure) if each is not None]
        return next((parent for parent in known if parent is not None), None)

    @property
    def has_beginning(self) -> bool:
        """Whether it is known when it was sent there."""
        return self.queued is not None or any(each.event == "sent" for each in self.entries)

    @property
    def begin(self) -> float:
        """The first that is known of it there."""
        instants = [each.at if each.since is None else each.since for each in self.entries]
        if self.queued is not None:
            instants.append(self.queued.enqueued_at)
        if self.failure is not None:
            instants.append(self.failure.attempts[0].at)
        return min(instants)

    @property
    def is_failed_copy(self) -> bool:
        """Whether it is there only because it has failed elsewhere."""
        return self.queued is not None and self.queued.failed_queue is not None and not self.entries

    def is_moved_from(self, other: "MessageStay") -> bool:
        """Say whether the message is here because it failed in another queue."""
        if self.queued is not None and self.queued.failed_queue == other.queue:
            return True
        sent = {each.at for each in self.entries if each.event == "sent"}
        return any(each.event == "failed" and each.at in sent for each in other.entries)

    @property
    def is_dead(self) -> bool:
        """Whether it is a dead letter, or in an error queue, now."""
        return self.queued is not None and (self.queued.is_dead or self.queued.failed_queue is not None)

    @property
    def is_under_way(self) -> bool:
        """Whether it is in the queue now, and will be delivered."""
        return self.queued is not None and not self.is_dead

    @property
    def is_lost_sight_of(self) -> bool:
        """Whether nothing says what became of it: it had trouble there, and is gone."""
        if self.queued is not None or not self.entries or self.entries[-1].event in _ENDS:
            return False
        last = self.entries[-1].at
        return self.failure is None or max(each.at for each in self.failure.attempts) < last

    @property
    def state(self) -> str:
        """Where it stands there."""
        if self.queued is not None:
            return "dead" if self.queued.is_dead else self.queued.state
        if self.failure is not None and (not self.entries or self.entries[-1].event not in ("completed", "expired")):
            return "failed"
        return self.entries[-1].event if self.entries[-1].event in _ENDS else "gone"

    @property
    def end(self) -> float | None:
        """The last that is known of it there; None: it is there."""
        if self.queued is not None:
            return None
        instants = [each.at for each in self.entries]
        if self.failure is not None:
            instants += [each.at for each in self.failure.attempts]
        return max(instants)

    def as_node(self) -> Node:
        """Return its node."""
        happenings = [
            Happening(each.at, each.event, f"attempt {each.attempt}: {each.reason}" if each.reason else "")
            for each in self.entries
        ]
        if self.queued is not None and not any(each.event == "sent" for each in self.entries):
            happenings.insert(0, Happening(self.queued.enqueued_at, "sent"))
        return Node(
            *(self.node, "message", "redeliver", self.queue, self.message_id, self.state, self.begin, self.end),
            tuple(sorted(happenings, key=lambda each: each.at)),
        )

    @property
    def intervals(self) -> list[Interval]:
        """Where its time there went."""
        found: list[Interval] = []
        cursor: float | None = self.begin  # since when it waits; None: it is not there, until it is sent again
        for entry in self.entries:
            began = entry.at if entry.since is None else max(entry.since, cursor or entry.since)
            if cursor is not None and entry.event != "sent":
                self._add(found, "waiting", cursor, began)
            self._add(found, "handling", began, entry.at)
            cursor = entry.at
            if entry.until is not None:
                cursor = max(cursor, min(entry.until, self.now))
                self._add(found, "delayed", entry.at, cursor)
            if entry.event in _ENDS:
                cursor = None
        return found + self._present(cursor)

    def _present(self, waits_since: float | None) -> list[Interval]:
        """Return what it has done in its queue since the last that was noted."""
        found: list[Interval] = []
        if self.queued is None:
            return found
        last = max((entry.at for entry in self.entries), default=0.0)
        cursor = max(last, self.queued.enqueued_at) if waits_since is None else waits_since
        if self.is_dead:
            self._add(found, "failed", cursor, self.now)
        elif self.queued.locked_since is not None:
            began = max(cursor, self.queued.locked_since)
            self._add(found, "waiting", cursor, began)
            self._add(found, "handling", began, self.now)
        else:
            self._add(found, _WAITING_KINDS.get(self.queued.state, "waiting"), cursor, self.now)
        return found

    def _add(self, found: list[Interval], kind: Kind, begin: float, end: float) -> None:
        if end > begin:
            found.append(Interval(kind, begin, end, self.node))


def stays_of(records: Records) -> list[MessageStay]:
    """Return the stays of all messages, in order of time."""
    noted: dict[tuple[str, str], list[Entry]] = {}
    for entry in records.entries:
        if entry.layer == "redeliver":
            noted.setdefault((entry.message_id, source_queue(entry.place)), []).append(entry)
    queued = {(each.message_id, source_queue(each.queue)): each for each in records.queued}
    failed = {(each.message_id, each.queue): each for each in records.failures}
    stays = [
        MessageStay(
            message_id=message_id,
            queue=queue,
            entries=_in_order(noted.get((message_id, queue), ())),
            queued=queued.get((message_id, queue)),
            failure=failed.get((message_id, queue)),
            now=records.now,
        )
        for message_id, queue in sorted({*noted, *queued, *failed})
    ]
    return sorted(stays, key=lambda stay: (stay.begin, stay.node))


def _in_order(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return entries in order of time. A message that is moved to an error queue is completed with that: one event."""
    completed = {each.at: each for each in entries if each.event == "completed"}
    moved = {each.at for each in entries if each.event == "failed"}
    kept = [
        replace(each, since=completed[each.at].since) if each.event == "failed" and each.at in completed else each
        for each in entries
        if each.event != "completed" or each.at not in moved
    ]
    return tuple(sorted(kept, key=lambda each: each.at))
