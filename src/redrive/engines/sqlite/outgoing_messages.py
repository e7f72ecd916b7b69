# SPDX-License-Identifier: MIT
"""Messages on their way into the tables: rows are collected, and stored together."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from redrive.broker import rules
from redrive.broker.port import Message, Send, State
from redrive.engines import stored
from redrive.engines.fan_out import Recipient, Topic, recipients_of
from redrive.engines.sqlite import rows
from redrive.engines.sqlite.queues import QueueRow

_PLAIN = (
    "INSERT INTO redrive_messages (sequence, queue, state, delivery_count, enqueued_at, id, properties, body)"
    " VALUES (?, ?, 0, 0, ?, ?, ?, ?)"
)
_SHARED = (  # one statement for all queues that get a message
    "INSERT INTO redrive_messages (sequence, queue, state, delivery_count, enqueued_at, id, properties, content)"
    " SELECT ?1 + key, value, 0, 0, ?2, ?3, ?4, ?5 FROM json_each(?6)"
)
_FULL = (
    "INSERT INTO redrive_messages (sequence, queue, state, due, delivery_count, enqueued_at, expires, id, session,"
    " properties, dead_letter, body, content) VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?)"
)


_QUEUE_OF = itemgetter(1)
_QUEUES_OF = itemgetter(5)


class OutgoingMessages:
    """The messages that one transaction stores.

    Args:
        connection: where.
        sequence: the highest number that a message has had.
        now: the time.

    Attributes:
        sequence: the highest number that a message has by now.
        woken: the names of the queues in which a message is ready.
        used: the queues that were sent to.
    """

    def __init__(self, connection: sqlite3.Connection, sequence: int, now: float) -> None:
        self._connection = connection
        self._now = now
        self.sequence = sequence
        self.woken: set[str] = set()
        self.used: dict[int, QueueRow] = {}
        self._plain: list[tuple[Any, ...]] = []
        self._shared: list[tuple[Any, ...]] = []
        self._full: list[tuple[Any, ...]] = []
        self._bodies: list[tuple[int, bytes]] = []
        self._contents: list[tuple[int, bytes]] = []
        self._unmatched: list[tuple[int]] = []
        self._open_topics: dict[int, tuple[str, int] | None] = {}  # the numbers of their queues, and how many
        self._noted: set[int] = set()  # those whose queues are among the used ones

    def add(self, queue: QueueRow, effect: Send, properties: str | None) -> int | None:
        """Add a message; return its number, None if it is a duplicate, or if no subscription of a topic gets it."""
        message = effect.message
        stored.check_message(message, properties, queue.name, queue.settings)
        self.used[queue.id] = queue
        if queue.is_plain and effect.at is None and message.ttl is None:  # most are
            if self._is_duplicate(queue, effect):
                return None
            self.sequence += 1
            self.woken.add(queue.name)
            row = (self.sequence, queue.id, self._now, message.id, properties, self._kept(message))
            self._plain.append(row)
            return self.sequence
        if queue.topic is not None:
            return self._publish(queue, queue.topic, effect, properties)
        if self._is_duplicate(queue, effect):
            return None
        return self._add_full(queue, effect, properties)

    def _publish(self, queue: QueueRow, topic: Topic[QueueRow], effect: Send, properties: str | None) -> int | None:
        """Add a message to the queues of subscriptions; several share its body, under the number of the first."""
        message = effect.message
        if effect.at is None and message.ttl is None and self._is_open(queue, topic):  # most are
            return self._publish_everywhere(queue, topic, effect, properties)
        recipients = recipients_of(
            topic.subscriptions.values(),
            message,
            lambda each: stored.check_message(message, properties, each.name, each.settings),
        )
        if not recipients:
            self._unmatched.append((queue.id,))
            if not topic.settings.keep_unmatched:
                return None
            recipients = [Recipient(queue, rules.NO_SUBSCRIPTION, rules.NO_SUBSCRIPTION_TEXT)]
        if self._is_seen(queue.id, topic.settings.duplicate_detection, effect):
            return None
        wanted = [each for each in recipients if each.reason is not None or not self._is_duplicate(each.queue, effect)]
        return self._share(wanted, effect, properties) if wanted else None

    def _share(self, wanted: Sequence[Recipient[QueueRow]], effect: Send, properties: str | None) -> int:
        message, first = effect.message, self.sequence + 1
        if len(wanted) > 1:
            self._contents.append((first, message.body))
        content = first if len(wanted) > 1 else None
        together: list[int] = []
        is_plain = content is not None and effect.at is None and message.ttl is None
        for recipient in wanted:
            found = recipient.queue
            self.used[found.id] = found
            if recipient.reason is not None:
                self._add_dead(recipient, message, properties, content)
            elif is_plain and found.is_plain:  # most are
                together.append(found.id)
                self.woken.add(found.name)
            else:
                self._add_full(found, effect, properties, content)
        if together:
            self._shared.append((self.sequence + 1, self._now, message.id, properties, content, str(together)))
            self.sequence += len(together)
        return first

    def _is_open(self, queue: QueueRow, topic: Topic[QueueRow]) -> bool:
        """Say whether each queue of a topic takes every message just as it is: then none has to be looked at."""
        if queue.id not in self._open_topics:
            listed = [each for _, each in topic.subscriptions.values()]
            smallest = topic.settings.max_message_bytes
            takes_all = len(listed) > 1 and all(
                rule.matches_everything
                and each.is_plain
                and each.settings.duplicate_detection is None
                and each.settings.max_message_bytes >= smallest
                for rule, each in topic.subscriptions.values()
            )
            self._open_topics[queue.id] = (str([each.id for each in listed]), len(listed)) if takes_all else None
        return self._open_topics[queue.id] is not None

    def _publish_everywhere(
        self, queue: QueueRow, topic: Topic[QueueRow], effect: Send, properties: str | None
    ) -> int | None:
        """Add a message to all queues of a topic that takes it everywhere."""
        if self._is_seen(queue.id, topic.settings.duplicate_detection, effect):
            return None
        ids, count = self._open_topics[queue.id] or ("[]", 0)
        first = self.sequence + 1
        self._contents.append((first, effect.message.body))
        self._shared.append((first, self._now, effect.message.id, properties, first, ids))
        self.sequence += count
        for _, each in () if queue.id in self._noted else topic.subscriptions.values():
            self.used[each.id] = each
            self.woken.add(each.name)
        self._noted.add(queue.id)
        return first

    def _add_full(self, queue: QueueRow, effect: Send, properties: str | None, content: int | None = None) -> int:
        message, now = effect.message, self._now
        at = now if effect.at is None else max(now, effect.at.timestamp())
        is_later = at > now
        if not is_later:
            self.woken.add(queue.name)
        body = self._next_body(message, content)
        self._full.append(
            (
                self.sequence,
                queue.id,
                (State.SCHEDULED if is_later else State.READY).value,  # binding an enumeration is slow
                at if is_later else None,
                now,
                rules.expires_at(at, message.ttl_s, queue.settings.default_ttl),
                message.id,
                message.session_id if queue.settings.requires_session else None,
                properties,
                None,
                body,
                content,
            )
        )
        return self.sequence

    def _add_dead(
        self, recipient: Recipient[QueueRow], message: Message, properties: str | None, content: int | None
    ) -> None:
        """Add a message that is a dead letter from the beginning."""
        why = stored.dead_letter_json(recipient.reason or "", recipient.description, recipient.queue.name)
        body, now, dead = self._next_body(message, content), self._now, recipient.queue.dead_id
        row = (
            self.sequence,
            dead,
            State.READY.value,
            None,
            now,
            None,
            message.id,
            None,
            properties,
            why,
            body,
            content,
        )
        self._full.append(row)
        self.woken.add(rules.dead_letter_queue(recipient.queue.name))

    def _next_body(self, message: Message, content: int | None) -> bytes | None:
        """Count a message; return the body that goes into its row, None if it shares one."""
        self.sequence += 1
        return self._kept(message) if content is None else None

    def _kept(self, message: Message) -> bytes | None:
        """Return the body that goes into the row; None if it is large, and goes into a row of its own."""
        if len(message.body) <= rows.SMALL_BODY_BYTES:
            return message.body
        self._bodies.append((self.sequence, message.body))
        return None

    def _is_duplicate(self, queue: QueueRow, effect: Send) -> bool:
        return self._is_seen(queue.id, queue.settings.duplicate_detection, effect)

    def _is_seen(self, place: int, window: float | None, effect: Send) -> bool:
        """Say whether the id of a message was sent to a queue or a topic before; if not, remember it."""
        if window is None or effect.even_if_seen:
            return False
        remember = (
            "INSERT INTO redrive_seen_ids VALUES (?, ?, ?) ON CONFLICT (queue, id) DO UPDATE SET until = excluded.until"
            " WHERE redrive_seen_ids.until <= ?"
        )
        until = self._now + window
        return self._connection.execute(remember, (place, effect.message.id, until, self._now)).rowcount == 0

    def sent_to(self) -> dict[int, int]:
        """Return how many messages are stored in which queues, by the numbers of these."""
        found = Counter(map(_QUEUE_OF, self._plain))
        if self._full:
            found.update(map(_QUEUE_OF, self._full))
        for queues, count in Counter(map(_QUEUES_OF, self._shared)).items() if self._shared else ():
            for queue in json.loads(queues):
                found[queue] += count
        return found

    def store(self) -> None:
        """Store all rows; those that are ready now and never expire take a shorter statement."""
        for statement, found in (
            (_PLAIN, self._plain),
            (_SHARED, self._shared),
            (_FULL, self._full),
            ("INSERT INTO redrive_bodies VALUES (?, ?)", self._bodies),
            ("INSERT INTO redrive_contents VALUES (?, ?)", self._contents),
            ("UPDATE redrive_queues SET unmatched = unmatched + 1 WHERE id = ?", self._unmatched),
        ):
            if found:
                self._connection.executemany(statement, found)
