# SPDX-License-Identifier: MIT
"""How long to wait before the next attempt, as plain arithmetic. Pure: no I/O, no clock, no randomness.

Seconds in, seconds out. ``n`` counts the waits from 1. Every function is finite and never negative for every ``n`` and
for every length of time that ``redrive.duration`` accepts.
"""

from redrive.errors import InvalidSetting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    Jitter: TypeAlias = float | Literal["full", "equal", "none"]

_LAST_DOUBLING = 62
"""2^62 times a microsecond is 146,000 years: beyond any cap, and far from where floats overflow."""

_MOST_STEPS = 1 << 62
"""The same for steps that do not double: no float product of it overflows."""


def exponential(n: int, min_s: float, delta_s: float, max_s: float) -> float:
    """Return ``min + (2^(n-1) - 1) * delta``, at most ``max``."""
    doublings = (1 << min(n - 1, _LAST_DOUBLING)) - 1
    return min(max_s, min_s + doublings * delta_s)


def linear(n: int, start_s: float, step_s: float, max_s: float) -> float:
    """Return ``start + (n-1) * step``, at most ``max``."""
    return min(max_s, start_s + min(n - 1, _MOST_STEPS) * step_s)


def listed(n: int, delays_s: tuple[float, ...]) -> float:
    """Return the ``n``-th delay of a list; beyond its end, the last one."""
    return delays_s[min(n, len(delays_s)) - 1]


def jittered(base_s: float, jitter: "Jitter", chance: float) -> float:
    """Spread a delay, so that callers that failed together do not return together.

    It is applied after the cap: spreading before it would make all callers wait exactly ``max`` once the curve reaches
    it, which is when an outage has lasted longest and the spread is needed most.

    Args:
        base_s: the delay, already capped.
        jitter: a share ``j`` for plus or minus ``j``; ``"full"`` for 0 to base; ``"equal"`` for half of base to base.
        chance: a random number, 0 <= chance < 1.
    """
    if isinstance(jitter, float):
        return base_s * (1.0 + jitter * (2.0 * chance - 1.0))
    if jitter == "full":
        return base_s * chance
    if jitter == "equal":
        return base_s * (0.5 + 0.5 * chance)
    return base_s


def check_jitter(jitter: "Jitter") -> "Jitter":
    """Return the jitter if it is valid, else raise ``InvalidSetting``."""
    if jitter in ("full", "equal", "none"):
        return jitter
    if isinstance(jitter, int | float) and not isinstance(jitter, bool) and 0.0 <= jitter <= 1.0:
        return float(jitter)
    raise InvalidSetting("jitter", jitter, 'must be "full", "equal", "none" or a share from 0 to 1')
