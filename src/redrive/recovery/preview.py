# SPDX-License-Identifier: MIT
"""What a transform would do to one message, as a value. Pure: no I/O, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preview:
    """What a transform would do to one message.

    Attributes:
        id: the failed message's id.
        changes: what would change, as lines for a person.
        problem: why it cannot be changed; empty if it can.
    """

    id: str
    changes: Sequence[str]
    problem: str = ""
