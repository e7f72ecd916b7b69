# SPDX-License-Identifier: MIT
"""What callers hand over, checked before any engine sees it. Pure: no I/O, no clock, no randomness.

What can never work is refused with its name and what it may be instead, never with an error that means *try again*.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from redrive import duration, instant, number
from redrive.broker.effects import Cancel, Effect, Send
from redrive.broker.lifecycle import State
from redrive.broker.message import Message, check_text
from redrive.broker.rules import is_queue_name
from redrive.broker.settings import QueueSettings, TopicSettings
from redrive.errors import InvalidMessage, InvalidSetting, QueueNotFound, UnknownSetting, UsageError


def check_queue(queue: str) -> str:
    """Return the name of a queue to be used; a name that no queue can have raises ``QueueNotFound``."""
    if is_queue_name(queue):
        return queue
    if isinstance(queue, str):
        raise QueueNotFound(queue)
    raise InvalidSetting("queue", queue, "must be the name of a queue, a text")


def check_effect(effect: Effect) -> Effect:
    """Return something to be done, if it is one of the things that can be."""
    if not isinstance(effect, Effect):
        expected = "must be a Send, Complete, Abandon, Defer, DeadLetter, Cancel or SetSessionState"
        raise UsageError(f"an effect {expected}, not {type(effect).__name__}")
    if isinstance(effect, Send | Cancel):
        check_queue(effect.queue)
    if isinstance(effect, Cancel):
        check_sequence("sequence", effect.sequence)
    return effect


def check_settings(settings: Mapping[str, object], kind: type[QueueSettings | TopicSettings] = QueueSettings) -> None:
    """See that the names of settings are those of a queue's, or of a topic's."""
    known = kind.names()
    for name in settings:
        if name not in known:
            raise UnknownSetting("a queue" if kind is QueueSettings else "a topic", name, known)


def check_sequence(name: str, value: int) -> int:
    """Return a sequence number, if it is a whole number; whether there is such a message is another matter."""
    if not number.is_whole(value):
        raise InvalidSetting(name, value, "must be a sequence number, a whole number")
    return value


def check_sequences(values: Iterable[int]) -> list[int]:
    """Return sequence numbers."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidSetting("sequences", values, "must be a list of sequence numbers: [41, 42]")
    return [check_sequence("sequences", value) for value in values]


def check_states(states: Iterable[State] | None) -> list[State] | None:
    """Return the states to look for; None: all."""
    if states is None:
        return None
    given: Any = states  # whatever the annotation says
    listed: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if all(isinstance(state, State) for state in listed):
        return listed
    raise InvalidSetting("states", states, "must be a list of State.READY, State.LOCKED and so on, or None for all")


def check_session_id(session_id: str | None) -> str | None:
    """Return the name of a session, if a message can have it."""
    if session_id is not None:
        try:
            check_text("session_id", session_id)
        except InvalidMessage as error:
            raise InvalidSetting(error.field, error.value, error.allowed) from None
    return session_id


def check_most(name: str, value: int | None) -> int | None:
    """Return how many at most, if it is a number of messages; None: all."""
    return None if value is None else number.whole(name, value)


def check_payloads(messages: Iterable[Any]) -> list[Any]:
    """Return messages to be sent, if it is several: each letter of a text is not meant."""
    if isinstance(messages, str | bytes | bytearray | memoryview | Message | Mapping) or not isinstance(
        messages, Iterable
    ):
        expected = "must be a list of messages: ['one', 'two']; for a single one there is send"
        raise InvalidMessage("messages", type(messages).__name__, expected)
    return list(messages)


def check_moment(at: datetime | duration.Duration, now: float) -> datetime:
    """Return the instant that is meant by an instant, or by a length of time from now."""
    if not isinstance(at, datetime):
        return datetime.fromtimestamp(now + duration.seconds("at", at, zero=True), UTC)
    return instant.in_utc("at", at)


def check_process(opened_by: int | None, here: int) -> None:
    """See that a broker is used by the process that opened it."""
    if opened_by != here:
        raise UsageError(
            f"this broker was opened by process {opened_by}, and this is process {here}, forked from it: "
            "open a broker in each process, after the fork: async with connect(...) as broker, or broker.open()"
        )
