# SPDX-License-Identifier: MIT
"""The wall times of a cron expression. Pure: no I/O, no clock, no randomness.

An expression is read as Debian's cron reads it: minute, hour, day of the month, month, day of the week; if both days
are restricted, either is enough. No zone comes in here: ``redrive.pipeline.zone_time`` says when a wall time is.
"""

from copy import copy
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from redrive.errors import InvalidSetting, MissingExtra
from redrive.pipeline.zone_time import at_wall

if TYPE_CHECKING:
    from cronsim import CronSim

LONGEST_EXPRESSION: Final = 256
_SAMPLED_FROM = 978_307_200  # 2001-01-01
_SAMPLED_UNTIL = 1_104_537_600  # 2005-01-01: four years, with a leap day
_FIELDS = 'has five fields, minute hour day month weekday, such as "30 2 * * MON-FRI"'


def checked_expression(expression: str) -> str:
    """Return an expression with one blank between its fields.

    Raises:
        InvalidSetting: it cannot be read, or never fires.
        MissingExtra: the extra ``pipeline`` is not installed.
    """
    if not isinstance(expression, str) or len(expression) > LONGEST_EXPRESSION or not expression.isascii():
        raise InvalidSetting("expression", expression, f"{_FIELDS}, and at most {LONGEST_EXPRESSION} characters")
    count = len(expression.split())
    if count == 6:
        raise InvalidSetting("expression", expression, f"{_FIELDS}; for slots within a minute write Every(30)")
    if count != 5:
        raise InvalidSetting("expression", expression, _FIELDS)
    plain = " ".join(expression.split())
    try:
        next(_cron(plain, _SAMPLED_FROM))
    except StopIteration:
        raise InvalidSetting("expression", expression, _never("its days")) from None
    except ValueError as error:
        raise InvalidSetting("expression", expression, _cause(plain, str(error))) from None
    return plain


def next_cron_wall(expression: str, wall: int) -> int:
    """Return the first wall time of an expression that is later than the given one."""
    return int(next(_cron(expression, wall)).timestamp())


@lru_cache(maxsize=1_024)
def fires_every_hour(expression: str) -> bool:
    """Say whether an expression fires in every hour of its days: its hour is ``*`` or says the same."""
    return len(_read(expression).hours) == 24


@lru_cache(maxsize=1_024)
def longest_gap(expression: str) -> float:
    """Return the most seconds between two wall times of an expression: over four years, or the next two, if longer."""
    rule = _read(expression)
    times = [hour * 3_600 + minute * 60 for hour in sorted(rule.hours) for minute in sorted(rule.minutes)]
    days: list[int] = []
    for midnight in _cron(" ".join(["0", "0", *expression.split()[2:]]), _SAMPLED_FROM - 1):
        days.append(int(midnight.timestamp()))
        if days[-1] >= _SAMPLED_UNTIL and len(days) > 1:
            break
    overnight = max(later - earlier for earlier, later in pairwise(days)) - (times[-1] - times[0])
    return float(max(overnight, *(later - earlier for earlier, later in pairwise([times[0], *times]))))


def in_words(expression: str) -> str:
    """Return what an expression says, in English."""
    return _read(expression).explain()


def _cron(expression: str, wall: int) -> "CronSim":
    """Return what iterates over the wall times after the given one."""
    rule = copy(_read(expression))
    rule.dt = at_wall(wall)
    return rule


@lru_cache(maxsize=1_024)
def _read(expression: str) -> "CronSim":
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        raise MissingExtra("a cron expression", "pipeline") from error
    try:
        return CronSim(expression, at_wall(0))
    except (CronSimError, AssertionError) as error:
        raise ValueError(str(error)) from None


def _cause(expression: str, problem: str) -> str:
    """Return what is wrong with an expression that cronsim refuses, and what to write."""
    if problem == "Bad day-of-month" and _is_read(" ".join([*expression.split()[:3], "*", expression.split()[4]])):
        return _never("its day of the month")
    field = problem.removeprefix("Bad ").replace("-", " ") or "field"
    return f"its {field} cannot be read: write * or values such as 5, 1-5, */15 or MON"


def _is_read(expression: str) -> bool:
    try:
        _read(expression)
    except ValueError:
        return False
    return True


def _never(what: str) -> str:
    return f"never fires: no month that it names has {what}; write L for the last day of a month"
