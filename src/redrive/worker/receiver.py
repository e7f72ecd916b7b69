# SPDX-License-Identifier: MIT
"""Fetches messages ahead of the handlers, and never hands out one whose lock is about to end."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from math import inf
from typing import Any

from redrive.broker import Abandon, Received, spans
from redrive.errors import EngineUnavailable, LockLost
from redrive.telemetry import is_traced
from redrive.worker.held_message import HeldMessage
from redrive.worker.receiver_setup import ReceiverSetup

_MOST_AT_ONCE = 1_000
_IDLE_S = 60.0
"""How long to wait for a hint before asking the engine anyway. Hints come at once; this is the safety net."""


class Receiver:
    """The local buffer of locked messages of one queue.

    Args:
        setup: what it works with.
        delete: whether messages are taken out of their queue for good, instead of being locked.

    Attributes:
        taken: how many messages have come so far.
    """

    def __init__(self, setup: ReceiverSetup, *, delete: bool = False) -> None:
        self._queue = setup.queue
        self._engine = setup.engine
        self._clock = setup.clock
        self._lock_s = inf if delete else setup.lock_s
        self._store_errors = setup.store_errors
        self._reporter = setup.reporter
        self._keeper = setup.keeper
        self._keeper.on_stale = self.drop
        self._wanted = setup.wanted
        self._on_arrival = setup.on_arrival
        self._delete = delete
        self._buffer: deque[HeldMessage] = deque()
        self._wake = asyncio.Event()
        self._asking = asyncio.Lock()
        self.taken = 0
        self._releasing: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many messages wait to be handed out."""
        return len(self._buffer)

    @property
    def is_empty(self) -> bool:
        """Whether no message waits to be handed out."""
        return not self._buffer

    def wake(self) -> None:
        """Check whether there is room now."""
        self._wake.set()

    async def run(self) -> None:
        """Fetch messages until cancelled."""
        while True:
            if self._wanted() <= 0:
                self._wake.clear()
                await self._wake.wait()
            elif not await self._fetch():
                await self._engine.wait(self._queue, _IDLE_S)

    async def look(self) -> bool:
        """Fetch what is ready now; say whether there is something to do, also if there is no room for it now.

        A message that is being given back is not handled, and not ready yet: it is waited for.
        """
        await self.released()
        return await self._fetch()

    def next(self) -> HeldMessage | None:
        """Take the next message out of the buffer whose lock lasts long enough, if there is one."""
        while self._buffer:
            lease = self._buffer.popleft()
            if self._keeper.has_time(lease):
                return lease
            self._give_up([lease])
        return None

    def drop(self, lease: HeldMessage) -> None:
        """Give up a message that has waited too long."""
        if lease in self._buffer:
            self._buffer.remove(lease)
            self._give_up([lease])
            self.wake()

    def clear(self) -> None:
        """Give up all messages in the buffer."""
        leases, self._buffer = list(self._buffer), deque()
        self._give_up(leases)

    def ended(self, lease: HeldMessage) -> None:
        """Note that a message's handler has ended and the message is settled."""
        self._keeper.forget(lease)

    async def close(self) -> None:
        """Wait until everything is given back."""
        await self.released()

    async def released(self) -> None:
        """Wait until all messages that were given up are back in their queue."""
        while self._releasing:
            await asyncio.wait(self._releasing)

    async def _fetch(self) -> bool:
        """Fetch as many messages as there is room for; say whether there was one, or no room."""
        asked_at, room, began = 0.0, 0, self._clock.time()

        def ask() -> Coroutine[Any, Any, list[Received]]:
            nonlocal asked_at
            asked_at = self._clock.monotonic()
            return self._take(room) if self._delete else self._engine.lock_next(self._queue, room)

        async with self._asking:  # ``look`` also waits for what ``run`` is fetching, which takes room
            room = min(self._wanted(), _MOST_AT_ONCE)
            if room <= 0:
                return True
            found = await self._store_errors.keep_trying("receive", ask)
        if found and is_traced():
            spans.received(self._queue, found, (began, self._clock.time()), parent={})
        self.taken += len(found)
        leases = [HeldMessage(received, asked_at, self._lock_s) for received in found]
        # the worker may have slowed down meanwhile
        kept = leases if self._delete else leases[: max(0, self._wanted())]
        self._give_up(leases[len(kept) :])
        self._keep(kept)
        return bool(found)

    async def _take(self, room: int) -> list[Received]:
        """Take messages out of their queue. They cannot be given back, so a cancellation waits for them."""
        taking = asyncio.ensure_future(self._engine.lock_next(self._queue, room, delete=True))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            with suppress(EngineUnavailable):
                found = await taking
                self.taken += len(found)
                self._keep([HeldMessage(received, self._clock.monotonic(), inf) for received in found])
            raise

    def _keep(self, leases: list[HeldMessage]) -> None:
        for lease in leases:
            self._buffer.append(lease)
            self._keeper.watch(lease)
        if leases:
            self._on_arrival()

    def _give_up(self, leases: list[HeldMessage]) -> None:
        for lease in leases:
            self._keeper.forget(lease)
            if lease.held_until <= self._clock.monotonic():
                self._reporter.lost(lease)  # the message is back in its queue already
                continue
            lease.phase = "settled"
            releasing = asyncio.create_task(self._release(lease))
            self._releasing.add(releasing)
            releasing.add_done_callback(self._releasing.discard)

    async def _release(self, lease: HeldMessage) -> None:
        """Give a message back as if it had not been received."""
        try:
            await self._engine.apply([Abandon(lease.lock, uncount=True)])
        except LockLost:
            pass
        except EngineUnavailable as error:
            await self._store_errors.report("release", error)
