# SPDX-License-Identifier: MIT
"""What the status of an HTTP answer says about one attempt. Pure: no I/O, no clock.

======================= =================================== ===============
status                  outcome                             Retry-After
======================= =================================== ===============
2xx                     ``Delivered``
429                     ``Throttled``                       is kept to
502, 503, 504           ``DestinationDown``                 is kept to
408, 425, any other 5xx ``TryLater``                        is kept to
anything else           ``Rejected``
======================= =================================== ===============

A redirect is rejected like any other answer that is no success: following it would send the event, and its signature,
to a place that the route does not name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from redrive import number
from redrive.errors import InvalidSetting
from redrive.retry.hints import server_delay
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, SendOutcome, Throttled, TryLater

LONGEST_PAUSE: Final = 86_400.0
"""The longest pause that a destination may ask for, in seconds: a wrong date must not stop a route for years."""

OUTCOME_WORDS: Final = ("delivered", "try_later", "down", "throttled", "rejected")
"""What files call the outcomes."""

_KNOWN: Final = {408: "try_later", 425: "try_later", 429: "throttled", 502: "down", 503: "down", 504: "down"}


@dataclass(frozen=True, slots=True)
class _AnswerHead:
    """What ``server_delay`` looks at."""

    status_code: int
    headers: Mapping[str, str]


def outcome_of(
    status: int,
    headers: Mapping[str, str],
    now: float,
    overrides: Mapping[int, str] | Iterable[tuple[int, str]] = (),
    said: str = "",
) -> SendOutcome:
    """Return what the status of an answer means.

    Args:
        status: the status.
        headers: the headers of the answer; their names may be in any case.
        now: the time, in seconds since 1970, which a date in ``Retry-After`` is compared with.
        overrides: statuses that mean something else for this destination, with one of ``OUTCOME_WORDS`` each.
        said: what the destination said beside it, for the reason.
    """
    word = dict(overrides).get(status) or usual_word(status)
    reason = f"the destination answered {status}" + (f": {said}" if said else "")
    if word == "delivered":
        return Delivered()
    if word == "rejected":
        return Rejected(reason)
    after = pause_of(status, headers, now)
    if word == "throttled":
        return Throttled(reason, after)
    return DestinationDown(reason, after) if word == "down" else TryLater(reason, after)


def usual_word(status: int) -> str:
    """Return the word for what a status means if nothing else was agreed on."""
    if 200 <= status <= 299:
        return "delivered"
    return _KNOWN.get(status) or ("try_later" if 500 <= status <= 599 else "rejected")


def pause_of(status: int, headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the destination asks to wait, a day at most; None if it does not say."""
    asked = server_delay(_AnswerHead(status, headers), now)
    return None if asked is None or asked < 0 else min(asked, LONGEST_PAUSE)


def checked_overrides(name: str, stated: Iterable[tuple[str, str]]) -> tuple[tuple[int, str], ...]:
    """Return overrides that a file states, whose keys are texts, as ``outcome_of`` takes them.

    Args:
        name: what the setting is called.
        stated: pairs of a status and a word.

    Raises:
        InvalidSetting: one of them is no status, or no such word exists.
    """
    return tuple((_status(f"{name}.{key}", key), _word(f"{name}.{key}", word)) for key, word in stated)


def _status(name: str, key: str) -> int:
    is_number = key.isascii() and key.isdigit() and len(key) == 3
    return number.whole(name, int(key) if is_number else key, 100, 599)


def _word(name: str, word: str) -> str:
    if word not in OUTCOME_WORDS:
        raise InvalidSetting(name, word, f"must be one of: {', '.join(OUTCOME_WORDS)}")
    return word
