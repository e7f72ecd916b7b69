# SPDX-License-Identifier: MIT
"""The circuit breaker: stop calling a service that is down, and find out carefully when it is back.

Pure: no I/O, no clock; every method takes the time as an argument. One lock makes it safe to share between
threads and tasks.

    closed --(too many failures)--> open --(open_for is over)--> half_open --(probes succeed)--> closed
                                     ^                               |
                                     +------(a probe fails)----------+

Every change of state starts a new generation. A permit is the generation it was given in, so that the outcome of a call
that began before a change cannot be taken for the outcome of a probe.
"""

from _thread import allocate_lock  # threading.Lock, without the 3 ms that importing threading takes

from redrive import duration, number
from redrive.errors import InvalidSetting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from redrive.duration import Duration

    State: TypeAlias = Literal["closed", "open", "half_open"]
    Change: TypeAlias = tuple[State, State]
    WhenOpen: TypeAlias = Literal["fail", "wait"]

_SLOTS = 10
"""A sliding window is this many slots; the oldest is dropped as a whole."""


class CircuitBreaker:
    """Counts the failures of one service and refuses calls while it is down. Share one between all its callers.

    It opens after ``failures`` consecutive failures; or, given a ``failure_rate``, when that share of at least
    ``min_calls`` calls within ``window`` failed. After ``open_for`` it lets ``probes`` calls through: if all succeed it
    closes, if one fails it opens again.

    Args:
        name: what it protects, for errors and telemetry.
        failures: consecutive failures that open it.
        failure_rate: a share from 0 to 1 that opens it; takes the place of ``failures``.
        window: how far back ``failure_rate`` looks.
        min_calls: how many calls the window must hold before ``failure_rate`` means anything.
        open_for: how long it refuses everything.
        probes: how many calls must succeed, and may run at once, before it closes.
    """

    __slots__ = (
        "_count", "_failed", "_generation", "_in_flight", "_lock", "_slot", "_state", "_state_since", "_succeeded",
        "_totals", "calm", "failure_rate", "failures", "min_calls", "name", "open_for", "probes", "window",
    )  # fmt: skip

    def __init__(
        self,
        name: str = "",
        *,
        failures: int = 5,
        failure_rate: float | None = None,
        window: "Duration" = 30.0,
        min_calls: int = 20,
        open_for: "Duration" = 30.0,
        probes: int = 1,
    ) -> None:
        self.name = name
        self.failures = number.whole("failures", failures)
        self.failure_rate = _rate(failure_rate)
        self.window = duration.seconds("window", window)
        self.min_calls = number.whole("min_calls", min_calls)
        self.open_for = duration.seconds("open_for", open_for)
        self.probes = number.whole("probes", probes)
        self._lock = allocate_lock()
        self._generation = 0
        self._enter("closed", 0.0)

    calm: bool
    """Closed with nothing to count: a success would change nothing, so callers need not report it."""

    @property
    def state(self) -> "State":
        """``closed``, ``open`` or ``half_open``, as of the last call that asked for a permit or reported."""
        return self._state

    def admit(self, now: float) -> int | None:
        """Return a permit for one call, which the caller returns with the outcome; None means refused."""
        return self.ask(now)[0]

    def ask(self, now: float) -> "tuple[int | None, Change | None]":
        """Return what ``admit`` returns, and the change of state that asking caused, if any."""
        with self._lock:
            if self._state == "closed":
                return self._generation, None
            change: Change | None = None
            if self._is_full():
                if now - self._state_since < self.open_for:
                    return None, None
                change = self._enter("half_open", now)  # or again, if probes never reported: they must not block it
            self._in_flight += 1
            return self._generation, change

    def adopt(self) -> int | None:
        """Return a permit for a call that began while the breaker was calm; None if it no longer counts."""
        with self._lock:
            return self._generation if self._state == "closed" else None

    def retry_after(self, now: float) -> float:
        """Return the seconds until it is worth asking for a permit again."""
        with self._lock:
            if not self._is_full():
                return 0.0
            wait = self._state_since + self.open_for - now
            # half open and full: the running probes decide, well before this state ends
            return max(0.0, wait if self._state == "open" else min(wait, 1.0))

    def succeeded(self, permit: int, now: float) -> "Change | None":
        """Report that a call worked; return the change of state this caused, if any."""
        with self._lock:
            if permit != self._generation:
                return None
            if self._state == "closed":
                self._count = 0
                self.calm = self.failure_rate is None
                if self.failure_rate is not None:
                    self._tally(now, succeeded=1)
                return None
            self._succeeded += 1
            return self._enter("closed", now) if self._succeeded >= self.probes else None

    def failed(self, permit: int, now: float) -> "Change | None":
        """Report that a call failed; return the change of state this caused, if any."""
        with self._lock:
            if permit != self._generation:
                return None
            if self._state == "half_open":
                return self._enter("open", now)
            self.calm = False
            self._count += 1
            return self._enter("open", now) if self._is_too_much(now) else None

    def released(self, permit: int) -> None:
        """Report that a call ended without an outcome for the service, such as by cancellation."""
        with self._lock:
            if permit == self._generation and self._state == "half_open":
                self._in_flight -= 1

    def reset(self) -> None:
        """Close it and forget the failures: a person knows that the service is back."""
        with self._lock:
            self._enter("closed", 0.0)

    def _enter(self, state: "State", now: float) -> "Change | None":
        before: State = getattr(self, "_state", state)
        self._state: State = state
        self._state_since = now
        self._generation += 1
        self._count = 0
        self._succeeded = 0
        self._in_flight = 0
        self._slot = int(now / self.window * _SLOTS)
        self._totals = [[0, 0] for _ in range(_SLOTS)]
        self.calm = state == "closed" and self.failure_rate is None
        return None if before == state else (before, state)

    def _is_full(self) -> bool:
        return self._state == "open" or (self._state == "half_open" and self._in_flight >= self.probes)

    def _is_too_much(self, now: float) -> bool:
        if self.failure_rate is None:
            return self._count >= self.failures
        self._tally(now, failed=1)
        failed = sum(failed for _, failed in self._totals)
        calls = failed + sum(succeeded for succeeded, _ in self._totals)
        return calls >= self.min_calls and failed >= self.failure_rate * calls

    def _tally(self, now: float, *, succeeded: int = 0, failed: int = 0) -> None:
        """Count an outcome in the slot of its time, after emptying the slots that the window has left behind."""
        slot = int(now / self.window * _SLOTS)
        if slot > self._slot:
            for passed in range(max(self._slot + 1, slot - _SLOTS + 1), slot + 1):
                self._totals[passed % _SLOTS] = [0, 0]
            self._slot = slot
        totals = self._totals[slot % _SLOTS]
        totals[0] += succeeded
        totals[1] += failed


def check_when_open(value: "WhenOpen") -> "WhenOpen":
    """Return the reaction to a breaker that refuses, if it is one of the two."""
    if value not in ("fail", "wait"):
        raise InvalidSetting("when_open", value, 'must be "fail" or "wait"')
    return value


def _rate(value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value <= 1.0:
        raise InvalidSetting("failure_rate", value, "must be a share above 0 and up to 1, or None")
    return float(value)
