# SPDX-License-Identifier: MIT
"""How much happens a minute. Pure: no I/O, no clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How much happened to one thing a minute, lately.

    Attributes:
        name: which queue, route, destination or lane.
        per_minute: how many a minute, by metric; what did not happen is not in it.
    """

    name: str
    per_minute: dict[str, float]
