# SPDX-License-Identifier: MIT
"""Bulk work on a queue: removing what is in it, and sending its dead letters again."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from redrive.broker.effects import Abandon, Complete, Effect, Send
from redrive.broker.message import Lock, Received
from redrive.broker.port import Browsing, Choosing, Engine, Sessions, ability, find_ability
from redrive.broker.rules import LOCKED_STATES, dead_letter_queue, is_dead_letter_queue
from redrive.errors import InvalidSetting, LockLost, MessageError, SessionRequired

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Stayed:
    """A dead letter that could not be sent to its queue again, and is where it was.

    Attributes:
        sequence: its sequence number.
        id: the message's id.
        reason: why its queue does not take it.
    """

    sequence: int
    id: str
    reason: str


class Resubmitted(int):
    """How many dead letters were sent again: a number, which also says what happened to the others.

    Attributes:
        stayed: those that their queue refuses. They are where they were, and not locked.
        locked: how many could not be received, as another receiver has them locked.
        locked_until: when the last of these locks ends, of the first hundred.
    """

    stayed: tuple[Stayed, ...] = ()
    locked: int = 0
    locked_until: datetime | None = None

    @classmethod
    def of(cls, sent: int, stayed: Iterable[Stayed], locks: Sequence[Received], locked: int) -> Self:
        """Return the number, with what happened to the others."""
        result = cls(sent)
        result.stayed = tuple(stayed)
        result.locked = locked
        result.locked_until = max((each.locked_until for each in locks if each.locked_until is not None), default=None)
        return result

    def __str__(self) -> str:
        return str(int(self))

    def __repr__(self) -> str:
        return (
            f"<Resubmitted {int(self)}, {len(self.stayed)} stayed, {self.locked} locked"
            + (f" until {self.locked_until}" if self.locked_until is not None else "")
            + ">"
        )


async def purge(engine: Engine, queue: str, on_progress: Callable[[int], object] | None) -> int:
    """Remove every message that can be received now; return how many there were."""
    purged = 0
    async for taken in _taken(engine, queue):
        purged += taken
        if on_progress is not None:
            on_progress(purged)
    return purged


async def purge_chosen(engine: Engine, queue: str, sequences: Sequence[int]) -> int:
    """Remove dead letters by their numbers, all or none; return how many there were."""
    if not is_dead_letter_queue(queue):
        allowed = f"are for dead letters only: purge({dead_letter_queue(queue)!r}, sequences=...)"
        raise InvalidSetting("sequences", list(sequences), allowed)
    found = await ability(engine, Choosing).lock_chosen(queue, sequences)
    await engine.apply([Complete(one.lock) for one in found if one.lock is not None])
    return len(found)


async def _taken(engine: Engine, queue: str) -> AsyncIterator[int]:
    """Take messages out, page by page, session by session if the queue has sessions; yield how many there were."""
    if not (await engine.inspect(queue))[0].settings.requires_session:
        while page := await engine.lock_next(queue, _PAGE, delete=True):
            yield len(page)
        return
    sessions = ability(engine, Sessions)
    while (session := await sessions.lock_session(queue, None)) is not None:
        while page := await sessions.lock_in_session(session, _PAGE, delete=True):
            yield len(page)
        await sessions.release_session(session)


async def resubmit(
    engine: Engine, queue: str, max_messages: int | None, on_progress: Callable[[int], object] | None
) -> Resubmitted:
    """Send the dead letters of a queue to it again; those that it refuses stay, and do not block the others."""
    dead = dead_letter_queue(queue)
    if dead == queue:
        raise InvalidSetting("queue", queue, "is a dead-letter queue; name the queue to which they shall go again")
    # what is sent now gets a higher number, and keeps it if it dies again
    work = _Resubmission(engine, queue, last=(await engine.inspect(dead))[0].last_sequence)
    try:
        while (max_messages is None or work.sent < max_messages) and not work.is_done:
            before = work.sent
            wanted = _PAGE if max_messages is None else min(_PAGE, max_messages - work.sent)
            await work.send(await engine.lock_next(dead, wanted + work.repeated))
            if work.sent > before and on_progress is not None:
                on_progress(work.sent)
    finally:
        await work.let_go()
    locked = (await engine.inspect(dead))[0].locked
    locks: list[Received] = []
    if locked and (browsing := find_ability(engine, Browsing)) is not None:
        locks = await browsing.peek(dead, _PAGE, states=LOCKED_STATES)
    return Resubmitted.of(work.sent, work.stayed.values(), locks, locked)


async def resubmit_chosen(engine: Engine, queue: str, sequences: Sequence[int]) -> Resubmitted:
    """Send dead letters of a queue to it again, by their numbers; those that it refuses stay."""
    dead = dead_letter_queue(queue)
    if dead == queue:
        raise InvalidSetting("queue", queue, "is a dead-letter queue; name the queue to which they shall go again")
    found = await ability(engine, Choosing).lock_chosen(dead, sequences)
    work = _Resubmission(engine, queue, last=max(sequences, default=0))
    try:
        await work.send(found)
    finally:
        await work.let_go()
    return Resubmitted.of(work.sent, work.stayed.values(), (), 0)


class _Resubmission:
    """Dead letters on their way back to their queue, page by page.

    What its queue does not take is kept locked until the end, so that the next page is not the same again.

    Attributes:
        sent: how many were sent.
        stayed: those that its queue does not take, by their numbers and ids.
        repeated: how many of these came again with the last page, as their locks had ended.
    """

    def __init__(self, engine: Engine, queue: str, last: int) -> None:
        self._engine = engine
        self._queue = queue
        self._last = last
        self._held: list[Lock] = []
        self._pages_without_news = 0
        self.sent = 0
        self.stayed: dict[tuple[int, str], Stayed] = {}
        self.repeated = 0

    @property
    def is_done(self) -> bool:
        """Whether all have been seen: also if some come again, as their locks end before everything is done."""
        return self._pages_without_news > 1

    async def send(self, page: Sequence[Received]) -> None:
        """Send a page of dead letters again, one by one if not all of them can be sent."""
        self._held += [one.lock for one in page if one.lock is not None]
        fresh = [one for one in page if one.sequence <= self._last and (one.sequence, one.id) not in self.stayed]
        self.repeated = sum((one.sequence, one.id) in self.stayed for one in page)
        self._pages_without_news = 0 if fresh else self._pages_without_news + 1
        if not page or (not fresh and page[0].sequence > self._last):
            self._pages_without_news = 2  # there is nothing left but what died since
        try:
            await self._engine.apply([effect for one in fresh for effect in self._again(one)])
        except (MessageError, SessionRequired):
            for one in fresh:
                await self._send_alone(one)
        else:
            self._note_sent(fresh)

    async def _send_alone(self, one: Received) -> None:
        try:
            await self._engine.apply(self._again(one))
        except LockLost:
            return  # another receiver has it by now
        except (MessageError, SessionRequired) as error:
            self.stayed[one.sequence, one.id] = Stayed(one.sequence, one.id, str(error))
        else:
            self._note_sent([one])

    def _again(self, one: Received) -> list[Effect]:
        settle = [Complete(one.lock)] if one.lock is not None else []
        return [*settle, Send(self._queue, one.message, even_if_seen=True)]

    def _note_sent(self, sent: Sequence[Received]) -> None:
        self.sent += len(sent)
        gone = {one.lock for one in sent}
        self._held = [lock for lock in self._held if lock not in gone]

    async def let_go(self) -> None:
        """Give back what was received and not sent, without counting the delivery."""
        held, self._held = self._held, []
        for start in range(0, len(held), _PAGE):
            page = held[start : start + _PAGE]
            try:
                await self._engine.apply([Abandon(lock, uncount=True) for lock in page])
            except LockLost:
                for lock in page:
                    with suppress(LockLost):  # it ended by itself, and the message is free already
                        await self._engine.apply([Abandon(lock, uncount=True)])
