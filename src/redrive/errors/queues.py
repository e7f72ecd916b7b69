# SPDX-License-Identifier: MIT
"""Queues, topics and their messages."""

from redrive.errors.branches import MessageError, UsageError


class QueueNotFound(UsageError, LookupError, code="queue-not-found"):
    """This queue was not declared.

    Attributes:
        queue: its name.
        similar: the name of a queue that was perhaps meant.
    """

    def __init__(self, queue: str, similar: "str | None" = None) -> None:
        super().__init__(queue, similar)
        self.queue = queue
        self.similar = similar

    def __str__(self) -> str:
        meant = f"did you mean {self.similar!r}? Otherwise " if self.similar is not None else ""
        return f"there is no queue {self.queue!r}; {meant}declare it first: await broker.declare({self.queue!r})"


class NotAQueue(UsageError, code="not-a-queue"):
    """It is a topic: messages are sent to it, and received from its subscriptions.

    Attributes:
        topic: its name.
        subscriptions: the names of the queues of its subscriptions.
    """

    def __init__(self, topic: str, subscriptions: "tuple[str, ...]" = ()) -> None:
        super().__init__(topic, subscriptions)
        self.topic = topic
        self.subscriptions = subscriptions

    def __str__(self) -> str:
        known = ", ".join(self.subscriptions[:5]) or "it has none yet: await broker.subscribe(...)"
        return f"{self.topic!r} is a topic, not a queue; use the queue of one of its subscriptions: {known}"


class TopicNotFound(UsageError, LookupError, code="topic-not-found"):
    """There is no topic of this name.

    Attributes:
        topic: the name.
        is_queue: whether there is a queue of this name.
    """

    def __init__(self, topic: str, *, is_queue: bool = False) -> None:
        super().__init__(topic)
        self.topic = topic
        self.is_queue = is_queue

    def __str__(self) -> str:
        if self.is_queue:
            return f"{self.topic!r} is a queue, not a topic; a topic needs a name that no queue has"
        return f"there is no topic {self.topic!r}; declare it first: await broker.declare_topic({self.topic!r})"


class SubscriptionNotFound(UsageError, LookupError, code="subscription-not-found"):
    """A topic has no subscription of this name.

    Attributes:
        topic: the topic.
        name: the name.
    """

    def __init__(self, topic: str, name: str) -> None:
        super().__init__(topic, name)
        self.topic = topic
        self.name = name

    def __str__(self) -> str:
        return f"topic {self.topic!r} has no subscription {self.name!r}; redrive topics show {self.topic} lists them"


class QueueConflict(UsageError, code="queue-conflict"):
    """A queue exists with other settings than the requested ones.

    Attributes:
        queue: its name.
        differences: for each setting that differs, its value and the requested value.
    """

    _kind, _update = "queue", "update"

    def __init__(self, queue: str, differences: "dict[str, tuple[object, object]]") -> None:
        super().__init__(queue, differences)
        self.queue = queue
        self.differences = differences

    def __str__(self) -> str:
        differing = ", ".join(f"{name} is {now!r}, not {asked!r}" for name, (now, asked) in self.differences.items())
        change = f"change it with await broker.{self._update}(...)"
        return f"{self._kind} {self.queue!r} exists with other settings: {differing}; {change}"


class TopicConflict(QueueConflict, code="topic-conflict"):
    """A topic exists with other settings than the requested ones."""

    _kind, _update = "topic", "update_topic"


class SessionRequired(UsageError, code="session-required"):
    """A queue with sessions was used without one.

    Attributes:
        queue: its name.
    """

    def __init__(self, queue: str, problem: str) -> None:
        super().__init__(queue, problem)
        self.queue = queue
        self.problem = problem

    def __str__(self) -> str:
        return f"queue {self.queue!r} has sessions: {self.problem}"


class HandlersHung(UsageError, code="handlers-hung"):
    """More handlers of a queue hang than allowed: they continue although their messages' locks were lost.

    Attributes:
        queue: its name.
        hung: how many handlers hang.
        max_hung: how many are allowed.
    """

    def __init__(self, queue: str, hung: int, max_hung: int) -> None:
        super().__init__(queue, hung, max_hung)
        self.queue = queue
        self.hung = hung
        self.max_hung = max_hung

    def __str__(self) -> str:
        return (
            f"{self.hung} handlers of queue {self.queue!r} hang, and at most {self.max_hung} may: the worker ends, to "
            "be started again. Put time limits on what they call, or raise max_lock_renewal if they need longer"
        )


class InvalidMessage(MessageError, ValueError, code="invalid-message"):
    """A message cannot be sent as it is.

    Attributes:
        field: the part of it that is wrong.
        value: its value.
        allowed: what is allowed, in words.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(field, value, allowed)
        self.field = field
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        shown = ascii(self.value)  # half of a surrogate pair cannot be printed
        return f"{self.field}: {self.allowed}, not {shown if len(shown) <= 80 else shown[:77] + '...'}"


class InvalidPayload(MessageError, ValueError, code="invalid-payload"):
    """The handler of a message does not accept its body, and never will."""


class MessageTooLarge(MessageError, code="message-too-large"):
    """A message is larger than its queue allows.

    Attributes:
        queue: where it was sent.
        size: its size in bytes, body and headers together.
        limit: the largest size that the queue allows.
        setting: what would have to be raised.
    """

    def __init__(self, queue: str, size: int, limit: int, setting: str = "max_message_bytes") -> None:
        super().__init__(queue, size, limit, setting)
        self.queue = queue
        self.size = size
        self.limit = limit
        self.setting = setting

    def __str__(self) -> str:
        return (
            f"a message of {self.size:,} bytes is too large for queue {self.queue!r}, which takes {self.limit:,}; "
            f"store the content elsewhere and send a reference, or raise {self.setting}"
        )


class LockLost(MessageError, code="lock-lost"):
    """The lock on a message has ended: it was settled, or its time ran out and another receiver may have it now.

    Attributes:
        queue: where the message is.
        sequence: its sequence number.
    """

    def __init__(self, queue: str, sequence: int) -> None:
        super().__init__(queue, sequence)
        self.queue = queue
        self.sequence = sequence

    def __str__(self) -> str:
        return (
            f"the lock on message {self.sequence} in {self.queue!r} has ended, nothing was changed; "
            "settle each message once, and lengthen lock_duration or renew the lock if handling takes longer"
        )


class MessageNotFound(MessageError, LookupError, code="message-not-found"):
    """No message has this sequence number in a state that fits.

    Attributes:
        queue: where it was looked for.
        sequence: its sequence number.
        wanted: the state it was looked for in.
    """

    def __init__(self, queue: str, sequence: int, wanted: str) -> None:
        super().__init__(queue, sequence, wanted)
        self.queue = queue
        self.sequence = sequence
        self.wanted = wanted

    def __str__(self) -> str:
        return f"queue {self.queue!r} has no {self.wanted} message {self.sequence}; nothing was changed"


class SessionLost(MessageError, code="session-lost"):
    """The lock on a session has ended: it was released, or its time ran out and another receiver may have it now.

    Attributes:
        queue: where the session is.
        session_id: its name.
    """

    def __init__(self, queue: str, session_id: str) -> None:
        super().__init__(queue, session_id)
        self.queue = queue
        self.session_id = session_id

    def __str__(self) -> str:
        return (
            f"the lock on session {self.session_id!r} in {self.queue!r} has ended; renew it in time, or accept it again"
        )
