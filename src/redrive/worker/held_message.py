# SPDX-License-Identifier: MIT
"""A message that a worker holds, and until when."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from redrive.broker import Effect, Lock, Received, SessionLock, SetSessionState
from redrive.broker.headers import EARLIER_DELIVERIES
from redrive.errors import LockLost, UsageError
from redrive.worker.recoverability import counter

Phase: TypeAlias = Literal["prefetched", "handling", "settling", "joined", "settled"]
"""``joined``: its completion is part of an open transaction of the handler, which may be committed or rolled back."""


class HeldSession:
    """A session in a worker's hands.

    Attributes:
        lock: the right to its messages.
        held_until: when that ends at the latest, on the monotonic clock.
        message: the message of it that is to be handled, or is being handled.
        is_done: is set when that one is settled.
        unseen: a message that was received and not handed to its handler.
        delay: how long the session is held up when it is given back, so that nothing overtakes its next message.
        may_go_on: whether its next message may be received.
        is_fetching: whether its next message is being received: only then may the task that serves it be cancelled.
    """

    __slots__ = ("delay", "held_until", "is_done", "is_fetching", "lock", "may_go_on", "message", "unseen")

    def __init__(self, lock: SessionLock, held_until: float) -> None:
        self.lock = lock
        self.held_until = held_until
        self.message: HeldMessage | None = None
        self.is_done = asyncio.Event()
        self.unseen: HeldMessage | None = None
        self.delay = 0.0
        self.may_go_on = True
        self.is_fetching = False

    @property
    def is_handled(self) -> bool:
        """Whether a handler has a message of it."""
        return self.message is not None and self.message.task is not None

    def hold_up(self, delay: float) -> None:
        """Give the session back for a while: its next message is to be delivered again after a delay."""
        self.delay = delay
        self.may_go_on = False

    def note(self, effects: Sequence[Effect]) -> None:
        """Note what effects have done to it."""
        for effect in effects:
            if isinstance(effect, SetSessionState):
                self.lock = replace(self.lock, state=effect.state)


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
        session: the session that it was received through, if it was.
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
        "session",
        "taken_at",
        "task",
        "thread",
    )

    def __init__(self, received: Received, taken_at: float, lock_s: float, session: HeldSession | None = None) -> None:
        self.received = received
        self.session = session
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

    def cancel(self) -> None:
        """Cancel its handler; the message is to be given back when that has ended."""
        self.is_cancelled = True
        if self.task is not None:
            self.task.cancel()

    def lost(self) -> LockLost:
        """Return the error that says that its lock is lost."""
        return LockLost(self.received.queue, self.received.sequence)
