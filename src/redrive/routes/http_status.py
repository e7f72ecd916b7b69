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
from typing import Final

from redrive.http import status as head
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, SendOutcome, Throttled, TryLater

OUTCOME_WORDS: Final = ("delivered", "try_later", "down", "throttled", "rejected")
"""What files call the outcomes."""

_KNOWN: Final = {408: "try_later", 425: "try_later", 429: "throttled", 502: "down", 503: "down", 504: "down"}


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
    after = head.pause_of(status, headers, now)
    if word == "throttled":
        return Throttled(reason, after)
    return DestinationDown(reason, after) if word == "down" else TryLater(reason, after)


def usual_word(status: int) -> str:
    """Return the word for what a status means if nothing else was agreed on."""
    if 200 <= status <= 299:
        return "delivered"
    return _KNOWN.get(status) or ("try_later" if 500 <= status <= 599 else "rejected")
