# SPDX-License-Identifier: MIT
"""The retry budget: however many calls fail, retries stay a small share of them. Pure: no I/O, no clock.

A token bucket. Every call puts in ``ratio`` of a token, every retry takes one out, and time adds ``per_second`` tokens,
so that a client with few calls can retry too. Over any time: retries <= burst + ratio * calls + per_second * seconds.
"""

from _thread import allocate_lock  # threading.Lock, without the 3 ms that importing threading takes

from redrive.errors import InvalidSetting


class RetryBudget:
    """Limits the retries of all callers that share it to a share of their calls.

    Args:
        ratio: tokens that each call puts in; 0.2 allows one retry for five calls.
        per_second: tokens that are added each second.
        burst: how many tokens it holds at most, and at first.
    """

    __slots__ = ("_at", "_lock", "_tokens", "burst", "per_second", "ratio", "short")

    def __init__(self, *, ratio: float = 0.2, per_second: float = 1.0, burst: float = 10.0) -> None:
        self.ratio = _number("ratio", ratio, 0.0, 1.0)
        self.per_second = _number("per_second", per_second, 0.0, 1e6)
        self.burst = _number("burst", burst, 1.0, 1e6)
        self._lock = allocate_lock()
        self._tokens = self.burst
        self._at: float | None = None
        self.short = False

    short: bool
    """Whether it is not full, so that calls must be counted. While it is full, a success costs nothing."""

    @property
    def tokens(self) -> float:
        """How many retries it would grant now, without the tokens that time has added since the last call."""
        return self._tokens

    def called(self, now: float) -> None:
        """Count a call."""
        with self._lock:
            self._fill(now, self.ratio)

    def grants_retry(self, now: float) -> bool:
        """Take a token for one retry; False if there is none."""
        with self._lock:
            self._fill(now, 0.0)
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            self.short = True
            return True

    def _fill(self, now: float, deposit: float) -> None:
        seen = now if self._at is None else self._at
        self._at = max(now, seen)  # threads may report out of order; time counts once
        self._tokens = min(self.burst, self._tokens + deposit + (self._at - seen) * self.per_second)
        self.short = self._tokens < self.burst


def _number(setting: str, value: float, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidSetting(setting, value, f"must be a number from {low:g} to {high:g}")
    return float(value)
