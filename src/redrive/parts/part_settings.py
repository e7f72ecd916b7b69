# SPDX-License-Identifier: MIT
"""What the settings of declared parts may be. Pure: no I/O, no clock, no randomness."""

from dataclasses import dataclass, field
from typing import Any

from redrive.broker.settings import SettingKind
from redrive.errors import InvalidSetting
from redrive.printable import encodable

_REQUIRED = object()


@dataclass(frozen=True, slots=True)
class TextSetting:
    """A text.

    Attributes:
        allowed: what it must be, in words.
    """

    allowed: str = "must be a text"

    def checked(self, name: str, value: object) -> str:
        """Return it."""
        if not isinstance(value, str) or not value:
            raise InvalidSetting(name, value, self.allowed)
        if encodable(value) != value:
            raise InvalidSetting(name, value, "must be a text of whole characters, without half of a surrogate pair")
        return value


@dataclass(frozen=True, slots=True)
class ChoiceSetting:
    """One of a few words."""

    words: tuple[str, ...]

    def checked(self, name: str, value: object) -> str:
        """Return it."""
        if value not in self.words:
            raise InvalidSetting(name, value, f"must be one of: {', '.join(self.words)}")
        return str(value)


@dataclass(frozen=True, slots=True)
class ListSetting:
    """A list of values of one kind; kept as a tuple."""

    each: SettingKind

    def checked(self, name: str, value: object) -> tuple[Any, ...]:
        """Return it."""
        if not isinstance(value, list | tuple):
            raise InvalidSetting(name, value, "must be a list")
        return tuple(self.each.checked(name, one) for one in value)


@dataclass(frozen=True, slots=True)
class TableSetting:
    """Values of one kind by their names; kept as a tuple of pairs in order, so that parts can be compared."""

    each: SettingKind

    def checked(self, name: str, value: object) -> tuple[tuple[str, Any], ...]:
        """Return it."""
        try:
            pairs = dict(value) if isinstance(value, dict | tuple) else None
        except (TypeError, ValueError):  # these are no pairs
            pairs = None
        if pairs is None or not all(isinstance(key, str) and key and encodable(key) == key for key in pairs):
            raise InvalidSetting(name, value, "must be values by their names")
        return tuple(sorted((key, self.each.checked(f"{name}.{key}", one)) for key, one in pairs.items()))


def setting(kind: SettingKind, text: str, default: object = _REQUIRED) -> Any:  # noqa: ANN401 - as dataclasses.field
    """Return the field of a setting; one whose default is None may be None.

    Args:
        kind: what it may be.
        text: what it means, for reference and help.
        default: its value if it is not given; without one it must be.
    """
    metadata = {"kind": kind, "help": text}
    return field(metadata=metadata) if default is _REQUIRED else field(default=default, metadata=metadata)
