# SPDX-License-Identifier: MIT
"""What statuses and heads of HTTP answers mean. Pure: no I/O, no clock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from redrive import number
from redrive.parts import ChoiceSetting, TableSetting
from redrive.retry.hints import server_delay

LONGEST_PAUSE: Final = 86_400.0
"""The longest pause that a destination may ask for, in seconds: a wrong date must not stop work for years."""


@dataclass(frozen=True, slots=True)
class _AnswerHead:
    """What ``server_delay`` looks at."""

    status_code: int
    headers: Mapping[str, str]


def pause_of(status: int, headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the destination asks to wait, a day at most; None if it does not say."""
    asked = server_delay(_AnswerHead(status, headers), now)
    return None if asked is None or asked < 0 else min(asked, LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class StatusTableSetting(TableSetting):
    """Words for outcomes, by statuses; YAML and Python may write a status as a number."""

    each: ChoiceSetting

    def checked(self, name: str, value: object) -> tuple[tuple[str, Any], ...]:
        """Return it, with statuses as texts."""
        if isinstance(value, dict):
            value = {str(key) if type(key) is int else key: one for key, one in value.items()}
        pairs = TableSetting.checked(self, name, value)
        words_by_status(name, pairs)
        return pairs


def words_by_status(name: str, stated: Iterable[tuple[str, str]]) -> dict[int, str]:
    """Return the words that a file states, whose keys are texts, by their statuses.

    Args:
        name: what the setting is called.
        stated: pairs of a status and a word.

    Raises:
        InvalidSetting: one of them is no status.
    """
    return {_status(f"{name}.{key}", key): word for key, word in stated}


def _status(name: str, key: str) -> int:
    is_number = key.isascii() and key.isdigit() and len(key) == 3
    return number.whole(name, int(key) if is_number else key, 100, 599)
