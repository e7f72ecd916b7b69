# SPDX-License-Identifier: MIT
"""Fetches the messages of a queue with sessions: several sessions at a time, one message of each at a time."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from redrive.broker import Abandon, Received, spans
from redrive.broker.port import Sessions, ability
from redrive.clock import pause
from redrive.errors import EngineUnavailable, LockLost, SessionLost
from redrive.telemetry import is_traced
from redrive.worker.held_message import HeldMessage, HeldSession
from redrive.worker.receiver_setup import ReceiverSetup

_IDLE_S = 10.0
"""How long to wait for a hint before asking all the same."""

_MOST_IN_A_ROW = 100
"""Messages of one session before it is given back: others wait too, and the one that has waited longest is next."""


class SessionReceiver:
    """The sessions of one queue that the worker holds, and the next message of each.

    A session is given back when it has no message ready, when its next message has to wait, and when the worker stops.

    Args:
        setup: what it works with.
        most: how many sessions are held at a time.
        on_change: called when there is a session more or less.

    Attributes:
        taken: how many messages have come so far.
    """

    def __init__(self, setup: ReceiverSetup, *, most: int, on_change: Callable[[], None]) -> None:
        self._queue = setup.queue
        self._engine = setup.engine
        self._sessions = ability(setup.engine, Sessions)
        self._clock = setup.clock
        self._lock_s = setup.lock_s
        self._store_errors = setup.store_errors
        self._reporter = setup.reporter
        self._keeper = setup.keeper
        self._keeper.on_stale = self.drop
        self._wanted = setup.wanted
        self._on_arrival = setup.on_arrival
        self._most = most
        self._on_change = on_change
        self._buffer: deque[HeldMessage] = deque()
        self._serving: dict[HeldSession, asyncio.Task[None]] = {}
        self._alarms: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._asking = asyncio.Lock()
        self._is_closed = False
        self.taken = 0

    @property
    def waiting(self) -> int:
        """How many messages wait to be handed out."""
        return len(self._buffer)

    @property
    def is_empty(self) -> bool:
        """Whether no session is held."""
        return not self._serving

    def wake(self) -> None:
        """Look whether there is room now."""
        self._wake.set()

    async def run(self) -> None:
        """Accept sessions until cancelled."""
        while True:
            self._wake.clear()
            if self._room <= 0:
                await self._wake.wait()
            elif not await self._accept():
                await self._wait()

    async def look(self) -> bool:
        """Say whether there is something to do: accept a session that has messages, or there is no room at present."""
        return self._room <= 0 or await self._accept()

    def next(self) -> HeldMessage | None:
        """Return the next message that can be handled, if there is one whose lock lasts."""
        while self._buffer:
            lease = self._buffer.popleft()
            if self._keeper.has_time(lease):
                return lease
            self._end(lease, is_begun=False)
        return None

    def drop(self, lease: HeldMessage) -> None:
        """Let go of a message that has waited too long."""
        if lease in self._buffer:
            self._buffer.remove(lease)
            self._end(lease, is_begun=False)

    def ended(self, lease: HeldMessage) -> None:
        """Note that a message's handler has ended and the message is settled: its session may go on."""
        self._end(lease, is_begun=True)

    def clear(self) -> None:
        """Give back every session whose message is not being handled."""
        for session, serving in self._serving.items():
            if session.message is None:
                session.may_go_on = False
                if session.is_fetching:  # else it has not begun, or gives the session back: that must not be cut off
                    serving.cancel()
        leases, self._buffer = list(self._buffer), deque()
        for lease in leases:
            self._end(lease, is_begun=False)

    async def released(self) -> None:
        """Take no more messages, and wait until every session is back whose message is not being handled."""
        self._is_closed = True
        while idle := [serving for session, serving in self._serving.items() if not session.is_handled]:
            await asyncio.wait(idle)

    async def close(self) -> None:
        """Give back what is left."""
        for session in self._serving:
            session.may_go_on = False
            session.is_done.set()
        for alarm in self._alarms:
            alarm.cancel()
        if left := [*self._serving.values(), *self._alarms]:
            await asyncio.wait(left)

    # --- sessions

    @property
    def _room(self) -> int:
        about_to_fetch = sum(session.message is None for session in self._serving)
        return min(self._wanted() - about_to_fetch, self._most - len(self._serving))

    async def _wait(self) -> None:
        """Wait for a hint of the engine, or until this receiver is woken."""
        hint = asyncio.ensure_future(self._engine.wait(self._queue, _IDLE_S))
        woken = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((hint, woken), return_when=asyncio.FIRST_COMPLETED)
            if hint.done():
                hint.result()
        finally:
            hint.cancel()
            woken.cancel()
            await asyncio.wait((hint, woken))

    async def _accept(self) -> bool:
        asked_at = 0.0

        def ask() -> Coroutine[Any, Any, Any]:
            nonlocal asked_at
            asked_at = self._clock.monotonic()
            return self._sessions.lock_session(self._queue, None)

        async with self._asking:  # ``look`` also waits for what ``run`` is accepting
            lock = await self._store_errors.keep_trying("receive", ask)
            if lock is None:
                return False
            session = HeldSession(lock, asked_at + self._lock_s)
            serving = asyncio.create_task(self._serve(session), name=f"redrive-session-{lock.session_id}")
            self._serving[session] = serving
        self._on_change()
        return True

    async def _serve(self, session: HeldSession) -> None:
        """Hand out the messages of a session, one after another, and give it back."""
        try:
            for _ in range(_MOST_IN_A_ROW):
                may_go_on = session.may_go_on and not self._is_closed and self._wanted() > 0
                if not may_go_on or not await self._handed_out(session):
                    break
        except SessionLost:
            pass  # another receiver has the session, and its messages are delivered there
        finally:
            await self._release(session)
            del self._serving[session]
            self.wake()
            self._on_change()

    async def _handed_out(self, session: HeldSession) -> bool:
        """Have the next message handled; say whether the session may go on with the one after it."""
        found = await self._fetched(session)
        if not found:
            return False
        if is_traced():
            now = self._clock.time()
            spans.received(self._queue, found, (now, now), parent={})
        (received,) = found
        self.taken += 1
        lease = HeldMessage(received, self._clock.monotonic(), 0.0, session)
        lease.held_until = session.held_until
        session.message, session.is_done = lease, asyncio.Event()
        self._buffer.append(lease)
        self._keeper.watch(lease)
        self._on_arrival()
        await session.is_done.wait()
        session.message = None
        return session.may_go_on and not lease.is_lost

    async def _fetched(self, session: HeldSession) -> list[Received]:
        session.is_fetching = True
        try:
            if session.held_until - self._clock.monotonic() <= self._lock_s / 2:
                await self._keeper.renew_session(session)
            return await self._store_errors.keep_trying(
                "receive", lambda: self._sessions.lock_in_session(session.lock, 1)
            )
        finally:
            session.is_fetching = False

    def _end(self, lease: HeldMessage, *, is_begun: bool) -> None:
        self._keeper.forget(lease)
        if lease.session is None or lease.session.message is not lease:
            return
        if not is_begun:
            lease.session.unseen = lease
            lease.session.may_go_on = False
            lease.phase = "settled"
        lease.session.is_done.set()

    async def _release(self, session: HeldSession) -> None:
        """Give a session back, at once or after a delay; a message of it that no handler has seen is not counted."""
        try:
            if session.unseen is not None:
                await self._engine.apply([Abandon(session.unseen.lock, uncount=True)])
            await self._sessions.release_session(session.lock, session.delay)
        except (LockLost, SessionLost):
            if session.unseen is not None:
                self._reporter.lost(session.unseen)
        except EngineUnavailable as error:  # its lock will end by itself
            await self._store_errors.report("release", error)
        if session.delay:
            alarm = asyncio.create_task(self._wake_after(session.delay))
            self._alarms.add(alarm)
            alarm.add_done_callback(self._alarms.discard)

    async def _wake_after(self, seconds: float) -> None:
        await pause(self._clock, seconds)
        self.wake()
