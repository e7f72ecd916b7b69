# SPDX-License-Identifier: MIT
"""What callers do all the time, and how a group of it becomes one call of the database."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from redrive.broker.engine import Complete, Effect, Outcome, Send
from redrive.broker.lifecycle import State
from redrive.broker.message import Lock, Received
from redrive.engines import stored
from redrive.engines.dealing import deal
from redrive.engines.postgres.lane import Ask
from redrive.engines.postgres.queues import Queue
from redrive.errors import InvalidMessage, SessionRequired

_LONGEST_SESSION_BYTES = 2_000
"""What fits into an entry of an index."""


class ApplyAsk(Ask[list[Outcome]]):
    """A caller's sends and completions, all or nothing."""

    def __init__(self, effects: Sequence[Effect]) -> None:
        super().__init__()
        self.effects = effects

    @property
    def queues(self) -> set[str]:
        """The names of the queues it has to do with."""
        return {queue_of(effect) for effect in self.effects}

    @property
    def size(self) -> int:
        """How many bytes it sends."""
        return sum(len(effect.message.body) for effect in self.effects if type(effect) is Send)


class LockAsk(Ask[list[Received]]):
    """A receiver who waits for messages."""

    def __init__(self, queue: str, limit: int, give_back: Callable[[list[Lock]], None], *, delete: bool) -> None:
        super().__init__()
        self.queue = queue
        self.limit = limit
        self.delete = delete
        self._give_back = give_back

    @property
    def queues(self) -> set[str]:
        """The names of the queues it has to do with."""
        return {self.queue}

    def abandoned(self, result: list[Received]) -> None:
        """Give back what was locked for a caller who is gone."""
        locks = [received.lock for received in result if received.lock is not None]
        if locks:
            self._give_back(locks)


class Outgoing(NamedTuple):
    """A message as the columns of the database function that stores it."""

    queue: int
    at: float | None
    ttl: float | None
    window: float | None
    id: str
    session: str | None
    properties: str | None
    body: bytes


def outgoing(effect: Send, queue: Queue) -> Outgoing:
    """Return what is stored of a message, if its queue takes it."""
    message, settings = effect.message, queue.settings
    if settings.requires_session and len((message.session_id or "").encode()) > _LONGEST_SESSION_BYTES:
        raise InvalidMessage("session_id", message.session_id, f"must be at most {_LONGEST_SESSION_BYTES:,} bytes here")
    properties = stored.checked_properties(message, queue.name, settings)
    ttl = settings.default_ttl
    if message.ttl is not None:
        ttl = message.ttl_s if ttl is None else min(ttl, message.ttl_s or ttl)
    return Outgoing(
        queue.id,
        None if effect.at is None else effect.at.timestamp(),
        ttl,
        None if effect.even_if_seen else settings.duplicate_detection,
        message.id or "",
        message.session_id if settings.requires_session else None,
        properties,
        message.body,
    )


@dataclass(slots=True)
class _Place:
    """A queue from which somebody in the group receives."""

    queue: Queue
    delete: bool
    asks: list[LockAsk] = field(default_factory=list[LockAsk])


class Exchange:
    """The group as one call, and the way back from its answer."""

    def __init__(self, token: int, heads: Callable[[int], int]) -> None:
        self.token = token
        self._heads = heads
        self._applies: list[ApplyAsk] = []
        self._removals: list[tuple[int, int, int]] = []
        self._outgoing: list[Outgoing] = []
        self._places: dict[tuple[str, bool], _Place] = {}
        self._queues: dict[int, Queue] = {}
        self.woken: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self._applies and not self._places

    @property
    def locks(self) -> list[Lock]:
        """The locks that are shown in it."""
        return [effect.lock for ask in self._applies for effect in ask.effects if isinstance(effect, Complete)]

    def add(self, ask: ApplyAsk | LockAsk, queues: Callable[[str], Queue]) -> None:
        """Take a caller in; raise what is wrong with what he wants."""
        if isinstance(ask, LockAsk):
            self._add_lock(ask, queues(ask.queue))
        else:
            self._add_apply(ask, queues)

    def _add_apply(self, ask: ApplyAsk, queues: Callable[[str], Queue]) -> None:
        removals: list[tuple[int, int, int]] = []
        sends: list[Outgoing] = []
        for effect in ask.effects:
            if type(effect) is Complete:
                lock = effect.lock
                queue = self._using(queues(lock.queue))
                removals.append((stored.storable(lock.sequence), stored.storable(lock.token), queue.id))
            elif type(effect) is Send:
                sends.append(outgoing(effect, self._using(queues(effect.queue))))
        self._removals += removals
        self._outgoing += sends
        self._applies.append(ask)
        for effect in ask.effects:  # only now: until here it may be refused
            if type(effect) is Send and effect.at is None:
                self.woken.add(effect.queue)

    def _using(self, queue: Queue) -> Queue:
        self._queues[queue.id] = queue
        return queue

    def _add_lock(self, ask: LockAsk, queue: Queue) -> None:
        if queue.settings.requires_session:
            raise SessionRequired(queue.name, "accept a session and receive from it")
        self._using(queue)
        self._places.setdefault((queue.name, ask.delete), _Place(queue, ask.delete)).asks.append(ask)

    @property
    def queues(self) -> list[Queue]:
        """The queues it has to do with."""
        return list(self._queues.values())

    @property
    def used(self) -> list[Queue]:
        """The queues that are sent to or received from."""
        used = {one.queue for one in self._outgoing} | {place.queue.id for place in self._places.values()}
        return [queue for queue in self._queues.values() if queue.id in used]

    def values(self, used: list[int]) -> list[object]:
        """Return the arguments of the database function, from the removals on."""
        places = list(self._places.values())
        removed, tokens, removed_from = _columns(self._removals, 3)
        sent_to, *rest = _columns(self._outgoing, len(Outgoing._fields))
        return [
            removed,
            tokens,
            _one_for_all(removed_from),
            _one_for_all(sent_to),
            *rest,
            [place.queue.id for place in places],
            [sum(ask.limit for ask in place.asks) for place in places],
            [place.queue.settings.max_delivery_count for place in places],
            [None if place.delete else place.queue.settings.lock_duration for place in places],
            [self._heads(place.queue.id) for place in places],
            self.token,
            used,
        ]

    def give(self, sequences: Sequence[int | None], found: Sequence[Sequence[Any]]) -> None:
        """Tell everybody what came of it.

        Args:
            sequences: the number of each message that was sent, None for a duplicate.
            found: the rows of messages that were received: the number of their place, and what ``exchange`` returns.
        """
        numbers = iter(sequences)
        for ask in self._applies:
            ask.give([next(numbers) if type(effect) is Send else None for effect in ask.effects])
        for number, place in enumerate(self._places.values(), 1):
            rows = sorted((tuple(row) for row in found if row[0] == number), key=itemgetter(1))
            received = [self._received(row, place) for row in rows]
            for receiver, hand in zip(place.asks, deal(received, [each.limit for each in place.asks]), strict=True):
                receiver.give(hand)

    def _received(self, row: stored.Row, place: _Place) -> Received:
        sequence, due, delivery_count = row[1:4]
        name = place.queue.name
        told = (sequence, *row[4:10])
        if place.delete:
            return stored.received(told, name, State.READY, delivery_count)
        lock = Lock(name, sequence, self.token)
        return stored.received(told, name, State.LOCKED, delivery_count, lock, locked_until=stored.instant(due))

    def place_of(self, queue: int) -> int:
        """Return the number of the place that is a queue, for rows that were found again by their token."""
        for number, place in enumerate(self._places.values(), 1):
            if place.queue.id == queue and not place.delete:
                return number
        return 0

    def heads(self, found: Sequence[Sequence[Any]]) -> dict[int, int]:
        """Return, by queue, where the next receive may begin to look: 0 where it found less than it wanted."""
        heads: dict[int, int] = {}
        for number, place in enumerate(self._places.values(), 1):
            sequences = [row[1] for row in found if row[0] == number]
            is_full = len(sequences) >= sum(ask.limit for ask in place.asks)
            heads[place.queue.id] = min(sequences) if sequences and is_full else 0
        return heads


def queue_of(effect: Effect) -> str:
    """Return the queue that a send or a completion has to do with."""
    if isinstance(effect, Send):
        return effect.queue
    if isinstance(effect, Complete):
        return effect.lock.queue
    raise TypeError(effect)


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any] | None]:
    """Return rows as columns; None for a column in which there is nothing, which is less to send and means the same."""
    columns: list[list[Any] | None] = []
    for column in zip(*rows, strict=True) if rows else ((),) * count:
        is_empty = not column or (column[0] is None and not any(value is not None for value in column))
        columns.append(None if is_empty else list(column))
    return columns


def _one_for_all(numbers: list[Any] | None) -> list[Any] | None:
    """Return a column of queues, or one of them if they are all the same."""
    return numbers[:1] if numbers and numbers.count(numbers[0]) == len(numbers) else numbers
