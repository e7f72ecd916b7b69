# SPDX-License-Identifier: MIT
"""What engines differ in, beside the verbs that they have. Pure: no I/O, no clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can do that is no verb of its own.

    Attributes:
        is_transactional: whether ``apply`` is all or nothing; otherwise it sends first and settles last.
        has_duplicate_detection: whether it recognises a message id it has seen.
        cancels_schedules: whether a scheduled message can be removed before its time.
        counts_exactly: whether ``inspect`` knows how many messages there are, so that an empty queue can be
            recognised.
        keeps_place: whether a message that is given back takes its old place among those that are ready; otherwise it
            is the last.
        sees_locks: whether ``peek`` and ``inspect`` know what other processes have locked, and that a lock of theirs
            has ended; otherwise a message that was handed out counts as locked until it is received again.
        most_effects: how many effects a list may have that is all or nothing; None: as many as you like.
        time_resolution_s: how much later than its time something may happen that the store does by a clock of its
            own; 0: the engine's clock decides everything.
    """

    is_transactional: bool = True
    has_duplicate_detection: bool = True
    cancels_schedules: bool = True
    counts_exactly: bool = True
    keeps_place: bool = True
    sees_locks: bool = True
    most_effects: int | None = None
    time_resolution_s: float = 0.0
