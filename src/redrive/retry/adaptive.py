# SPDX-License-Identifier: MIT
"""The policy that waits as long as the server asks. Pure: no I/O, no clock, no randomness."""

from redrive import duration
from redrive.errors import InvalidSetting
from redrive.retry import backoff, hints
from redrive.retry.policy import (
    Backoff,
    Exponential,
    GiveUp,
    Policy,
    RetryAfter,
    check_max_attempts,
    check_policy,
    with_max_attempts,
)
from redrive.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from redrive.duration import Duration
    from redrive.retry.policy import AttemptFailure


_FIRST_ERROR = 400
"""A result with a lower status was refused by the user's own test, such as 202 with "not ready yet"."""


class Adaptive(Value, Policy):
    """Waits as long as the server asks, and follows another policy when it does not say.

    The server's delay is limited to ``max`` and spread upwards only, by at most ``jitter``: an earlier attempt would
    ignore the server's request. A status that is not transient ends the retries at once.
    """

    __slots__ = ("fallback", "max", "jitter", "statuses", "max_attempts")
    fallback: Policy
    max: float
    jitter: float
    statuses: frozenset[int]
    max_attempts: int | None

    def __init__(
        self,
        fallback: Policy | None = None,
        *,
        max: "Duration" = 120.0,
        jitter: float = 0.2,
        statuses: "Collection[int]" = hints.TRANSIENT_STATUSES,
        max_attempts: int | None = None,
    ) -> None:
        followed = Exponential() if fallback is None else check_policy("fallback", fallback)
        share = backoff.check_jitter(jitter)
        if not isinstance(share, float):
            raise InvalidSetting(
                "jitter", jitter, "must be a share from 0 to 1: a server's delay is only spread upwards"
            )
        limit = check_max_attempts(max_attempts)
        if limit is None:
            limit = getattr(followed, "max_attempts", None)
        elif isinstance(followed, Backoff):
            followed = with_max_attempts(followed, limit)  # one limit, whether or not the server says anything
        self._fill(followed, duration.seconds("max", max), share, check_statuses(statuses), limit)

    def create_instance(self) -> "Self":
        """Return the policy for one operation, with its own instance of the fallback."""
        fresh = self.fallback.create_instance()
        return self if fresh is self.fallback else self.replace(fallback=fresh)

    def decide(self, failure: "AttemptFailure") -> "RetryAfter | GiveUp":
        """Do what the server says; ask the fallback when it says nothing."""
        status = hints.status_of(failure.subject)
        if status is not None and status >= _FIRST_ERROR and status not in self.statuses:
            return GiveUp(f"status {status} is not transient", "not_retryable")
        if self.max_attempts is not None and failure.attempt >= self.max_attempts:
            return GiveUp(f"all {self.max_attempts} attempts failed")
        asked = hints.server_delay(failure.subject, failure.unix_time)
        if asked is None:
            return self.fallback.decide(failure)
        if asked < 0.0:
            return GiveUp("the server asked for no retry", "not_retryable")
        return RetryAfter(min(asked, self.max) * (1.0 + self.jitter * failure.chance))


def check_statuses(value: "Collection[int]") -> frozenset[int]:
    """Return the statuses if they are valid."""
    try:
        statuses = frozenset(value)
    except TypeError:
        statuses = frozenset()
    if not statuses or not all(isinstance(status, int) and 100 <= status <= 599 for status in statuses):
        raise InvalidSetting("statuses", value, "must be a list of HTTP statuses, 100 to 599")
    return frozenset(map(int, statuses))  # HTTPStatus.BAD_GATEWAY and the like become plain numbers
