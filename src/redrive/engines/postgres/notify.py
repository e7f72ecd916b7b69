# SPDX-License-Identifier: MIT
"""Notifies other processes that a message is ready, and receives their notifications.

Notifications are only hints: when one is lost, the receiver finds the message when it looks again. They are sent
outside of the transactions they are about, and at most every 50 ms, since a NOTIFY in every transaction makes all
commits of a server wait for one another.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable

from redrive.background import KeepGoing
from redrive.clock import pause, system_clock
from redrive.engines.postgres.connections import Connections
from redrive.engines.postgres.driver import Connection
from redrive.engines.postgres.errors import Trouble
from redrive.errors import RedriveError

_EVERY_S = 0.05
_AGAIN_S = 1.0
_HEARD_WITHIN_S = 5.0
_logger = logging.getLogger("redrive.postgres")


class Listener:
    """One connection that listens, as soon as a receiver in this process waits.

    Args:
        database: where.
        hear: is called with the names of queues in which another process has made a message ready.
    """

    def __init__(self, database: Connections, hear: Callable[[Iterable[str]], None]) -> None:
        self._database = database
        self._hear = hear
        # a channel is an identifier, and one may be too long for what it is derived from
        self.channel = "redrive_" + hashlib.blake2s(database.schema.encode(), digest_size=8).hexdigest()
        self._dirty: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()
        self._is_silent = False

    def tell(self, queues: Iterable[str]) -> None:
        """Tell other processes, soon."""
        self._dirty.update(queues)
        if self._dirty and self._telling is None:
            self._telling = asyncio.create_task(self._tell(), name="redrive-postgres-notify")

    def listen(self) -> None:
        """Hear what other processes tell, from now on."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="redrive-postgres-listen")

    async def close(self) -> None:
        """Stop."""
        for task in (self._telling, self._listening):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._telling = self._listening = None
        self._heard = asyncio.Event()  # it belongs to an event loop, and the engine may be opened again in another one

    async def _tell(self) -> None:
        try:
            while self._dirty:
                dirty, self._dirty = self._dirty, set()
                async with self._database.connection() as connection:
                    await connection.execute(
                        "SELECT pg_notify($1, q) FROM unnest($2::text[]) q", self.channel, [*dirty]
                    )
                await pause(system_clock, _EVERY_S)
        except RedriveError as error:
            _logger.debug(
                "other processes were not notified of new messages, and find them when they look again: %s", error
            )
        finally:
            self._telling = None

    async def _listen(self) -> None:
        """Listen, and begin again when the connection is lost."""
        # What is wrong with the database is reported by the broker's next call.
        keep_going = KeepGoing(_logger, "listening failed", level=logging.DEBUG)
        while True:
            with keep_going:
                connection = await self._database.connect_alone()
                try:
                    await self._listen_on(connection)
                except Trouble as error:
                    _logger.debug("the listening connection was lost: %s", error)
                finally:
                    connection.terminate()
            await pause(system_clock, _AGAIN_S if keep_going.has_failed else _EVERY_S)

    async def _listen_on(self, connection: Connection) -> None:
        ended = asyncio.Event()

        def end(_connection: object) -> None:
            ended.set()

        connection.add_termination_listener(end)
        await connection.add_listener(self.channel, self._on_notification)
        self._heard.clear()
        await connection.execute("SELECT pg_notify($1, '')", self.channel)  # do we hear ourselves?
        try:
            async with asyncio.timeout(_HEARD_WITHIN_S):  # wait_for may lose a cancellation, in Python 3.11
                await self._heard.wait()
            self._is_silent = False
        except TimeoutError:
            if not self._is_silent:
                self._is_silent = True
                _logger.warning("LISTEN does not work on this connection (PgBouncer?); messages are looked for instead")
        await ended.wait()

    def _on_notification(self, _connection: object, _pid: int, _channel: str, queue: str) -> None:
        self._heard.set()
        if queue:
            self._hear([queue])
