# SPDX-License-Identifier: MIT
"""Stores changes: each as a whole or not at all, and those that are made at the same time together.

A change is some messages to be stored, most of them with a fence: the number that the last message of some subject must
have. One message alone is published; several are an atomic batch, with a receipt among them. When an answer is lost,
the change is made again; if the first try was stored, a fence refuses the second, and the receipt tells that it was.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from redrive.engines.nats import errors
from redrive.engines.nats.connection import NatsConnection
from redrive.engines.nats.errors import StreamRefusal
from redrive.engines.nats.records import GONE, MessageRecord, is_message
from redrive.engines.nats.subjects import MessageLane, Subjects
from redrive.errors import EngineUnavailable, RedriveError

_COMMIT: Final = "Redrive-Commit"
_ROLLUP: Final = "Nats-Rollup"
_RECEIPT_S: Final = 120
"""How long a receipt is kept: longer than any call is made again."""

_REMAINS_S: Final = 30 * 86_400
"""How long what is left of a settled message is kept at most: until the message itself is removed, which a process that
dies leaves to the next one that is handed the message."""

_AT_ONCE: Final = 64

_MOST_MESSAGES: Final = 1_000
"""How many messages the server takes as one batch."""

MOST_IN_A_CHANGE: Final = _MOST_MESSAGES - 10
"""How many messages a change may store; some are left for the receipt and for guards."""

_MOST_BYTES: Final = 4 * 1_048_576
"""How much of several changes goes into one batch."""


@dataclass(slots=True)
class StreamEntry:
    """A message to be stored.

    Attributes:
        subject: where.
        body: what.
        headers: what goes with it.
        sequence: the stream's number of it, once it is stored; 0 if that is not known.
        replaces: the stream's number of the version that is removed once it is stored; 0: none is.
        is_of_only: whether there is no other version but that one.
    """

    subject: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    sequence: int = 0
    replaces: int = 0
    is_of_only: bool = False

    def fenced(self, sequence: int, subject: str | None = None) -> "StreamEntry":
        """Store it only if the last message of its subject, or of another, has this number; 0: if there is none."""
        self.headers["Nats-Expected-Last-Subject-Sequence"] = str(sequence)
        if subject is not None:
            self.headers["Nats-Expected-Last-Subject-Sequence-Subject"] = subject
        return self

    def alone(self) -> "StreamEntry":
        """Let it take the place of what its subject has; not for messages that a consumer hands out.

        A stream can be limited to one message for each subject too. But what a server removes for a limit it notes
        nowhere: a server that is killed removes it again when it starts, if what replaced it is still there. What is
        left of a settled message is not, after a second, and the message would come back.
        """
        self.headers[_ROLLUP] = "sub"
        return self

    def instead_of(self, sequence: int) -> "StreamEntry":
        """Let it take the place of a version of its subject, if that is still the last one.

        A message that a consumer hands out is not replaced by a roll-up, which purges its subject: with thousands of
        messages handed out, that damages what the consumer knows of the others, and they are never handed out again.
        So the version before is removed by its number, afterwards. Until then it is locked or known to be old.
        """
        if self.subject.split(".", 2)[1] == MessageLane.READY:
            self.replaces = sequence
            return self.fenced(sequence)
        return self.alone().fenced(sequence)

    def lasting(self, seconds: float) -> "StreamEntry":
        """Let the server remove it after that many seconds."""
        self.headers["Nats-TTL"] = f"{max(1, round(seconds + 0.5))}s"
        return self

    @property
    def turn(self) -> int:
        """When it is stored among those of its change: messages first, and what removes messages last.

        A server that runs out of room stores the first of a batch and refuses the others. So there may be too much
        then, and a message that is sent again is not taken for one that was seen; nothing is missing.
        """
        if GONE in self.headers:
            return 2
        return 0 if is_message(self.headers) else 1

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.body) + sum(len(name) + len(value) for name, value in self.headers.items())


def entry_of(record: MessageRecord, subjects: Subjects) -> StreamEntry:
    """Return what stores a record."""
    headers, body = record.stored
    return StreamEntry(subjects.message(record.place), body, headers)


def rewriting(record: MessageRecord, subjects: Subjects, sequence: int) -> StreamEntry:
    """Return what stores another version of a record in its place."""
    return entry_of(record, subjects).instead_of(sequence)


def removing(subject: str, sequence: int, *, is_only: bool = False) -> StreamEntry:
    """Return what removes the last message of a subject: something that goes by itself takes its place.

    Args:
        subject: the subject.
        sequence: the stream's number of that message.
        is_only: whether there is no older version of it.
    """
    entry = StreamEntry(subject, headers={GONE: "1"}, is_of_only=is_only).instead_of(sequence)
    return entry.lasting(_REMAINS_S if entry.replaces else 0.5)


@dataclass(eq=False, slots=True)
class _Change:
    entries: Sequence[StreamEntry]
    done: asyncio.Future[None]
    size: int


class GroupCommit:
    """Stores changes.

    Args:
        connection: the servers.
        subjects: the subjects of the namespace.
        on_done: gets what was stored.
    """

    def __init__(
        self, connection: NatsConnection, subjects: Subjects, on_done: Callable[[Sequence[StreamEntry]], None]
    ) -> None:
        self._connection = connection
        self._subjects = subjects
        self._on_done = on_done
        self._waiting: deque[_Change] = deque()
        self._working: asyncio.Task[None] | None = None
        self._cleaning: set[asyncio.Task[None]] = set()

    async def commit(self, entries: Sequence[StreamEntry]) -> None:
        """Store messages, all or none. It is finished even if the caller leaves.

        Raises:
            StreamRefusal: a fence has held, and nothing was done.
            EngineUnavailable: no server answers; if it ``may_be_done``, that could not be found out.
        """
        self._connection.check_open()
        if len(entries) > MOST_IN_A_CHANGE:
            raise errors.too_many(MOST_IN_A_CHANGE)
        change = _Change(entries, asyncio.get_running_loop().create_future(), sum(entry.size for entry in entries))
        self._waiting.append(change)
        if self._working is None:
            self._working = asyncio.create_task(self._work(), name="redrive-nats-commit")
        await asyncio.shield(change.done)

    async def finish(self) -> None:
        """Wait until all that was accepted is stored."""
        while self._working is not None:
            await asyncio.gather(self._working, return_exceptions=True)
        await self.cleaned()

    async def cleaned(self) -> None:
        """Wait until what was replaced is removed."""
        while self._cleaning:
            await asyncio.gather(*self._cleaning)

    def clean(self, sequences: Sequence[int]) -> None:
        """Remove versions that are not the last of their subjects any more."""
        self._start_cleaning([self._remove(each) for each in sequences])

    def _clean_after(self, entries: Sequence[StreamEntry]) -> None:
        """Remove what was replaced, and then what is left of it."""
        replaced = [entry for entry in entries if entry.replaces]
        if replaced:
            self._start_cleaning([self._clean(entry) for entry in replaced])

    def _start_cleaning(self, parts: Sequence[Coroutine[Any, Any, None]]) -> None:
        task = asyncio.create_task(self._clean_all(parts))
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    async def _clean_all(self, parts: Sequence[Coroutine[Any, Any, None]]) -> None:
        for start in range(0, len(parts), _AT_ONCE):
            for ended in await asyncio.gather(*parts[start : start + _AT_ONCE], return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, RedriveError | StreamRefusal):
                    raise ended  # otherwise those do it who are handed the message

    async def _clean(self, entry: StreamEntry) -> None:
        await self._remove(entry.replaces)
        if GONE not in entry.headers or not entry.sequence:
            return
        if entry.is_of_only:
            await self._remove(entry.sequence)
            return
        # Processes that have died may have left older versions. Without what is left of the message, the last of these
        # would be the message again; so that goes when it is the only one.
        removed = entry.replaces
        while removed < entry.sequence:
            first = await self._connection.following(self._subjects.stream, 0, entry.subject)
            if first is None or first.sequence in (removed, entry.replaces) or first.sequence > entry.sequence:
                return
            await self._remove(first.sequence)
            removed = first.sequence

    async def _remove(self, sequence: int) -> None:
        try:
            await self._connection.remove(self._subjects.stream, sequence)
        except StreamRefusal as error:
            if error.code not in errors.NOT_REMOVED:
                raise

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._store_group(self._next_group())
        finally:
            self._working = None

    def _next_group(self) -> list[_Change]:
        group = [self._waiting.popleft()]
        size, subjects = group[0].size, {entry.subject for entry in group[0].entries}
        while self._waiting:
            following = self._waiting[0]
            size, more = size + following.size, {entry.subject for entry in following.entries}
            if len(subjects) + len(more) > MOST_IN_A_CHANGE or size > _MOST_BYTES or not subjects.isdisjoint(more):
                break  # two versions of one message do not go into one batch
            subjects |= more
            group.append(self._waiting.popleft())
        return group

    async def _store_group(self, group: list[_Change]) -> None:
        if len(group) > 1 and not await self._was_stored(group):
            for change in group:  # one of them is refused: each by itself says which
                await self._store_alone(change)
        elif len(group) == 1:
            await self._store_alone(group[0])

    async def _was_stored(self, group: list[_Change]) -> bool:
        try:
            await self._store([entry for change in group for entry in change.entries])
        except StreamRefusal:
            return False
        except Exception as error:  # noqa: BLE001 - it is the callers', who would wait for ever
            for change in group:
                _fail(change, error)
            return True
        for change in group:
            self._succeed(change)
        return True

    async def _store_alone(self, change: _Change) -> None:
        try:
            await self._store(change.entries)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            _fail(change, error)
        else:
            self._succeed(change)

    def _succeed(self, change: _Change) -> None:
        self._on_done(change.entries)
        self._clean_after(change.entries)
        if not change.done.done():
            change.done.set_result(None)

    # --- storing, again if need be

    async def _store(self, entries: Sequence[StreamEntry]) -> None:
        attempt = _Attempt(self._connection, self._subjects, entries)
        await self._connection.again("commit", attempt.run)


class _Attempt:
    """Tries to store the same messages until it is known that they are stored, or that they are not."""

    def __init__(self, connection: NatsConnection, subjects: Subjects, entries: Sequence[StreamEntry]) -> None:
        self._connection = connection
        self._subjects = subjects
        self._entries = sorted(entries, key=lambda entry: entry.turn)
        self._commit = uuid4().hex
        self._is_unknown = False

    async def run(self) -> None:
        try:
            answer = await (self._alone(self._entries[0]) if len(self._entries) == 1 else self._batch())
        except EngineUnavailable as error:
            self._is_unknown = error.may_be_done = self._is_unknown or error.may_be_done
            raise
        refused = errors.refusal(answer)
        if refused is not None and errors.is_full(refused) and len(self._entries) > 1:
            await self._check_room(refused)
            return
        if refused is None:
            self._connection.note_reached(answer["seq"])
            first = answer["seq"] - answer.get("count", 1) + 1
            for number, entry in enumerate(self._entries, first):
                entry.sequence = number  # the messages of a batch follow each other
            return
        if self._is_unknown and refused.is_fence and await self._is_there():
            return
        if not refused.is_fence:
            raise self._named(refused, may_be_done=self._is_unknown)
        raise refused

    def _named(self, refused: StreamRefusal, *, may_be_done: bool) -> RedriveError:
        """Return the error for a refusal; if it may be done all the same, it says so."""
        named = errors.of_refusal(refused, self._connection.where)
        if isinstance(named, EngineUnavailable):
            named.may_be_done = may_be_done
        return named

    async def _alone(self, entry: StreamEntry) -> dict[str, Any]:
        headers = entry.headers | {_COMMIT: self._commit, "Nats-Msg-Id": self._commit}
        answer: dict[str, Any] = json.loads(await self._connection.ask(entry.subject, entry.body, headers))
        return answer

    async def _batch(self) -> dict[str, Any]:
        batch = uuid4().hex
        receipt = StreamEntry(self._subjects.receipt(self._commit)).fenced(0).lasting(_RECEIPT_S)
        for number, entry in enumerate(self._entries, 1):
            headers = entry.headers | {
                _COMMIT: self._commit,
                "Nats-Batch-Id": batch,
                "Nats-Batch-Sequence": str(number),
            }
            await self._connection.publish(entry.subject, entry.body, headers)
        last = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(len(self._entries) + 1), "Nats-Batch-Commit": "1"}
        answer: dict[str, Any] = json.loads(await self._connection.ask(receipt.subject, b"", receipt.headers | last))
        return answer

    async def _check_room(self, refused: StreamRefusal) -> None:
        """Return if a batch is stored but for its receipt, though there is no room left; otherwise say so."""
        found = [await self._connection.last(self._subjects.stream, entry.subject) for entry in self._entries]
        stored = [each for each in found if each is not None and each.headers.get(_COMMIT) == self._commit]
        if len(stored) == len(self._entries):
            return
        can_be_undone = not any(_ROLLUP in each.headers for each in stored)  # nothing that was there is gone
        for each in stored if can_be_undone else ():
            await self._connection.remove(self._subjects.stream, each.sequence)
        raise self._named(refused, may_be_done=bool(stored))  # what is taken back may have been received

    async def _is_there(self) -> bool:
        """Find out whether an earlier try was stored although its answer was lost."""
        is_alone = len(self._entries) == 1
        subject = self._entries[0].subject if is_alone else self._subjects.receipt(self._commit)
        found = await self._connection.last(self._subjects.stream, subject)
        return found is not None and (not is_alone or found.headers.get(_COMMIT) == self._commit)


def _fail(change: _Change, error: Exception) -> None:
    if not change.done.done():
        change.done.set_exception(error)
        change.done.exception()  # the caller may have left
