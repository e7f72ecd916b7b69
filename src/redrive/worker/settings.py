# SPDX-License-Identifier: MIT
# ruff: noqa: RUF009 - the function called for each field returns dataclasses.field
"""The settings of a handler, checked when it is declared.

A setting is one line of ``HandlerSettings``: its default, its check and its help text. Its name and type are repeated
in ``HandlerOptions``, because type checkers read no metadata; a test compares the two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypeAlias, TypedDict

from redrive import duration, number
from redrive.broker import QueueOptions, QueueSettings
from redrive.errors import InvalidSetting, UnknownSetting
from redrive.retry import Backoff
from redrive.worker.recoverability import Decision, HandlerFailure, Recoverability, decide
from redrive.worker.slowdown import SlowDown

Decide: TypeAlias = Callable[[HandlerFailure], Decision]

_USUALLY_HUNG = 10
"""As often as a queue usually delivers: so one message that always hangs is dead-lettered before the worker ends."""


def _setting(default: object, check: Callable[[str, Any], object], text: str) -> Any:  # noqa: ANN401 - as dataclasses.field
    """Return the field of a setting; one whose default is None may be None."""
    return field(default=default, metadata={"check": check, "help": text})


def _check_declare(setting: str, value: object) -> object:
    if isinstance(value, bool):
        return value
    if not isinstance(value, Mapping):
        raise InvalidSetting(setting, value, "must be True, False, or settings of the queue: {'lock_duration': 120}")
    for name in value:
        if name not in QueueSettings.names():
            raise UnknownSetting("a queue", str(name), QueueSettings.names())
    QueueSettings(**value)  # a wrong value is refused here, not when the worker runs
    return dict(value)


def _check_recoverability(setting: str, value: object) -> object:
    if isinstance(value, type) or not (isinstance(value, Recoverability) or callable(value)):
        raise InvalidSetting(
            setting, value, "must be a Recoverability(...), or a function of a HandlerFailure that decides"
        )
    return value


def _check_in_place(setting: str, value: object) -> object:
    if not isinstance(value, Backoff) or value.max_attempts is None:
        raise InvalidSetting(setting, value, "must be a policy with max_attempts, such as Fixed(0.1, max_attempts=3)")
    return value


def _check_slow_down(setting: str, value: object) -> object:
    if value is not None and not isinstance(value, SlowDown):
        raise InvalidSetting(setting, value, "must be a SlowDown(...), or None for never")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerSettings:
    """How messages are handed to a handler, and what becomes of them. Lengths of time are kept as seconds.

    The metadata of each field has its ``check`` and its ``help``.
    """

    concurrency: int = _setting(
        1, partial(number.whole, low=1, high=1_000), "how many messages, or sessions, are handled at a time"
    )
    prefetch: int = _setting(
        0, partial(number.whole, low=0, high=10_000), "how many more are fetched ahead, locked while they wait"
    )
    recoverability: Recoverability | Decide | None = _setting(
        None, _check_recoverability, "what becomes of a message when the handler fails; None: Recoverability()"
    )
    auto_complete: bool = _setting(
        default=True, check=number.flag, text="whether a message is completed when its handler has not settled it"
    )
    timeout: float | None = _setting(None, duration.seconds, "how long one call may take")
    max_lock_renewal: float = _setting(
        300.0, partial(duration.seconds, zero=True), "how long the lock is renewed while the handler runs"
    )
    retry_in_place: Backoff | None = _setting(
        None, _check_in_place, "call the handler again while the lock is held, as this policy says"
    )
    slow_down: SlowDown | None = _setting(SlowDown(), _check_slow_down, "when to slow down because everything fails")
    max_hung: int | None = _setting(
        None,
        partial(number.whole, low=0, high=10_000),
        "how many calls may go on without their lock; None: as many as concurrency, and 10 at least",
    )
    receive_and_delete: bool = _setting(
        default=False, check=number.flag, text="take messages out of their queue before they are handled"
    )
    declare: bool | QueueOptions | None = _setting(
        None, _check_declare, "declare the queue when the worker starts; None: as the worker says"
    )

    def __post_init__(self) -> None:
        for each in fields(HandlerSettings):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                object.__setattr__(self, each.name, each.metadata["check"](each.name, value))
        if self.receive_and_delete:
            self._check_needs_no_lock()

    def _check_needs_no_lock(self) -> None:
        """Refuse settings that need a lock, if messages are deleted when they are received."""
        problem = None
        if not self.auto_complete:
            problem = "auto_complete=False: there is nothing left to settle"
        elif self.prefetch:
            problem = "prefetch: what is fetched ahead would be lost when the worker stops"
        elif self.recoverability is not None:
            problem = (
                "recoverability: a message whose handler fails is gone; receive it with a lock, as usual, to keep it"
            )
        if problem:
            raise InvalidSetting("receive_and_delete", value=True, allowed=f"cannot be combined with {problem}")

    @property
    def policy(self) -> Recoverability | None:
        """How failures are dealt with; None if a function of the program decides."""
        if self.recoverability is None:
            return Recoverability()
        return self.recoverability if isinstance(self.recoverability, Recoverability) else None

    @property
    def decide(self) -> Decide:
        """The function that decides about a failure."""
        own = self.recoverability
        if own is None or isinstance(own, Recoverability):
            return partial(decide, policy=own or Recoverability())
        return own

    @property
    def most_hung(self) -> int:
        """How many calls may hang; by default as many as run, since an outage of the store may hang them all."""
        return max(_USUALLY_HUNG, self.concurrency) if self.max_hung is None else self.max_hung

    @staticmethod
    def names() -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(each.name for each in fields(HandlerSettings))


class HandlerOptions(TypedDict, total=False):
    """The settings of a handler for a caller that states some of them."""

    concurrency: int
    prefetch: int
    recoverability: Recoverability | Decide | None
    auto_complete: bool
    timeout: duration.Duration | None
    max_lock_renewal: duration.Duration
    retry_in_place: Backoff | None
    slow_down: SlowDown | None
    max_hung: int | None
    receive_and_delete: bool
    declare: bool | QueueOptions | None
