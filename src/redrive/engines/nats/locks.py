# SPDX-License-Identifier: MIT
"""The locks of this engine, each with a deadline of its own, and what a token says about the locks of others.

The server ends locks too, a little later, and gives the message to the next receiver. It would also obey one that
settles late; so an engine settles nothing after its own deadline. A process may be frozen between that check and its
request. Therefore who receives a message that was handed out before notes that it has taken the lock over, and giving a
message back, setting it aside or making a dead letter of it works only if no other has. That work was done is true
however late it is said: of two that complete a message, one wins.
"""

import asyncio
import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from redrive.broker.port import Lock
from redrive.clock import Clock
from redrive.engines.nats.records import MessageRecord

_TOKEN: Final = re.compile(r"(\w+):(\d+):(\d+):(\d+):(\d+):(-?[\d.]+):(\S+) (\S*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Held:
    """A message that is locked.

    Attributes:
        token: the lock's.
        subject: where the message is.
        sequence: the stream's number of the version that is locked.
        number: the message's own.
        count: how often it was delivered, this time included.
        takeover: the stream's number of the note that this lock was taken over from another; 0: there was no other.
        until: when the lock ends.
        reply: how the server learns about it; empty where the lock is part of the record.
        queue: the name of the queue.
        record: the message; None if another engine has it.
    """

    token: str
    subject: str
    sequence: int
    number: int
    count: int
    takeover: int
    until: float
    reply: str
    queue: str = ""
    record: MessageRecord | None = None

    @property
    def is_only(self) -> bool:
        """Whether it is known that its subject has never had another version."""
        return self.record is not None and self.record.is_only

    @property
    def is_first(self) -> bool:
        """Whether it is known that no one had the message before, and that there was never another version of it."""
        return self.is_only and not self.takeover


class Locks:
    """The locks that this engine has given out.

    Args:
        clock: what they end by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._me = uuid4().hex[:12]
        self._in_use: dict[Hashable, asyncio.Future[None]] = {}
        self._held: dict[str, tuple[Held, float]] = {}  # with the deadline on the clock that never goes back
        self._by_subject: dict[str, str] = {}  # the tokens
        self._returned: dict[str, int] = {}  # how often what is no longer locked was delivered, though it was

    def new(
        self, record: MessageRecord, subject: str, count: int, until: float, *, takeover: int = 0, reply: str = ""
    ) -> Held:
        """Return a lock with a token that also another engine can settle with."""
        me, number = f"{self._me}{uuid4().hex[:8]}", record.place.number
        token = f"{me}:{record.sequence}:{number}:{count}:{takeover}:{until}:{subject} {reply}"
        return Held(token, subject, record.sequence, number, count, takeover, until, reply, record=record)

    def keep(self, held: Held, seconds: float) -> None:
        """Remember a lock that ends in so many seconds."""
        self._held[held.token] = held, self._clock.monotonic() + seconds
        self._by_subject[held.subject] = held.token
        self._returned.pop(held.subject, None)

    def drop(self, held: Held) -> None:
        """Forget a lock: it was used."""
        self._held.pop(held.token, None)
        if self._by_subject.get(held.subject) == held.token:
            del self._by_subject[held.subject]

    def find(self, lock: Lock) -> Held | None:
        """Return what a lock is good for; None if it has ended, or is none."""
        if not isinstance(lock.token, str):
            return None
        if (own := self._held.get(lock.token)) is not None:
            held, deadline = own
            is_good = deadline > self._clock.monotonic()
        else:
            read = _read(lock.token)
            if read is None or lock.token.startswith(self._me):  # it is one of ours, and was used or has ended
                return None
            held = read
            is_good = held.until > self._clock.time()
        return replace(held, queue=lock.queue) if is_good and held.number == lock.sequence else None

    async def use(self, locks: Iterable[Lock]) -> "Callable[[], None]":
        """Wait until no one else is about to settle with these locks; return what says that it is over."""
        tokens = {lock.token for lock in locks}
        while used := [self._in_use[token] for token in tokens if token in self._in_use]:
            await asyncio.wait(used)
        over = asyncio.get_running_loop().create_future()
        self._in_use.update(dict.fromkeys(tokens, over))

        def end() -> None:
            for token in tokens:
                del self._in_use[token]
            over.set_result(None)

        return end

    def renewed(self, held: Held, seconds: float) -> float:
        """Lengthen a lock by so many seconds from now; return when it ends."""
        until = self._clock.time() + seconds
        if held.token in self._held:
            self._held[held.token] = replace(held, until=until), self._clock.monotonic() + seconds
        return until

    def is_own(self, held: Held) -> bool:
        """Say whether this engine has given a lock out."""
        return held.token in self._held

    def is_certain(self, held: Held) -> bool:
        """Say whether no one else can have a message: this engine has given the lock out, and it has not ended."""
        own = self._held.get(held.token)
        return own is not None and own[1] > self._clock.monotonic()

    def sort_out(self, limit: int | None = None) -> int:
        """Move locks that have ended to what is no longer locked; say how many they were, which the limit bounds."""
        now = self._clock.monotonic()
        ended = [held for held, deadline in self._held.values() if deadline <= now][:limit]
        for held in ended:
            self.drop(held)
            if held.reply:
                self._returned[held.subject] = held.count
        return len(ended)

    def held_at(self, subject: str) -> Held | None:
        """Return the lock that this engine has on a message."""
        own = self._held.get(self._by_subject.get(subject, ""))
        return own[0] if own is not None and own[1] > self._clock.monotonic() else None

    def returned(self) -> list[tuple[str, int]]:
        """What is no longer locked, with how often it was delivered."""
        return list(self._returned.items())

    def is_returned(self, subject: str) -> bool:
        """Say whether a message is not locked any more, though the server does not say so."""
        return subject in self._returned

    def deliveries(self, subject: str) -> int:
        """Return how often a message was delivered that this engine has given back."""
        return self._returned.get(subject, 0)

    def forget_returned(self, subject: str) -> None:
        """Forget it: it was delivered again, or is gone."""
        self._returned.pop(subject, None)


def _read(token: str) -> Held | None:
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    _, sequence, number, count, takeover, until, subject, reply = found.groups()
    return Held(token, subject, int(sequence), int(number), int(count), int(takeover), float(until), reply)
