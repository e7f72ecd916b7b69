# SPDX-License-Identifier: MIT
"""Turns a group of frequent requests into one call of the database."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from redrive.broker import rules, tallies
from redrive.broker.port import Complete, Lock, Received, Send, State
from redrive.broker.tallies import Key
from redrive.engines import stored
from redrive.engines.distribution import deal
from redrive.engines.fan_out import Recipient, Topic, recipients_of
from redrive.engines.journeys import Failed, failed_among
from redrive.engines.postgres.queues import Queue, check_is_queue, is_text
from redrive.engines.postgres.requests import MOST_AT_ONCE, ApplyRequest, LockRequest
from redrive.errors import InvalidMessage, RedriveError, SessionRequired

_PLACE, _DUE, _DELIVERY_COUNT, _SEQUENCE, _MESSAGE = 0, 1, 2, 3, slice(3, 10)
"""The columns of what was received."""

_REMOVED_FROM = itemgetter(2)

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_LONGEST_SESSION_BYTES = 2_000
"""What fits into an entry of an index."""


class OutgoingRow(NamedTuple):
    """A message as the columns of the database function that stores it."""

    queue: int
    at: float | None
    ttl: float | None
    window: float | None
    id: str
    session: str | None
    properties: str | None
    body: bytes | None
    shares: int | None = None
    """The place of the row that has its body, counted from 1; its own, if it is the first of those that share it."""
    dead_letter: str | None = None
    seen: int | None = None
    """The topic that remembers its id, if it does; otherwise its own queue remembers it for ``window`` seconds."""
    legs: int = 0
    """How many more queues get the message just as its own does; they share its body."""
    leg_from: int = 0
    """How many queues stand before the first of them in the list of those."""
    number: int = 0
    """Which of the numbers is its own, counted from 1; those of its legs follow."""


def check_session_id(session_id: str) -> None:
    """See that PostgreSQL can store a session's name."""
    if not is_text(session_id):
        raise InvalidMessage("session_id", session_id, "must be valid Unicode without a NUL character")
    if len(session_id.encode()) > _LONGEST_SESSION_BYTES:
        raise InvalidMessage("session_id", session_id, f"must be at most {_LONGEST_SESSION_BYTES:,} bytes here")


def check_taken(effect: Send, queue: Queue, properties: str | None) -> None:
    """See that a queue takes a message."""
    message, settings = effect.message, queue.settings
    if settings.requires_session and message.session_id is not None:
        check_session_id(message.session_id)
    stored.check_message(message, properties, queue.name, settings)


def _row(effect: Send, queue: Queue, properties: str | None, number: int) -> OutgoingRow:
    message, settings = effect.message, queue.settings
    ttl = settings.default_ttl
    if message.ttl is not None:
        ttl = message.ttl_s if ttl is None else min(ttl, message.ttl_s or ttl)
    return OutgoingRow(
        queue.id,
        None if effect.at is None else effect.at.timestamp(),
        ttl,
        None if effect.even_if_seen else settings.duplicate_detection,
        message.id or "",
        message.session_id if settings.requires_session else None,
        properties,
        message.body,
        number=number,
    )


_SENT_TO = attrgetter("queue", "legs", "leg_from", "dead_letter")


@dataclass(slots=True)
class OutgoingRows:
    """Messages on their way into the table.

    Attributes:
        rows: a row for each message that is stored; for a topic, one for each subscription that gets it, except those
            that are legs of another's row: they get the message just as that one does.
        leg_queues: the queues of legs. Rows that have the same ones name the same part of it.
        unmatched: the numbers of topics, one for each message that no subscription gets.
        queues: the queues that this is based on, by their numbers.
        used: those that are sent to.
        woken: the names of the queues in which a message becomes ready.
    """

    rows: list[OutgoingRow] = field(default_factory=list[OutgoingRow])
    leg_queues: list[int] = field(default_factory=list[int])
    unmatched: list[int] = field(default_factory=list[int])
    queues: dict[int, Queue] = field(default_factory=dict[int, Queue])
    used: dict[int, Queue] = field(default_factory=dict[int, Queue])
    woken: set[str] = field(default_factory=set[str])
    _open_topics: "dict[tuple[int, int], _OpenTopic | None]" = field(default_factory=dict[Any, Any])
    _legs: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])

    def add(self, effect: Send, queue: Queue) -> int:
        """Add a message; return how many rows it takes."""
        self.queues[queue.id] = self.used[queue.id] = queue
        if queue.topic is None:
            properties = stored.properties_of(effect.message)
            check_taken(effect, queue, properties)
            self.rows.append(_row(effect, queue, properties, self.count + 1))
            if effect.at is None:
                self.woken.add(queue.name)
            return 1
        return self._publish(effect, queue, queue.topic)

    def _publish(self, effect: Send, queue: Queue, topic: Topic[Queue]) -> int:
        properties = stored.checked_properties(effect.message, queue.name, queue.settings)
        if effect.at is None and (open_topic := self._everywhere(queue, topic)):  # most are
            self._add_everywhere(open_topic, effect, properties, queue.id)
            return 1
        self.queues.update({each.id: each for _, each in topic.subscriptions.values()})
        recipients = recipients_of(
            topic.subscriptions.values(), effect.message, lambda each: check_taken(effect, each, properties)
        )
        if not recipients:
            self.unmatched.append(queue.id)
            if topic.settings.keep_unmatched:
                recipients = [Recipient(queue, rules.NO_SUBSCRIPTION, rules.NO_SUBSCRIPTION_TEXT)]
        rows, legs = _divided(recipients)
        shares = len(self.rows) + 1 if len(rows) > 1 else None
        for recipient in rows:
            self.rows.append(self._row(recipient, effect, properties, shares, legs if recipient is rows[0] else []))
        self.used.update({recipient.queue.id: recipient.queue for recipient in recipients})
        if effect.at is None:
            self.woken.update(leg.queue.name for leg in legs)
        if rows and topic.settings.duplicate_detection is not None and not effect.even_if_seen:
            first = len(self.rows) - len(rows)
            window = topic.settings.duplicate_detection
            self.rows[first] = self.rows[first]._replace(window=window, seen=queue.id)
        return len(rows)

    def _everywhere(self, queue: Queue, topic: Topic[Queue]) -> "_OpenTopic | None":
        """Return a topic's queues, if there are any and each takes every message just as it is."""
        key = queue.id, queue.version
        if key not in self._open_topics:
            listed = [each for _, each in topic.subscriptions.values()]
            takes_all = bool(listed) and all(
                rule.matches_everything
                and each.is_plain
                and each.settings.max_message_bytes >= topic.settings.max_message_bytes
                for rule, each in topic.subscriptions.values()
            )
            self._open_topics[key] = None
            if takes_all:
                leg_from = self._leg_from(tuple(each.id for each in listed[1:]))
                window = topic.settings.duplicate_detection
                self._open_topics[key] = _OpenTopic(listed[0].id, len(listed) - 1, leg_from, window)
                found = {each.id: each for each in listed}
                self.queues.update(found)
                self.used.update(found)
                self.woken.update(each.name for each in listed)
        return self._open_topics[key]

    def _add_everywhere(self, to: "_OpenTopic", effect: Send, properties: str | None, topic: int) -> None:
        """Add a row for the first queue, with a leg for each other one."""
        message = effect.message
        window = None if effect.even_if_seen else to.window
        self.rows.append(
            OutgoingRow(
                to.queue,
                None,
                message.ttl_s,
                window,
                message.id or "",
                None,
                properties,
                message.body,
                None,
                None,
                None if window is None else topic,
                to.legs,
                to.leg_from,
                self.count + 1,
            )
        )

    def _leg_from(self, queues: tuple[int, ...]) -> int:
        """Return how many queues stand before these in the list of the legs' queues, and see that they are there."""
        if queues not in self._legs:
            self._legs[queues] = len(self.leg_queues)
            self.leg_queues.extend(queues)
        return self._legs[queues]

    @property
    def count(self) -> int:
        """How many numbers the messages need, those of legs included."""
        return self.rows[-1].number + self.rows[-1].legs if self.rows else 0

    def counted(self, sequences: Sequence[int | None]) -> dict[Key, int]:
        """Return what was sent, for the history, by the numbers that the rows got; a duplicate got none."""
        counts: dict[Key, int] = {}
        rows = self.rows
        if None in sequences:
            rows = [row for row, sequence in zip(rows, sequences, strict=True) if sequence is not None]
        for (number, legs, leg_from, why), count in Counter(map(_SENT_TO, rows)).items():
            for queue in (number, *self.leg_queues[leg_from : leg_from + legs]):
                key = self._key(queue, is_dead=why is not None)
                counts[key] = counts.get(key, 0) + count
        return counts

    def _key(self, number: int, *, is_dead: bool) -> Key:
        if not is_dead:
            return tallies.QUEUE, self.queues[number].name, tallies.SENT
        source = next(queue.name for queue in self.queues.values() if queue.dead == number)
        return tallies.QUEUE, source, tallies.DEAD

    def cut(self, rows: int, unmatched: int) -> None:
        """Forget what was added since there were so many."""
        del self.rows[rows:], self.unmatched[unmatched:]

    def _row(
        self,
        recipient: Recipient[Queue],
        effect: Send,
        properties: str | None,
        shares: int | None,
        legs: Sequence[Recipient[Queue]],
    ) -> OutgoingRow:
        queue, message = recipient.queue, effect.message
        body = message.body if shares is None or shares == len(self.rows) + 1 else None
        if recipient.reason is None:
            if effect.at is None:
                self.woken.add(queue.name)
            leg_from = self._leg_from(tuple(leg.queue.id for leg in legs)) if legs else 0
            row = _row(effect, queue, properties, self.count + 1)
            return row._replace(body=body, shares=shares, legs=len(legs), leg_from=leg_from)
        self.woken.add(rules.dead_letter_queue(queue.name))
        why = stored.dead_letter_json(recipient.reason, recipient.description, queue.name)
        message_id, number = message.id or "", self.count + 1
        return OutgoingRow(queue.dead, None, None, None, message_id, None, properties, body, shares, why, number=number)

    def columns(self) -> list[list[Any] | None]:
        """Return the rows as arguments of the database function that stores them; one queue may stand for all."""
        sent_to, *rest, legs, leg_from, numbers = _columns(self.rows, len(OutgoingRow._fields))
        if not legs or not any(legs):  # mostly
            return [_one_for_all(sent_to), *rest, None, None, None, None, self.unmatched or None]
        legs, leg_from = _one_for_all(legs), _one_for_all(leg_from)
        numbers = None if len(legs or ()) == 1 else numbers  # then they follow from how many there are
        return [_one_for_all(sent_to), *rest, legs, leg_from, numbers, self.leg_queues, self.unmatched or None]


class _OpenTopic(NamedTuple):
    """A topic all of whose queues take every message just as it is."""

    queue: int
    """The first of them."""
    legs: int
    """How many others there are."""
    leg_from: int
    window: float | None
    """How long the topic remembers ids, if it does."""


@dataclass(slots=True)
class _Place:
    """A queue from which a request of the group receives."""

    queue: Queue
    delete: bool
    asks: list[LockRequest] = field(default_factory=list[LockRequest])
    limit: int = 0


class Exchange:
    """A group as one database call; it gives each request its part of the answer.

    Attributes:
        token: what its locks are known by.
        queues: the queues it uses, by their numbers.
        used: those that are sent to or received from.
        woken: the names of the queues in which a message has become ready.
        moved: what is sent although its id was seen before, such as a message to an error queue.
    """

    def __init__(self, token: int, heads: Callable[[int], int]) -> None:
        self.token = token
        self._heads = heads
        self._applies: list[tuple[ApplyRequest, list[int]]] = []  # each with how many rows each of its messages takes
        self._removals: list[tuple[int, Hashable, int]] = []
        self._outgoing = OutgoingRows()
        self._places: dict[tuple[str, bool], _Place] = {}
        self.queues: dict[int, Queue] = {}
        self.used: dict[int, Queue] = {}
        self.woken: set[str] = set()
        self.moved: list[Send] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self._applies and not self._places

    @property
    def applies(self) -> list[ApplyRequest]:
        """The requests in it that send and complete."""
        return [ask for ask, _ in self._applies]

    @property
    def locks(self) -> list[Lock]:
        """The locks that are shown in it."""
        return [effect.lock for ask, _ in self._applies for effect in ask.effects if isinstance(effect, Complete)]

    def add(self, ask: ApplyRequest | LockRequest, queues: Callable[[str], Queue]) -> None:
        """Add a request; raise if it cannot be carried out."""
        if isinstance(ask, LockRequest):
            self._add_lock(ask, queues(ask.queue))
        else:
            self._add_apply(ask, queues)

    def _add_apply(self, ask: ApplyRequest, queues: Callable[[str], Queue]) -> None:
        removals, outgoing = len(self._removals), self._outgoing
        before = len(outgoing.rows), len(outgoing.unmatched)
        taken: list[int] = []
        try:
            for effect in ask.effects:
                if type(effect) is Send:
                    taken.append(self._outgoing.add(effect, queues(effect.queue)))
                    if effect.even_if_seen:
                        self.moved.append(effect)
                elif type(effect) is Complete:
                    lock = effect.lock
                    queue = queues(lock.queue)
                    self.queues[queue.id] = queue
                    self._removals.append((lock.sequence, lock.token, queue.id))
        except RedriveError:
            del self._removals[removals:]
            outgoing.cut(*before)
            raise
        self.queues.update(self._outgoing.queues)
        self.used.update(self._outgoing.used)
        self.woken |= self._outgoing.woken
        self._applies.append((ask, taken))

    @property
    def is_noted(self) -> bool:
        """Whether something of it is to be noted in the journeys of its messages."""
        return bool(self.failed) or any(queue.follows for queue in self.queues.values())

    @property
    def failed(self) -> list[Failed]:
        """What is noted of messages that a worker moves to an error queue."""
        return failed_among(self.moved) if self.moved else []

    @property
    def removals(self) -> list[int]:
        """The numbers of the messages that are completed."""
        return [sequence for sequence, _, _ in self._removals]

    def _add_lock(self, ask: LockRequest, queue: Queue) -> None:
        place = self._places.get((queue.name, ask.delete))
        if place is None:
            check_is_queue(queue)
            if queue.settings.requires_session:
                raise SessionRequired(queue.name, "accept a session and receive from it")
            place = self._places[queue.name, ask.delete] = _Place(queue, ask.delete)
            self.queues[queue.id] = self.used[queue.id] = queue
        place.asks.append(ask)
        place.limit = min(place.limit + ask.limit, MOST_AT_ONCE)

    def values(self, used: list[int]) -> list[object]:
        """Return the arguments of the database function, from the removals on."""
        removed, tokens, removed_from = _columns(_in_order(self._removals), 3)
        places = [
            (
                place.queue.id,
                place.limit,
                place.queue.settings.max_delivery_count,
                None if place.delete else place.queue.settings.lock_duration,
                self._heads(place.queue.id),
            )
            for place in self._places.values()
        ]
        return [
            removed,
            _one_for_all(_storable(tokens)),
            _one_for_all(removed_from),
            *self._outgoing.columns(),
            self._outgoing.count,
            *_columns(places, 5),
            self.token,
            used or None,
        ]

    def give(self, sequences: Sequence[int | None], found: Sequence[stored.Row]) -> None:
        """Give each request its result.

        Args:
            sequences: the number of each message that was sent, None for a duplicate.
            found: the rows of messages that were received: the number of their place, and what ``exchange`` returns.
        """
        given = 0
        for ask, taken in self._applies:
            ended = given + sum(taken)
            numbers = numbers_of(sequences[given:ended], taken)
            given = ended
            if len(numbers) == len(ask.effects):
                ask.give(numbers)
            else:
                rest = iter(numbers)
                ask.give([next(rest) if type(effect) is Send else None for effect in ask.effects])
        for number, place in enumerate(self._places.values(), 1):
            rows = sorted(self._rows_of(number, found), key=itemgetter(_SEQUENCE))
            received = [self._received(row, place) for row in rows]
            for receiver, hand in zip(place.asks, deal(received, [each.limit for each in place.asks]), strict=True):
                receiver.give(hand)

    def counted(self, sequences: Sequence[int | None], found: Sequence[stored.Row]) -> dict[Key, int]:
        """Return what was done, for the history; from what ``give`` is given."""
        counts = self._outgoing.counted(sequences) if sequences else {}
        for number, count in Counter(map(_REMOVED_FROM, self._removals)).items():
            counts[tallies.QUEUE, self.queues[number].name, tallies.COMPLETED] = count
        for number, place in enumerate(self._places.values(), 1) if found else ():
            rows = self._rows_of(number, found)
            name = place.queue.name
            done = {tallies.DELIVERED: len(rows)}
            done[tallies.REDELIVERED] = sum([row[_DELIVERY_COUNT] > 1 for row in rows])
            if place.delete:
                done[tallies.COMPLETED] = len(rows)
            for metric, count in done.items():
                key = tallies.QUEUE, name, metric
                counts[key] = counts.get(key, 0) + count
        return counts

    def _rows_of(self, place: int, found: Sequence[stored.Row]) -> Sequence[stored.Row]:
        return found if len(self._places) == 1 else [row for row in found if row[_PLACE] == place]

    def _received(self, row: stored.Row, place: _Place) -> Received:
        name = place.queue.name
        if place.delete:
            return stored.received(row[_MESSAGE], name, State.READY, row[_DELIVERY_COUNT])
        lock = stored.lock(name, row[_SEQUENCE], self.token)
        until = stored.instant(row[_DUE])
        return stored.received(row[_MESSAGE], name, State.LOCKED, row[_DELIVERY_COUNT], lock, locked_until=until)

    def place_of(self, queue: int) -> int:
        """Return the number of the place that is a queue, for rows that were found again by their token."""
        for number, place in enumerate(self._places.values(), 1):
            if place.queue.id == queue and not place.delete:
                return number
        return 0

    def heads(self, found: Sequence[stored.Row]) -> dict[int, int]:
        """Return, by queue, the lowest number that was received from it; 0 if no message was."""
        return {
            place.queue.id: min((row[_SEQUENCE] for row in self._rows_of(number, found)), default=0)
            for number, place in enumerate(self._places.values(), 1)
        }


def _divided(recipients: Sequence[Recipient[Queue]]) -> tuple[list[Recipient[Queue]], list[Recipient[Queue]]]:
    """Return the recipients of a message that need a row, and those that get what the first of these gets."""
    plain: list[Recipient[Queue]] = []
    others: list[Recipient[Queue]] = []
    for each in recipients:
        (plain if each.reason is None and each.queue.is_plain else others).append(each)
    return [*plain[:1], *others], plain[1:]


def numbers_of(sequences: Sequence[int | None], taken: Sequence[int]) -> list[int | None]:
    """Return the number of each message, from those of the rows it takes: the first that is not a duplicate's."""
    if len(taken) == len(sequences) == taken.count(1):  # mostly there is no topic among the queues
        return list(sequences)
    rest = iter(sequences)
    return [next((one for one in list(islice(rest, count)) if one is not None), None) for count in taken]


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any] | None]:
    """Return rows as columns; None for a column of only None, which is less to send and means the same."""
    if not rows:
        return [None] * count
    return [None if column.count(None) == len(column) else list(column) for column in zip(*rows, strict=True)]


def _in_order(removals: list[tuple[int, Hashable, int]]) -> list[tuple[int, Hashable, int]]:
    """Return messages to be removed in order of their numbers, each of which the database can compare."""
    ordered = sorted(removals, key=itemgetter(0)) if all(type(one[0]) is int for one in removals) else None
    if ordered is not None and (not ordered or (ordered[0][0] >= _SMALLEST and ordered[-1][0] <= _LARGEST)):
        return ordered
    return sorted(((stored.storable(one[0]), *one[1:]) for one in removals), key=itemgetter(0))


def _storable(numbers: list[Any] | None) -> list[Any] | None:
    """Return a column of numbers that callers may have made up: no message or lock has one of more than 64 bits."""
    if not numbers:
        return numbers
    try:
        if min(numbers) >= _SMALLEST and max(numbers) <= _LARGEST:
            return numbers
    except TypeError:  # a token of another engine
        pass
    return [stored.storable(number) for number in numbers]


def _one_for_all(numbers: list[Any] | None) -> list[Any] | None:
    """Return a column of queues, or one of them if they are all the same."""
    return numbers[:1] if numbers and numbers.count(numbers[0]) == len(numbers) else numbers
