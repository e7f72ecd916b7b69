# SPDX-License-Identifier: MIT
# Written by tools/generate_blocking.py from broker.py, delivery.py and session.py. Change those and run: make blocking
"""The broker for programs without an event loop: scripts, Django, Flask. The same implementation, waited for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NoReturn, Self, Unpack

from redrive import duration
from redrive.broker.broker import Broker
from redrive.broker.bulk import Resubmitted
from redrive.broker.delivery import Delivery
from redrive.broker.effects import Effect, EffectResult, SessionLock
from redrive.broker.lifecycle import State
from redrive.broker.message import DeadLetterInfo, Headers, Lock, Message, Payload, Received
from redrive.broker.port import Capabilities, QueueInfo, TopicInfo
from redrive.broker.portal import Portal
from redrive.broker.session import Session
from redrive.broker.settings import QueueOptions, TopicOptions
from redrive.broker.topics import RuleLike
from redrive.errors import UsageError


class BlockingBroker:
    """Durable queues. Made by ``redrive.connect_blocking``; use it as ``with connect_blocking(...) as broker``."""

    def __init__(self, broker: Broker) -> None:
        self._inner = broker
        self._portal = Portal()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> NoReturn:
        raise UsageError("it blocks: use it as with connect_blocking(...); in asyncio: async with connect(...)")

    async def __aexit__(self, *_: object) -> None:
        """Only there so that Python asks ``__aenter__``."""

    def open(self) -> None:
        """Connect. ``with`` does it for you; this is for programs whose beginning and end are apart, such as Flask."""
        self._portal.open()
        try:
            self._portal.run(self._inner.open())
        except BaseException:
            self._portal.close()
            raise
        self._portal.close_first(self._inner.close)

    def close(self) -> None:
        """Finish what was accepted, and disconnect; nothing if it is not open.

        Any thread may call it, and ``atexit``. What was opened on this broker is closed with it.
        """
        self._portal.close()

    @property
    def inner(self) -> Broker:
        """The broker itself, for code that runs on the portal's event loop."""
        return self._inner

    @property
    def portal(self) -> Portal:
        """The event loop that it runs on."""
        return self._portal

    def messages(self, queue: str, *, max_messages: int = 100) -> "Iterator[BlockingDelivery]":
        """Receive messages one after another until none is ready."""
        while found := self.receive(queue, max_messages=max_messages):
            yield from found

    @property
    def is_open(self) -> bool:
        """Whether it is open, in this process."""
        return self._inner.is_open

    @property
    def capabilities(self) -> Capabilities:
        """What the engine can do."""
        return self._inner.capabilities

    def declare(self, queue: str, **settings: Unpack[QueueOptions]) -> None:
        """Make sure that a queue is there; what you do not state is as usual.

        Raises:
            QueueConflict: it is there already, and a setting you state is another.
            InvalidSetting: a name or a setting is not what it may be.
        """
        self._portal.run(self._inner.declare(queue, **settings))

    def update(self, queue: str, **settings: Unpack[QueueOptions]) -> None:
        """Change some settings of a queue. Messages that are already there keep the expiry they were given."""
        self._portal.run(self._inner.update(queue, **settings))

    def delete(self, queue: str) -> None:
        """Delete a queue, its dead-letter queue and all their messages; of a topic, all its subscriptions, too."""
        self._portal.run(self._inner.delete(queue))

    def inspect(self, queue: str) -> QueueInfo:
        """Describe a queue: its settings and how many messages are in which state."""
        return self._portal.run(self._inner.inspect(queue))

    def queues(self) -> list[QueueInfo]:
        """Describe all queues, in order of their names."""
        return self._portal.run(self._inner.queues())

    def declare_topic(self, topic: str, **settings: Unpack[TopicOptions]) -> None:
        """Make sure that a topic is there. What is sent to it goes to every subscription whose rule matches.

        Raises:
            TopicConflict: it is there already, and a setting you state is another.
        """
        self._portal.run(self._inner.declare_topic(topic, **settings))

    def update_topic(self, topic: str, **settings: Unpack[TopicOptions]) -> None:
        """Change some settings of a topic."""
        self._portal.run(self._inner.update_topic(topic, **settings))

    def subscribe(self, topic: str, name: str, rule: RuleLike = None, **settings: Unpack[QueueOptions]) -> str:
        """Make sure that a topic has a subscription with this rule; return the name of its queue, ``topic/name``.

        It gets what is sent from now on. If it is there already, it has this rule for what is sent from now on.

        Args:
            topic: the topic.
            name: the subscription's own name.
            rule: which messages it gets. None: all; ``{"region": "eu"}``: those whose properties or headers are equal;
                ``"body.total > 100"``: those for which an expression is true.
            settings: those of its queue.
        """
        return self._portal.run(self._inner.subscribe(topic, name, rule, **settings))

    def unsubscribe(self, topic: str, name: str) -> None:
        """Remove a subscription, its queue and all messages in it."""
        self._portal.run(self._inner.unsubscribe(topic, name))

    def topics(self) -> list[TopicInfo]:
        """Describe all topics and their subscriptions, in order of their names."""
        return self._portal.run(self._inner.topics())

    def send(self, queue: str, message: Payload) -> int | None:
        """Send a message to a queue or a topic; return its sequence number.

        None: it was recognised as a duplicate, or no subscription of the topic gets it.
        """
        return self._portal.run(self._inner.send(queue, message))

    def send_many(self, queue: str, messages: Iterable[Payload]) -> list[int | None]:
        """Send messages, all or none; return their sequence numbers."""
        return self._portal.run(self._inner.send_many(queue, messages))

    def schedule(self, queue: str, message: Payload, at: datetime | duration.Duration) -> int | None:
        """Send a message that becomes available at an instant, or after a delay; return its sequence number."""
        return self._portal.run(self._inner.schedule(queue, message, at))

    def cancel(self, queue: str, sequence: int) -> None:
        """Remove a scheduled message before its time.

        Raises:
            MessageNotFound: no scheduled message has that number; it may have become available.
        """
        self._portal.run(self._inner.cancel(queue, sequence))

    def apply(
        self, *effects: Effect, inside: Callable[[Any], object] | None = None, within: object | None = None
    ) -> list[EffectResult]:
        """Do several things in one transaction, all or nothing; return the sequence numbers of what was sent.

        Args:
            effects: what to do: ``Send``, ``Complete``, ``Abandon``, ``Defer``, ``DeadLetter``, ``Cancel``.
            inside: your own part of the transaction, a function of the database's connection, where the engine is one.
                On PostgreSQL it is a coroutine function, and the connection is asyncpg's.
            within: a connection with a transaction of yours, of which this becomes part: on PostgreSQL, one of asyncpg
                or psycopg, or a connection or session of SQLAlchemy. It is done when you commit. ``Send`` and
                ``Complete`` only.
        """
        return self._portal.run(self._inner.apply(*effects, inside=inside, within=within))

    def receive(
        self, queue: str, *, max_messages: int = 1, wait: duration.Duration = 0.0, delete: bool = False
    ) -> "list[BlockingDelivery]":
        """Receive the next messages, oldest first. They are locked: settle each, or it will be delivered again.

        Args:
            queue: where from.
            max_messages: how many at most; fewer come if fewer are there.
            wait: how long to wait for the first.
            delete: take them out for good at once. What then happens to them is your affair alone.
        """
        return [
            BlockingDelivery(one, self._portal)
            for one in self._portal.run(self._inner.receive(queue, max_messages=max_messages, wait=wait, delete=delete))
        ]

    def receive_deferred(self, queue: str, sequences: Sequence[int]) -> "list[BlockingDelivery]":
        """Receive deferred messages by their sequence numbers: all of them, or none.

        Raises:
            MessageNotFound: one of them is not there, or is not deferred.
        """
        return [
            BlockingDelivery(one, self._portal)
            for one in self._portal.run(self._inner.receive_deferred(queue, sequences))
        ]

    def receive_dead(self, queue: str, sequences: Sequence[int]) -> "list[BlockingDelivery]":
        """Receive dead letters of a queue by their sequence numbers: all of them, or none.

        Raises:
            MessageNotFound: one of them is not there, or another receiver has it.
        """
        return [
            BlockingDelivery(one, self._portal) for one in self._portal.run(self._inner.receive_dead(queue, sequences))
        ]

    def accept_session(
        self, queue: str, session_id: str | None = None, *, wait: duration.Duration = 0.0
    ) -> "BlockingSession | None":
        """Lock a session, or any that has messages; None if there is none to be had within ``wait``."""
        return (
            BlockingSession(found, self._portal)
            if (found := self._portal.run(self._inner.accept_session(queue, session_id, wait=wait)))
            else None
        )

    def peek(
        self, queue: str, *, max_messages: int = 100, start: int = 0, states: Sequence[State] | None = None
    ) -> list[Received]:
        """Look at messages without receiving them, in order of their numbers, whatever they are doing."""
        return self._portal.run(self._inner.peek(queue, max_messages=max_messages, start=start, states=states))

    def purge(
        self, queue: str, *, sequences: Sequence[int] | None = None, on_progress: Callable[[int], object] | None = None
    ) -> int:
        """Remove every message that can be received now, or dead letters by their numbers; return how many there were.

        In a queue with sessions, the messages of sessions that another receiver has locked stay.
        """
        return self._portal.run(self._inner.purge(queue, sequences=sequences, on_progress=on_progress))

    def resubmit(
        self,
        queue: str,
        *,
        max_messages: int | None = None,
        sequences: Sequence[int] | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> Resubmitted:
        """Send the dead letters of a queue to it again, each in one transaction with its removal; return how many.

        Each message keeps its id, headers and body. It is sent once: one that dies again meanwhile stays dead. One that
        its queue does not take stays where it is, and the result says which and why, and how many others have locked.
        With ``sequences`` only these are sent; if one is not to be had, ``MessageNotFound``, and none is.
        """
        return self._portal.run(
            self._inner.resubmit(queue, max_messages=max_messages, sequences=sequences, on_progress=on_progress)
        )


class BlockingDelivery:
    """A message that is yours for a while. Settle it once: complete, abandon, defer or dead-letter it."""

    __slots__ = ("_inner", "_portal")

    def __init__(self, delivery: Delivery, portal: Portal) -> None:
        self._inner = delivery
        self._portal = portal

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def message(self) -> Message:
        """What was sent."""
        return self._inner.message

    @property
    def body(self) -> bytes:
        """What the message carries."""
        return self._inner.body

    @property
    def id(self) -> str:
        """The message's id."""
        return self._inner.id

    @property
    def headers(self) -> Headers:
        """The application's headers."""
        return self._inner.headers

    @property
    def queue(self) -> str:
        """Where it is."""
        return self._inner.queue

    @property
    def sequence(self) -> int:
        """Its sequence number."""
        return self._inner.sequence

    @property
    def state(self) -> State:
        """What it was doing when it was received."""
        return self._inner.state

    @property
    def delivery_count(self) -> int:
        """How often it has been delivered, this time included."""
        return self._inner.delivery_count

    @property
    def enqueued_at(self) -> datetime:
        """When it was sent."""
        return self._inner.enqueued_at

    @property
    def locked_until(self) -> datetime | None:
        """When it stops being yours; None if it was deleted as it was received."""
        return self._inner.locked_until

    @property
    def dead_letter_info(self) -> DeadLetterInfo | None:
        """Why it is in a dead-letter queue, if it is in one."""
        return self._inner.dead_letter_info

    @property
    def lock(self) -> Lock:
        """The right to settle it, for ``broker.apply``.

        Raises:
            LockLost: it was deleted as it was received.
        """
        return self._inner.lock

    def complete(self, *also: Effect) -> list[EffectResult]:
        """Remove it: it is done. What is to be done with it, such as sends, happens in the same transaction."""
        return self._portal.run(self._inner.complete(*also))

    def abandon(self, delay: duration.Duration = 0.0, *, headers: Headers | None = None) -> None:
        """Give it back, to be delivered again: at once, or after a delay. Id, order and delivery count stay."""
        self._portal.run(self._inner.abandon(delay, headers=headers))

    def defer(self, *, headers: Headers | None = None) -> None:
        """Set it aside: it is only received again by its sequence number."""
        self._portal.run(self._inner.defer(headers=headers))

    def dead_letter(self, reason: str, description: str = "", *, headers: Headers | None = None) -> None:
        """Move it to the dead-letter queue."""
        self._portal.run(self._inner.dead_letter(reason, description, headers=headers))

    def renew(self) -> datetime:
        """Make it yours for another lock duration; return until when.

        Raises:
            LockLost: it is not yours any more.
        """
        return self._portal.run(self._inner.renew())


class BlockingSession:
    """The messages of one group, in order, for one consumer. Use it as ``with``; it is given back at the end."""

    __slots__ = ("_inner", "_portal")

    def __init__(self, session: Session, portal: Portal) -> None:
        self._inner = session
        self._portal = portal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._portal.run(self._inner.__aexit__(kind, error, traceback))

    def release(self) -> None:
        """Give it back, and what you have received and not settled."""
        self._portal.run(self._inner.release())

    @property
    def session_id(self) -> str:
        """The session's name."""
        return self._inner.session_id

    @property
    def state(self) -> bytes | None:
        """What the session remembers."""
        return self._inner.state

    @property
    def locked_until(self) -> datetime:
        """When it stops being yours."""
        return self._inner.locked_until

    @property
    def lock(self) -> SessionLock:
        """The right to it, for ``broker.apply``."""
        return self._inner.lock

    def receive(self, *, max_messages: int = 1, wait: duration.Duration = 0.0) -> "list[BlockingDelivery]":
        """Receive the session's next messages, in order."""
        return [
            BlockingDelivery(one, self._portal)
            for one in self._portal.run(self._inner.receive(max_messages=max_messages, wait=wait))
        ]

    def remember(self, state: bytes | None) -> None:
        """Store something with the session, for the consumer that accepts it next; None forgets it."""
        self._portal.run(self._inner.remember(state))

    def renew(self) -> datetime:
        """Make it yours for another lock duration, and the messages you have received from it."""
        return self._portal.run(self._inner.renew())
