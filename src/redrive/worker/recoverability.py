# SPDX-License-Identifier: MIT
"""What becomes of a message whose handler failed. Pure: no I/O, no clock, no randomness.

The facts go in as a ``HandlerFailure``, the decision comes out as a value; the worker does what it says. By default:

1. redelivered at once, ``immediate`` times (2), for failures that are over in a moment;
2. redelivered after a delay, as often as ``delayed`` says (5 s, 10 s, 20 s, 40 s, 80 s, give or take 20 %), for
   failures that last longer; each delay is followed by another round of immediate redeliveries;
3. moved to the error queue, or to the queue's dead-letter queue, where a person looks at it.

A message that can never succeed, such as one whose body cannot be decoded, is moved at once.

A message keeps its id, body and headers throughout. Redrive keeps what it knows about the failures in headers of its
own, see ``redrive.broker.headers``: counters while the message is redelivered. When it is moved, the failure replaces
the counters, so that it starts afresh when it is sent again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from redrive import duration, number
from redrive.broker import Headers, HeaderValue, Message
from redrive.broker.headers import (
    DELAYED_RETRIES,
    EARLIER_DELIVERIES,
    FAILED_AT,
    FAILED_DELAYED_RETRIES,
    FAILED_EXCEPTION_MESSAGE,
    FAILED_EXCEPTION_SOURCE,
    FAILED_EXCEPTION_TYPE,
    FAILED_HOST,
    FAILED_IMMEDIATE_RETRIES,
    FAILED_QUEUE,
    FAILED_REASON,
    FAILED_STACK_TRACE,
    FAILED_WORKER,
)
from redrive.errors import InvalidPayload, InvalidSetting
from redrive.printable import class_name, encodable, shortened
from redrive.retry import AttemptFailure, Backoff, Delays, Exponential, RetryAfter
from redrive.worker.bad_bodies import blames_body

OwnSql: TypeAlias = Callable[[Any], object]
"""A handler's own part of a transaction: a function of the database's connection, as in ``broker.apply(inside=…)``."""

Classification: TypeAlias = Literal["retry", "delay", "poison", "ignore"]
"""``retry``: all redeliveries; ``delay``: only delayed ones; ``poison``: moved at once; ``ignore``: completed."""

MAX_DELAYED_RETRIES: Final = "MaxDelayedRetries"
MAX_IMMEDIATE_RETRIES: Final = "MaxImmediateRetries"
POISON: Final = "Poison"
REJECTED: Final = "Rejected"
"""Why a message was moved that its destination refuses: like poison, it says nothing about other messages."""

_LONGEST_MESSAGE = 1_000
_LONGEST_TRACE = 8_000
_MOST_IMMEDIATE = 1_000
_KINDS = ("retry", "delay", "poison", "ignore")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFailure:
    """Everything that is known about a handler's failure.

    Attributes:
        error: what it raised.
        queue: the queue of the message.
        message: the message, with its headers.
        delivery_count: how often it has been delivered in this round, this time included.
        max_delivery_count: how often its queue delivers it in one round.
        failed_at: when, in UTC.
        chance: a random number, 0 <= chance < 1, for jitter.
        source: where the exception was raised: module, function and line.
        stack_trace: the traceback, with all causes.
        host: the machine.
        worker: the worker's name.
    """

    error: Exception
    queue: str
    message: Message
    delivery_count: int = 1
    max_delivery_count: int = 10
    failed_at: datetime = _EPOCH
    chance: float = 0.5
    source: str = ""
    stack_trace: str = ""
    host: str = ""
    worker: str = ""

    @property
    def delayed_retries(self) -> int:
        """How many delayed redeliveries it has had."""
        return counter(self.message.headers, DELAYED_RETRIES)

    @property
    def attempt(self) -> int:
        """Which attempt failed, counted from 1 over all rounds."""
        return counter(self.message.headers, EARLIER_DELIVERIES) + self.delivery_count

    @property
    def exception_type(self) -> str:
        """The exception's class, with its module unless it is Python's own."""
        return class_name(type(self.error))

    @property
    def exception_message(self) -> str:
        """What it said, at most 1,000 characters; an exception that cannot be printed says that."""
        try:
            text = str(self.error)
        except Exception as error:  # noqa: BLE001 - a broken __str__ must not cost the message
            text = f"({self.exception_type} cannot be printed: {type(error).__name__})"
        return shortened(text, _LONGEST_MESSAGE)


@dataclass(frozen=True, slots=True)
class RedeliverNow:
    """Deliver it again at once; the queue dead-letters it instead after ``max_delivery_count`` deliveries."""


@dataclass(frozen=True, slots=True)
class RedeliverLater:
    """Deliver it again after a delay, in a new round of immediate redeliveries.

    Attributes:
        delay: seconds until then.
        headers: your own headers to change or, with None, to remove.
        inside: your own part of the transaction, as in ``context.complete(inside=…)``.
    """

    delay: float
    headers: Headers = field(default_factory=dict[str, HeaderValue])
    inside: OwnSql | None = None

    def __post_init__(self) -> None:
        duration.seconds("delay", self.delay, zero=True)


@dataclass(frozen=True, slots=True)
class Postpone:
    """Deliver it again after a delay, and count nothing: the failure is not the message's.

    Attributes:
        delay: seconds until then.
        headers: your own headers to change or, with None, to remove.
        inside: your own part of the transaction, as in ``context.complete(inside=…)``.
    """

    delay: float
    headers: Headers = field(default_factory=dict[str, HeaderValue])
    inside: OwnSql | None = None

    def __post_init__(self) -> None:
        duration.seconds("delay", self.delay, zero=True)


@dataclass(frozen=True, slots=True)
class MoveToError:
    """Move it to an error queue, where a person looks at it.

    Attributes:
        reason: a word for programs.
        description: a sentence for people.
        queue: the error queue; None: the dead-letter queue of its own queue.
        headers: your own headers to change or, with None, to remove.
        inside: your own part of the transaction, as in ``context.complete(inside=…)``.
    """

    reason: str
    description: str = ""
    queue: str | None = None
    headers: Headers = field(default_factory=dict[str, HeaderValue])
    inside: OwnSql | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason:
            raise InvalidSetting("reason", self.reason, "must be a word that says why, such as 'Poison'")


@dataclass(frozen=True, slots=True)
class Discard:
    """Complete it although its handler failed: this failure does not matter."""


Decision: TypeAlias = RedeliverNow | RedeliverLater | Postpone | MoveToError | Discard


@dataclass(frozen=True, slots=True, kw_only=True)
class Recoverability:
    """How failures of a handler are dealt with.

    Attributes:
        immediate: how many redeliveries come at once, in each round.
        delayed: the delays of the redeliveries after them: a policy of ``redrive.retry`` with ``max_attempts``, or a
            list of delays; None or an empty list: no delayed ones.
        poison: exceptions that no redelivery repairs: types, or their names as texts. ``InvalidPayload`` includes the
            errors of handlers that decode the body themselves, such as ``json.JSONDecodeError``.
        error_queue: where messages are moved in the end; None: to the dead-letter queue of their own queue.
        classify: your own rule: a function of the exception that returns ``"retry"``, ``"delay"``, ``"poison"`` or
            ``"ignore"``, or None to leave the decision to the other settings.
    """

    immediate: int = 2
    delayed: Backoff | Sequence[float | timedelta] | None = Exponential(min=5, max=3_600, max_attempts=6)  # noqa: RUF009 - a value
    poison: Iterable[type[Exception] | str] = (InvalidPayload,)
    error_queue: str | None = None
    classify: Callable[[Exception], Classification | None] | None = None

    def __post_init__(self) -> None:
        number.whole("immediate", self.immediate, 0, _MOST_IMMEDIATE)
        object.__setattr__(self, "delayed", _check_delayed(self.delayed))
        object.__setattr__(self, "poison", _check_poison(self.poison))
        if self.error_queue is not None and (not isinstance(self.error_queue, str) or not self.error_queue):
            raise InvalidSetting("error_queue", self.error_queue, "must be the name of a queue, or None")
        if self.classify is not None and not callable(self.classify):
            raise InvalidSetting("classify", self.classify, "must be a function of an exception")

    def kind_of(self, error: Exception, message: Message | None = None) -> Classification:
        """Say what kind of failure an exception is; ``message`` is the handler's message, if it is known."""
        kind = None if self.classify is None else self.classify(error)
        if kind is None:
            return "poison" if _is_one_of(error, self.poison) or self._is_bad_body(error, message) else "retry"
        if kind not in _KINDS:
            raise InvalidSetting("classify", kind, f"must return one of {', '.join(_KINDS)}, or None")
        return kind

    def _is_bad_body(self, error: Exception, message: Message | None) -> bool:
        """Say whether it amounts to an ``InvalidPayload``: the handler decodes the body itself, and that failed."""
        is_poison = any(kind in ("InvalidPayload", class_name(InvalidPayload), InvalidPayload) for kind in self.poison)
        return is_poison and message is not None and blames_body(error, message.body)


def decide(failure: HandlerFailure, policy: Recoverability) -> Decision:
    """Return what to do about a failure."""
    kind = policy.kind_of(failure.error, failure.message)
    if kind == "ignore":
        return Discard()
    if kind == "poison":
        return MoveToError(POISON, f"no redelivery repairs {_said(failure)}", policy.error_queue)
    if kind == "retry" and failure.delivery_count <= min(policy.immediate, failure.max_delivery_count - 1):
        return RedeliverNow()
    return _later_or_never(failure, policy)


def _later_or_never(failure: HandlerFailure, policy: Recoverability) -> Decision:
    last = f"attempt {failure.attempt} failed with {_said(failure)}"
    if not isinstance(policy.delayed, Backoff):
        return MoveToError(MAX_IMMEDIATE_RETRIES, last, policy.error_queue)
    answer = policy.delayed.decide(AttemptFailure(failure.delayed_retries + 1, failure.error, chance=failure.chance))
    if isinstance(answer, RetryAfter):
        return RedeliverLater(answer.delay)
    count = failure.delayed_retries
    tried = "1 delayed redelivery" if count == 1 else f"{count} delayed redeliveries"
    description = f"{tried} did not help; {last}"
    return MoveToError(MAX_DELAYED_RETRIES, description, policy.error_queue)


def postponing_headers(failure: HandlerFailure) -> dict[str, HeaderValue]:
    """Return the headers that count a delayed redelivery."""
    return {DELAYED_RETRIES: failure.delayed_retries + 1, EARLIER_DELIVERIES: failure.attempt}


def failure_headers(failure: HandlerFailure, reason: str) -> dict[str, HeaderValue]:
    """Return the headers that a message is moved with; None stands for one that is removed."""
    return {
        DELAYED_RETRIES: None,
        EARLIER_DELIVERIES: None,
        FAILED_QUEUE: failure.queue,
        FAILED_AT: failure.failed_at.isoformat(),
        FAILED_REASON: encodable(reason),
        FAILED_EXCEPTION_TYPE: failure.exception_type,
        FAILED_EXCEPTION_MESSAGE: failure.exception_message,
        FAILED_EXCEPTION_SOURCE: failure.source,
        FAILED_STACK_TRACE: shortened(failure.stack_trace, _LONGEST_TRACE),
        FAILED_IMMEDIATE_RETRIES: max(0, failure.attempt - 1 - failure.delayed_retries),
        FAILED_DELAYED_RETRIES: failure.delayed_retries,
        FAILED_HOST: failure.host,
        FAILED_WORKER: failure.worker,
    }


def counter(headers: Headers, name: str) -> int:
    """Return the count in a header; 0 if the header has anything else."""
    value = headers.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _said(failure: HandlerFailure) -> str:
    return f"{failure.exception_type}: {failure.exception_message}"


def _check_delayed(value: object) -> Backoff | None:
    if value is None or value in ((), []):
        return None
    if isinstance(value, list | tuple):
        return Delays(list(value))
    if not isinstance(value, Backoff):
        raise InvalidSetting("delayed", value, "must be a policy such as Exponential(min=5), a list of delays, or None")
    if value.max_attempts is None:
        raise InvalidSetting("delayed", value, "must have max_attempts: redeliveries must end")
    return value if value.max_attempts > 1 else None


def _check_poison(value: object) -> tuple[type[Exception] | str, ...]:
    listed: tuple[Any, ...] = tuple(value) if isinstance(value, tuple | list | set | frozenset) else (value,)
    for one in listed:
        is_name = isinstance(one, str) and bool(one)
        if not is_name and not (isinstance(one, type) and issubclass(one, Exception)):
            raise InvalidSetting("poison", one, "must be exception types, or their names, in a tuple")
    return listed


def _is_one_of(error: Exception, kinds: Iterable[type[Exception] | str]) -> bool:
    names = {name for each in type(error).__mro__ for name in (each.__name__, class_name(each))}
    return any(kind in names if isinstance(kind, str) else isinstance(error, kind) for kind in kinds)
