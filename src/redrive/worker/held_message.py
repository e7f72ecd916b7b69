# SPDX-License-Identifier: MIT
"""A message that a worker holds, and until when."""

from typing import TYPE_CHECKING, Literal, TypeAlias

from redrive.broker import Lock, Received
from redrive.broker.headers import EARLIER_DELIVERIES
from redrive.errors import LockLost, UsageError
from redrive.worker.recoverability import counter

if TYPE_CHECKING:
    import asyncio

Phase: TypeAlias = Literal["prefetched", "handling", "settling", "joined", "settled"]
"""``joined``: its completion is part of an open transaction of the handler, which may be committed or rolled back."""


class HeldMessage:
    """One delivery of one message.

    Attributes:
        received: the message as it was received.
        taken_at: when it was requested, on the monotonic clock.
        held_until: when the lock ends at the latest, on the monotonic clock. It is counted from the request, so it is
            never later than the engine's own instant, even if the engine's clock differs from this process's.
        began_at: when its handler began.
        phase: what is being done with it. The first to settle it changes the phase, so it is never settled twice.
        has_joined: whether its completion is part of a transaction of its handler, which may still be open.
        is_lost: whether the lock ended before it was settled.
        is_probe: whether it is the one message that a slow worker tries.
        is_cancelled: whether the worker itself has cancelled its handler.
        task: what handles it.
        thread: where a blocking handler runs.
    """

    __slots__ = (
        "began_at",
        "has_joined",
        "held_until",
        "is_cancelled",
        "is_lost",
        "is_probe",
        "phase",
        "received",
        "taken_at",
        "task",
        "thread",
    )

    def __init__(self, received: Received, taken_at: float, lock_s: float) -> None:
        self.received = received
        self.taken_at = taken_at
        self.held_until = taken_at + lock_s
        self.began_at = taken_at
        self.phase: Phase = "prefetched"
        self.has_joined = False
        self.is_lost = False
        self.is_probe = False
        self.is_cancelled = False
        self.task: asyncio.Task[None] | None = None
        self.thread: int | None = None

    @property
    def lock(self) -> Lock:
        """The right to settle it."""
        if self.received.lock is None:
            raise UsageError(f"message {self.id} was deleted when it was received: there is nothing left to settle")
        return self.received.lock

    @property
    def id(self) -> str:
        """The message's id."""
        return self.received.id

    @property
    def attempt(self) -> int:
        """Which attempt this is, counted from 1 over all rounds."""
        return counter(self.received.headers, EARLIER_DELIVERIES) + self.received.delivery_count

    @property
    def is_running(self) -> bool:
        """Whether its handler has begun and it is not settled yet."""
        return self.phase in ("handling", "settling")

    def lost(self) -> LockLost:
        """Return the error that says that its lock is lost."""
        return LockLost(self.received.queue, self.received.sequence)
