# SPDX-License-Identifier: MIT
"""Effects: everything that changes messages is a list of these, applied in one transaction. Pure: no I/O, no clock."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from redrive import duration, instant
from redrive.broker.message import Headers, Lock, Message, Payload, check_headers, unsealed
from redrive.errors import InvalidSetting


@dataclass(frozen=True, slots=True, init=False)
class Send:
    """Put a message into a queue, now or at an instant. Its outcome is the sequence number, None for a duplicate.

    Attributes:
        queue: where to.
        message: what; it may be made with what its body is made of.
        at: when it becomes available; None: at once.
        even_if_seen: whether it is stored although its id was seen before, as it is sent again on purpose.
    """

    queue: str
    message: Message
    at: datetime | None = None
    even_if_seen: bool = False

    def __init__(
        self,
        queue: str,
        message: Payload,
        at: datetime | None = None,
        even_if_seen: bool = False,  # noqa: FBT001, FBT002 - the fields, as dataclasses.replace gives them
    ) -> None:
        made = message if isinstance(message, Message) else Message.of(message)
        if at is not None:
            instant.zoned("at", at)
        put = object.__setattr__
        put(self, "queue", queue)
        put(self, "message", made)
        put(self, "at", at)
        put(self, "even_if_seen", even_if_seen)


_OpenSend = unsealed(Send)


def sends_of(queue: str, messages: Iterable[Message]) -> list[Send]:
    """Return the effects that send messages now, in a third of the time that their constructor takes."""
    effects: list[Send] = []
    for message in messages:
        effect = _OpenSend()
        effect.queue, effect.message, effect.at, effect.even_if_seen = queue, message, None, False
        effect.__class__ = Send
        effects.append(effect)
    return effects


@dataclass(frozen=True, slots=True)
class Complete:
    """Remove a locked message: it is done."""

    lock: Lock


@dataclass(frozen=True, slots=True)
class Abandon:
    """Give a locked message back, to be delivered again at once or after a delay.

    Attributes:
        lock: whose it is.
        delay: seconds until it is available again.
        headers: headers to change or, with None, to remove.
        reset_count: whether its deliveries are counted anew.
        uncount: whether this delivery does not count: no handler has seen the message.
        reason: why, for its journey.
    """

    lock: Lock
    delay: float = 0.0
    headers: Headers | None = None
    reset_count: bool = False
    uncount: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        if self.delay:
            object.__setattr__(self, "delay", duration.seconds("delay", self.delay, zero=True))
        if self.headers:
            check_headers(self.headers)


@dataclass(frozen=True, slots=True)
class Defer:
    """Set a locked message aside: it is only received again by its sequence number."""

    lock: Lock
    headers: Headers | None = None

    def __post_init__(self) -> None:
        if self.headers:
            check_headers(self.headers)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Move a locked message to the dead-letter queue."""

    lock: Lock
    reason: str
    description: str = ""
    headers: Headers | None = None

    def __post_init__(self) -> None:
        for name, text in (("reason", self.reason), ("description", self.description)):
            if not isinstance(text, str):
                raise InvalidSetting(name, text, "must be a text")
        if self.headers:
            check_headers(self.headers)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Remove a scheduled message before its time."""

    queue: str
    sequence: int


@dataclass(frozen=True, slots=True)
class SetSessionState:
    """Store what a session wants to remember; None forgets it."""

    session: "SessionLock"
    state: bytes | None

    def __post_init__(self) -> None:
        if self.state is not None and not isinstance(self.state, bytes):
            raise InvalidSetting("state", self.state, "must be bytes, or None to forget it")


Effect: TypeAlias = Send | Complete | Abandon | Defer | DeadLetter | Cancel | SetSessionState
EffectResult: TypeAlias = int | None
"""What an effect gives back: the sequence number of a sent message, None otherwise."""


@dataclass(frozen=True, slots=True)
class SessionLock:
    """The right to receive the messages of one session, for a while.

    Attributes:
        queue: where the session is.
        session_id: its name.
        token: what makes this lock different from every other on that session: a value of the engine's own.
        locked_until: when the right ends.
        state: what the session remembers.
    """

    queue: str
    session_id: str
    token: Hashable
    locked_until: datetime
    state: bytes | None = None
