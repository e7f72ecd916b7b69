# SPDX-License-Identifier: MIT
"""What routes and pipelines are declared with. Pure: no I/O, no clock, no randomness.

A part is a value: its fields are its settings, checked when it is made. Files write it as a table with a ``kind``; code
calls its class.
"""

from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

from redrive import duration
from redrive.broker import DurationSetting
from redrive.errors import InvalidSetting, UnknownSetting
from redrive.parts.part_settings import TableSetting

if TYPE_CHECKING:
    from redrive.broker.settings import SettingKind

Table: TypeAlias = dict[str, Any]
"""A part as files and the store write it: JSON values by the names of its settings, and its ``kind``."""


@dataclass(frozen=True, slots=True)
class DeclaredPart:
    """A declared part; its fields are its settings, whose metadata have their ``kind`` and their ``help``.

    Attributes:
        kind: what files call it.
    """

    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                object.__setattr__(self, each.name, each.metadata["kind"].checked(each.name, value))
        self.check()

    def check(self) -> None:
        """Raise ``InvalidSetting`` or ``InvalidExpression`` if the settings do not fit together."""

    def ready(self) -> None:
        """Raise ``UsageError`` if it cannot run in this process, because something is missing here."""

    def to_table(self) -> Table:
        """Return it as files write it, without settings that have their default."""
        stated = {each.name: getattr(self, each.name) for each in fields(self)}
        kinds = {each.name: each.metadata["kind"] for each in fields(self)}
        defaults = {each.name: each.default for each in fields(self)}
        return {"kind": self.kind} | {
            name: dict(value) if isinstance(kinds[name], TableSetting) else _plain(value)
            for name, value in stated.items()
            if value != defaults[name]
        }

    @classmethod
    def from_table(cls, table: Table) -> Self:
        """Return a part as files write it: a length of time may be a text such as ``"30s"``."""
        known = {each.name: cast("SettingKind", each.metadata["kind"]) for each in fields(cls)}
        given = {name: value for name, value in table.items() if name != "kind"}
        for name, value in given.items():
            if name not in known:
                raise UnknownSetting(f"{cls.kind!r}", name, tuple(known))
            if isinstance(known[name], DurationSetting) and isinstance(value, str):
                given[name] = duration.parse(name, value)
        missing = [each.name for each in fields(cls) if each.name not in given and _is_required(each)]
        if missing:
            raise InvalidSetting(missing[0], None, f"must be given for {cls.kind!r}")
        return cls(**given)

    def __str__(self) -> str:
        stated = {name: value for name, value in self.to_table().items() if name != "kind"}
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in stated.items())})"


def _is_required(each: Any) -> bool:  # noqa: ANN401 - a field of any dataclass
    return each.default is MISSING


def _plain(value: object) -> object:
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
