# SPDX-License-Identifier: MIT
"""The settings of a queue, and the checks of what callers give. Pure: no I/O, no clock, no randomness."""

from dataclasses import dataclass, fields
from datetime import datetime

from redrive import duration
from redrive.errors import InvalidSetting

LONGEST_LOCK_S = 300.0
LARGEST_MESSAGE_BYTES = 1_048_576
_RENEW = "for longer work renew the lock, as a worker does by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How a queue behaves. Lengths of time are seconds; a ``timedelta`` is turned into them.

    Attributes:
        lock_duration: how long a received message is yours; at most 5 minutes.
        max_delivery_count: how often a message is delivered before it is dead-lettered.
        default_ttl: how long messages are worth delivering, unless they say less; None: for ever.
        dead_letter_on_expiration: whether an expired message is dead-lettered instead of dropped.
        auto_delete_on_idle: delete the queue after that long without a send or a receive; None: never.
        duplicate_detection: drop a message whose id was sent within that long; None: do not look.
        requires_session: whether messages are received by session only.
        max_message_bytes: how large a message may be, body and headers together.
    """

    lock_duration: float = 60.0
    max_delivery_count: int = 10
    default_ttl: float | None = None
    dead_letter_on_expiration: bool = False
    auto_delete_on_idle: float | None = None
    duplicate_detection: float | None = None
    requires_session: bool = False
    max_message_bytes: int = LARGEST_MESSAGE_BYTES

    def __post_init__(self) -> None:
        lock_s = duration.seconds("lock_duration", self.lock_duration, longest=LONGEST_LOCK_S, otherwise=_RENEW)
        object.__setattr__(self, "lock_duration", lock_s)
        for name in ("default_ttl", "auto_delete_on_idle", "duplicate_detection"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, duration.seconds(name, value))
        _check_whole("max_delivery_count", self.max_delivery_count, 1, 2_000)
        _check_whole("max_message_bytes", self.max_message_bytes, 1, 100 * LARGEST_MESSAGE_BYTES)
        for name in ("dead_letter_on_expiration", "requires_session"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidSetting(name, getattr(self, name), "must be True or False")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(each.name for each in fields(cls))


def check_max_messages(value: int) -> int:
    """Return how many messages one call may bring, if it is a number of messages."""
    if type(value) is not int or not 1 <= value <= 10_000:
        _check_whole("max_messages", value, 1, 10_000)
    return value


def check_at(at: datetime) -> datetime:
    """Return an instant, if it is one."""
    if not isinstance(at, datetime):
        told = "must be an instant: datetime.now(UTC) + timedelta(seconds=30); only schedule takes a delay as well"
        raise InvalidSetting("at", at, told)
    if at.utcoffset() is None:
        raise InvalidSetting("at", at, "must have a time zone: datetime.now(UTC) + timedelta(hours=1)")
    return at


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidSetting(name, value, f"must be a whole number from {low:,} to {high:,}")
