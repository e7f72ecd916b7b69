# SPDX-License-Identifier: MIT
"""The filter that stops events that are too old. Pure: no I/O, no clock, no randomness."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final, Literal

from redrive.broker import Message
from redrive.errors import ExpressionFailed, MessageError
from redrive.routes.event_values import EventValues, PathSetting, kind_word
from redrive.routes.parts import ChoiceSetting, DurationSetting, EventFilter, LegFacts, setting

_YEAR_10000: Final = 253_402_300_800.0
"""In seconds since 1970. What is later was counted in milliseconds."""


@dataclass(frozen=True, slots=True)
class TtlFilter(EventFilter):
    """Consumes events that are too old to be worth delivering.

    If nothing is at the path, or no time, that is a permanent error. A time without a time zone is taken as UTC. A time
    in the future is not too old.
    """

    kind: ClassVar[str] = "ttl"

    max_age: float = setting(DurationSetting(), "how old an event may be")
    path: str | None = setting(
        PathSetting(),
        "a JMESPath to its time: a text such as 2026-01-04T10:00:00Z, or seconds since 1970; "
        "without it, when the event was taken over from its source",
        None,
    )
    on_expired: Literal["consume", "reject"] = setting(
        ChoiceSetting(("consume", "reject")),
        "what becomes of older ones: consume, or reject to dead letters",
        "consume",
    )

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Return the event if it is not too old."""
        began = leg.accepted_at if self.path is None else _instant(self.path, EventValues(message).required(self.path))
        age = leg.now - began
        if age <= self.max_age:
            return (message,)
        if self.on_expired == "reject":
            raise MessageError(
                f"the event is {age:.0f} s old, and its route delivers none older than {self.max_age:g} s"
            )
        return ()


def _instant(path: str, value: object) -> float:
    """Return a time in seconds since 1970."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) >= _YEAR_10000:
            raise ExpressionFailed(path, f"{value} is no time in seconds since 1970; is it in milliseconds?")
        return float(value)
    if not isinstance(value, str):
        raise ExpressionFailed(path, f"its result is {kind_word(value)}, and must be a time")
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        problem = f"{value[:60]!r} is no time; write it as 2026-01-04T10:00:00Z, or in seconds since 1970"
        raise ExpressionFailed(path, problem) from None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
