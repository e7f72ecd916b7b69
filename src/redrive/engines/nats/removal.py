# SPDX-License-Identifier: MIT
"""Completes a message by removing the version that is locked, by its number in the stream, instead of replacing it.

That is one request instead of three, and works on a server that is full, which stores nothing. A removal has no fence:
it would also remove a version that another process has replaced a moment ago. Before the lock has ended none does that
but one that was handed the same lock, or the same message by a consumer whose leader has just changed; then the message
comes again. After the lock has ended, it is looked whether the message is still there.
"""

from collections.abc import Callable

from redrive.engines.nats import errors
from redrive.engines.nats.connection import NatsConnection
from redrive.engines.nats.errors import StreamRefusal
from redrive.engines.nats.locks import Held
from redrive.engines.nats.records import GONE
from redrive.engines.nats.subjects import MessageLane, Subjects
from redrive.errors import EngineUnavailable


async def remove(connection: NatsConnection, subjects: Subjects, held: Held, is_certain: Callable[[], bool]) -> None:
    """Remove the version of a message that is locked.

    Args:
        connection: the servers.
        subjects: the subjects of the namespace.
        held: the lock.
        is_certain: says whether no one else can have the message.

    Raises:
        StreamRefusal: it is not there any more, and it was not this that has removed it; or another version is there.
    """
    await connection.again("complete", _Removal(connection, subjects, held, is_certain).run)


class _Removal:
    """Tries to remove a version until it is known that it is gone."""

    def __init__(
        self, connection: NatsConnection, subjects: Subjects, held: Held, is_certain: Callable[[], bool]
    ) -> None:
        self._connection = connection
        self._subjects = subjects
        self._held = held
        self._is_certain = is_certain
        self._is_unknown = False

    async def run(self) -> None:
        request = {"seq": self._held.sequence, "no_erase": True}
        if not self._is_unknown and not self._is_certain():
            await self._check_last()
        try:
            await self._connection.api_once(f"STREAM.MSG.DELETE.{self._subjects.stream}", request)
        except EngineUnavailable as error:
            self._is_unknown = error.may_be_done = self._is_unknown or error.may_be_done
            raise
        except StreamRefusal as error:
            if error.code not in errors.NOT_REMOVED:
                raise errors.of_refusal(error, self._connection.where) from error
            if not (self._is_unknown and await self._is_nowhere()):
                raise
        else:
            if (self._is_unknown or not self._is_certain()) and not await self._is_nowhere():
                raise StreamRefusal(min(errors.NOT_REMOVED), "another version was stored meanwhile")

    async def _check_last(self) -> None:
        last = await self._connection.last(self._subjects.stream, self._held.subject)
        if last is None or last.sequence != self._held.sequence:
            raise StreamRefusal(min(errors.NOT_REMOVED), "it is not the last version")

    async def _is_nowhere(self) -> bool:
        """Say whether there is no version of the message: then it is completed, by an earlier try or by another."""
        place = self._subjects.place(self._held.subject)
        for lane in MessageLane:
            pattern = self._subjects.numbered(lane, place.key, place.number)
            found = await self._connection.last(self._subjects.stream, pattern)
            if found is not None and GONE not in found.headers:
                return False
        return True
