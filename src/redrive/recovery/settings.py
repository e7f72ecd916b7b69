# SPDX-License-Identifier: MIT
# ruff: noqa: RUF009 - what is called for each field returns dataclasses.field
"""How failed messages are recovered: the settings of a request. Pure: no I/O, no clock.

A setting is one line of ``RecoverySettings``: its default, what it may be, what it does, and how it is stored. A plan
has these fields, is stored and read by them, and ``Recovery.recover`` takes them; so a new setting is written nowhere
else, but for its name and type in ``RecoverOptions``, since type checkers read no metadata. A test holds them equal.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypedDict, get_type_hints

from redrive import duration, instant, number
from redrive.errors import InvalidSetting, UnknownSetting
from redrive.recovery.transform import Transform

LARGEST_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """Send a few first, and the rest only if those do well.

    Attributes:
        count: how many.
        max_failures: how many of them may fail again.
        patience: seconds to wait for their outcomes; after that the operation is paused.
    """

    count: int
    max_failures: int = 0
    patience: float = 300.0

    def __post_init__(self) -> None:
        number.whole("canary", self.count, 1, LARGEST_BATCH)
        if not 0 <= self.max_failures < self.count:
            raise InvalidSetting("max_failures", self.max_failures, "must be from 0 to less than the canaries")
        object.__setattr__(self, "patience", duration.seconds("patience", self.patience))


def _check_rate(setting: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.001 <= value <= 1_000_000:
        return value
    raise InvalidSetting(setting, value, "must be 0.001 to 1,000,000 messages a second")


def _check_canary(_setting: str, value: Any) -> Canary:  # noqa: ANN401 - whatever a caller gives
    return value if isinstance(value, Canary) else Canary(count=value)


def _check_kind(setting: str, value: object, kind: type, allowed: str) -> object:
    if isinstance(value, kind):
        return value
    raise InvalidSetting(setting, value, allowed)


def _unchanged(value: Any) -> Any:  # noqa: ANN401 - what JSON has as it is
    return value


def _setting(
    default: object,
    check: Callable[[str, Any], object],
    text: str,
    *,
    is_sent: bool = True,
    key: str = "",
    write: Callable[[Any], Any] = _unchanged,
    read: Callable[[Any], Any] = _unchanged,
) -> Any:  # noqa: ANN401 - as dataclasses.field
    """Return the field of a setting; one whose default is None may be None.

    Args:
        default: what it is unless it is given.
        check: returns the value as it is kept, or raises.
        text: what it does.
        is_sent: whether it only has a meaning for messages that are sent.
        key: its name in a stored plan, if that is another.
        write: makes the value one that JSON has.
        read: makes the value of what JSON has.
    """
    metadata = {"check": check, "help": text, "is_sent": is_sent, "key": key, "write": write, "read": read}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySettings:
    """How failed messages are recovered.

    The metadata of each field has its ``check`` and its ``help``.
    """

    limit: int | None = _setting(None, number.whole, "how many at most, the oldest first", is_sent=False)
    rate: float | None = _setting(None, _check_rate, "messages a second to each destination")
    canary: Canary | None = _setting(
        None,
        _check_canary,
        "how many go first, and what is expected of them; the rest follows if they do well",
        write=asdict,
        read=lambda stored: Canary(**stored),
    )
    redirect: str | None = _setting(
        None,
        partial(_check_kind, kind=str, allowed="must be the name of a queue"),
        "the queue they all go to, instead of the one they failed in",
    )
    transform: Transform | None = _setting(
        None,
        partial(_check_kind, kind=Transform, allowed="must be a Transform"),
        "what is changed about each on its way",
        write=Transform.to_json,
        read=Transform.from_json,
    )
    again: bool = _setting(
        default=False, check=number.flag, text="also send messages that were sent before and whose result is not known"
    )
    at: datetime | None = _setting(
        None,
        instant.zoned,
        "when to begin",
        is_sent=False,
        key="not_before",
        write=datetime.isoformat,
        read=datetime.fromisoformat,
    )

    def __post_init__(self) -> None:
        for each in fields(RecoverySettings):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                object.__setattr__(self, each.name, each.metadata["check"](each.name, value))

    def check_sends_nothing(self, kind: str) -> None:
        """Refuse settings that have no meaning for a kind of operation that sends nothing."""
        for each in fields(RecoverySettings):
            value = getattr(self, each.name)
            if each.metadata["is_sent"] and value != each.default:
                raise InvalidSetting(each.name, value, f"has no meaning for {kind}")

    def settings_to_json(self) -> dict[str, Any]:
        """Return the settings as they are stored: what is as usual is left out."""
        return {
            each.metadata["key"] or each.name: each.metadata["write"](value)
            for each in fields(RecoverySettings)
            if (value := getattr(self, each.name)) != each.default
        }

    @staticmethod
    def settings_from_json(stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that were stored, by their names."""
        keys = {each.metadata["key"] or each.name: each for each in fields(RecoverySettings)}
        return {each.name: each.metadata["read"](stored[key]) for key, each in keys.items() if key in stored}

    @staticmethod
    def names() -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(each.name for each in fields(RecoverySettings))


class RecoverOptions(TypedDict, total=False):
    """The settings for a caller that states some of them: a canary by its count, a beginning after a length of time."""

    limit: int | None
    rate: float | None
    canary: Canary | int | None
    redirect: str | None
    transform: Transform | None
    again: bool
    at: datetime | timedelta | float | None


class RequestedBy(TypedDict, total=False):
    """Who asks for an operation, and why.

    Attributes:
        actor: who.
        reason: why.
        key: the same key twice is the same request, and gives the same operation.
    """

    actor: str
    reason: str
    key: str | None


class RecoveryRequest(RecoverOptions, RequestedBy, total=False):
    """How failed messages are recovered, who asks for it, and why."""


def check_known(of: str, options: Mapping[str, Any], *kinds: type) -> None:
    """Refuse an option that there is not: one with a typing error in its name must not be left out.

    Args:
        of: what was called.
        options: what was given.
        kinds: the typed dictionaries that say what there is.
    """
    known = tuple(name for kind in kinds for name in get_type_hints(kind))
    for name in options:
        if name not in known:
            raise UnknownSetting(of, name, known)
