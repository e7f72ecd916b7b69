# SPDX-License-Identifier: MIT
"""Settings that come as a table, from a file or a database. Pure: no I/O, no clock."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from redrive import duration
from redrive.errors import InvalidSetting, UnknownSetting

SettingTable: TypeAlias = dict[str, Any]
"""Settings by name; their values are those of JSON."""


def stated(of: str, table: object, known: tuple[str, ...], time: str = "") -> SettingTable:
    """Return a copy of a table.

    Args:
        of: what has these settings, for the error.
        table: what was given.
        known: the settings that exist.
        time: which of them is a length of time: it becomes seconds, if it is there.

    Raises:
        InvalidSetting: it is no table, or the length of time cannot be read.
        UnknownSetting: it has a setting that does not exist.
    """
    if not isinstance(table, Mapping):
        raise InvalidSetting(of, table, f"must be a table with some of: {', '.join(known)}")
    for name in table:
        if name not in known:
            raise UnknownSetting(of, str(name), known)
    copied: SettingTable = dict(table)
    if copied.get(time) is not None:
        copied[time] = duration.parse(time, copied[time])
    return copied


def renamed(error: InvalidSetting, name: str, written: str) -> InvalidSetting:
    """Return an error that calls a setting what it is called in a file."""
    return InvalidSetting(written, error.value, error.allowed) if error.setting == name else error
