# SPDX-License-Identifier: MIT
"""The settings of a queue or a topic, and the checks of what callers give. Pure: no I/O, no clock, no randomness.

A setting is one line of ``QueueSettings``, which says its default, what it may be and what it does. Engines store all
settings together, and the command line makes its options of these lines, so a new setting is written nowhere else; its
name and type stand once more in ``QueueOptions``, since type checkers read no metadata.
"""

import json
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Protocol, Self, TypedDict, cast

from redrive import duration, number
from redrive.broker.rules import LARGEST_MESSAGE_BYTES
from redrive.errors import InvalidSetting

_RENEW = "for longer work renew the lock, as a worker does by itself"


class SettingKind(Protocol):
    """What a setting may be."""

    def checked(self, name: str, value: object) -> object:
        """Return the value as it is kept; raise ``InvalidSetting`` if it is not allowed."""
        ...


@dataclass(frozen=True, slots=True)
class DurationSetting:
    """A length of time: seconds or a ``timedelta``, kept as seconds.

    Attributes:
        longest: the most that is allowed, in seconds.
        otherwise: what to do instead if that is not enough.
    """

    longest: float = duration.LONGEST
    otherwise: str = ""

    def checked(self, name: str, value: Any) -> float:  # noqa: ANN401 - whatever a caller gives
        """Return it in seconds."""
        return duration.seconds(name, value, longest=self.longest, otherwise=self.otherwise)


@dataclass(frozen=True, slots=True)
class WholeSetting:
    """A whole number.

    Attributes:
        low: the least that is allowed.
        high: the most that is allowed.
    """

    low: int
    high: int

    def checked(self, name: str, value: object) -> int:
        """Return it."""
        return number.whole(name, value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class FlagSetting:
    """Yes or no."""

    def checked(self, name: str, value: object) -> bool:
        """Return it."""
        return number.flag(name, value)


JOURNEY_WORDS: Final = ("trouble", "all", "none")


@dataclass(frozen=True, slots=True)
class JourneySetting:
    """Which messages are noted: those that had trouble, all, none, or all that had trouble and a share of the rest."""

    def checked(self, name: str, value: object) -> str | float:
        """Return a word, or the share as a number."""
        if isinstance(value, str) and value in JOURNEY_WORDS:
            return value
        try:
            share = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0.0
        except ValueError:
            share = 0.0
        if not 0.0 < share <= 1.0:
            raise InvalidSetting(name, value, "must be 'trouble', 'all', 'none', or a share such as 0.01")
        return share


def _setting(default: object, kind: SettingKind, text: str) -> Any:  # noqa: ANN401 - as dataclasses.field
    """Return the field of a setting; one whose default is None may be None."""
    return field(default=default, metadata={"kind": kind, "help": text})


def _seconds(text: str, default: float | None = None, *, longest: float = duration.LONGEST, otherwise: str = "") -> Any:  # noqa: ANN401 - as above
    return _setting(default, DurationSetting(longest, otherwise), text)


def _whole(text: str, default: int, high: int) -> Any:  # noqa: ANN401 - as above
    return _setting(default, WholeSetting(1, high), text)


def _flag(text: str) -> Any:  # noqa: ANN401 - as above
    return _setting(default=False, kind=FlagSetting(), text=text)


class _Settings:
    """What settings of every kind have."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]  # every kind is a dataclass
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                object.__setattr__(self, each.name, each.metadata["kind"].checked(each.name, value))

    def to_json(self) -> str:
        """Return all settings as a text, as engines store them."""
        return json.dumps({name: getattr(self, name) for name in self.names()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return settings that were stored; what a newer version has stored beside them is left out."""
        found: Self = _read_settings(cast("Any", cls), text)
        return found

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(each.name for each in fields(cls))  # type: ignore[arg-type]  # every kind is a dataclass


@lru_cache(maxsize=1_000)
def _read_settings(kind: Any, text: str) -> Any:  # noqa: ANN401 - a kind of settings, and settings of that kind
    """Return stored settings; most queues of a store have the same, and a store may have thousands of queues."""
    known = frozenset(kind.names())
    return kind(**{name: value for name, value in json.loads(text).items() if name in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings(_Settings):
    """How a queue behaves. Lengths of time are seconds; a ``timedelta`` is turned into them.

    The metadata of each field has its ``kind``, which is one of ``DurationSetting``, ``WholeSetting``,
    ``FlagSetting`` and ``JourneySetting``, and its ``help``.
    """

    lock_duration: float = _seconds("how long a received message is locked", 60.0, longest=300.0, otherwise=_RENEW)
    max_delivery_count: int = _whole("deliveries before a message is dead-lettered", 10, 2_000)
    default_ttl: float | None = _seconds("how long messages are worth delivering, unless they say less")
    dead_letter_on_expiration: bool = _flag("dead-letter expired messages instead of dropping them")
    auto_delete_on_idle: float | None = _seconds("delete the queue after that long without use")
    duplicate_detection: float | None = _seconds("drop a message whose id was sent within that long")
    requires_session: bool = _flag("receive messages by session only")
    max_message_bytes: int = _whole("how large body and headers may be", LARGEST_MESSAGE_BYTES, 104_857_600)
    journey: str | float = _setting("trouble", JourneySetting(), "of which messages the journey is noted")

    @property
    def follows(self) -> float:
        """The share of messages that are noted although they have no trouble."""
        return self.journey if isinstance(self.journey, float) else float(self.journey == "all")

    def changed(self, wanted: "QueueSettings") -> "QueueSettings":
        """Return the settings to be stored instead of these, if a queue may change to them.

        Raises:
            InvalidSetting: one of them cannot be changed.
        """
        if wanted.requires_session != self.requires_session:
            allowed = "cannot be changed: what is in the queue could not be received; delete it and declare it anew"
            raise InvalidSetting("requires_session", wanted.requires_session, allowed)
        return wanted

    def of_dead_letters(self) -> "QueueSettings":
        """Return the settings of the dead-letter queue of a queue with these."""
        return QueueSettings(lock_duration=self.lock_duration, max_delivery_count=2_000, journey=self.journey)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings(_Settings):
    """How a topic behaves. The metadata of the fields are as those of ``QueueSettings``."""

    keep_unmatched: bool = _flag("dead-letter messages that no subscription gets instead of dropping them")
    duplicate_detection: float | None = _seconds("drop a message whose id was sent within that long")
    max_message_bytes: int = _whole("how large body and headers may be", LARGEST_MESSAGE_BYTES, 104_857_600)

    def of_queue(self) -> QueueSettings:
        """Return the settings of the queue that has the topic's dead letters."""
        return QueueSettings(max_message_bytes=self.max_message_bytes)


class QueueOptions(TypedDict, total=False):
    """The settings of a queue for a caller that states some of them; a test holds them equal to ``QueueSettings``."""

    lock_duration: float | timedelta
    max_delivery_count: int
    default_ttl: float | timedelta | None
    dead_letter_on_expiration: bool
    auto_delete_on_idle: float | timedelta | None
    duplicate_detection: float | timedelta | None
    requires_session: bool
    max_message_bytes: int
    journey: str | float


class TopicOptions(TypedDict, total=False):
    """The settings of a topic for a caller that states some of them; a test holds them equal to ``TopicSettings``."""

    keep_unmatched: bool
    duplicate_detection: float | timedelta | None
    max_message_bytes: int


def check_max_messages(value: int) -> int:
    """Return how many messages one call may bring, if it is a number of messages."""
    if type(value) is not int or not 1 <= value <= 10_000:
        number.whole("max_messages", value, 1, 10_000)
    return value
