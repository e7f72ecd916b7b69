# SPDX-License-Identifier: MIT
"""Completes a message on a server that is full: it stores nothing, but removes what it has.

What is removed is the version that is locked, by its number in the stream, if it is the last of its subject: since
nothing can be stored, it stays the last.
"""

from redrive.engines.nats import errors
from redrive.engines.nats.connection import NatsConnection
from redrive.engines.nats.errors import StreamRefusal
from redrive.engines.nats.locks import Held
from redrive.engines.nats.records import GONE
from redrive.engines.nats.subjects import MessageLane, Subjects
from redrive.errors import EngineUnavailable


async def remove(connection: NatsConnection, subjects: Subjects, held: Held) -> None:
    """Remove the version of a message that is locked.

    Raises:
        StreamRefusal: it is not there any more, and it was not this that has removed it.
    """
    await connection.again("complete", _Removal(connection, subjects, held).run)


class _Removal:
    """Tries to remove a version until it is known that it is gone."""

    def __init__(self, connection: NatsConnection, subjects: Subjects, held: Held) -> None:
        self._connection = connection
        self._subjects = subjects
        self._held = held
        self._is_unknown = False

    async def run(self) -> None:
        request = {"seq": self._held.sequence, "no_erase": True}
        if not self._is_unknown:
            last = await self._connection.last(self._subjects.stream, self._held.subject)
            if last is None or last.sequence != self._held.sequence:
                raise StreamRefusal(min(errors.NOT_REMOVED), "it is not the last version")
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

    async def _is_nowhere(self) -> bool:
        """Say whether there is no version of the message: then it is completed, by an earlier try or by another."""
        place = self._subjects.place(self._held.subject)
        for lane in MessageLane:
            pattern = self._subjects.numbered(lane, place.key, place.number)
            found = await self._connection.last(self._subjects.stream, pattern)
            if found is not None and GONE not in found.headers:
                return False
        return True
