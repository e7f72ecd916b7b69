# SPDX-License-Identifier: MIT
"""The figures of an overview. Pure: no I/O, no clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How things stand, in a few numbers.

    Attributes:
        unresolved: failed messages that are unresolved.
        failed_today: failures in the last 24 hours.
        recovered_today: messages that were recovered in the last 24 hours.
        waiting: messages that wait in queues.
        dead_letters: dead letters in queues.
        operations: operations under way, 50 at most.
        workers: workers that are running.
    """

    unresolved: int
    failed_today: int
    recovered_today: int
    waiting: int
    dead_letters: int
    operations: int
    workers: int
