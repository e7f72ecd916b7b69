# SPDX-License-Identifier: MIT
"""The queues behind a server, as a command uses them: the methods of ``Broker`` that the API has."""

from typing import Any, NoReturn

from redrive.broker import QueueInfo
from redrive.clock import Clock, system_clock
from redrive.errors import NotSupported
from redrive.remote.connection import ServerConnection, quoted
from redrive.remote.records import record, records

WITHOUT_DATABASE = "a server"
"""What errors call it."""


class RemoteBroker:
    """The queues behind a server.

    Args:
        server: the server.
        clock: measures how long something takes.
    """

    def __init__(self, server: ServerConnection, clock: Clock = system_clock) -> None:
        self._server = server
        self.clock = clock

    def __getattr__(self, name: str) -> NoReturn:
        # what a command needs, and the API does not have, is refused in words, not as an error of Python
        raise NotSupported(WITHOUT_DATABASE, f"this command ({name}); give the URL of the database: --url")

    async def queues(self) -> list[QueueInfo]:
        """Return all queues."""
        return records(QueueInfo, await self._server.get("/queues", all=True))

    async def inspect(self, queue: str) -> QueueInfo:
        """Return a queue."""
        return record(QueueInfo, await self._server.get(f"/queues/{quoted(queue)}"))

    async def declare(self, queue: str, **settings: Any) -> None:
        """Create a queue; one that is there must have these settings."""
        await self._server.send("PUT", f"/queues/{quoted(queue)}", settings)

    async def update(self, queue: str, **settings: Any) -> None:
        """Change settings of a queue."""
        await self._server.send("PATCH", f"/queues/{quoted(queue)}", settings)

    async def delete(self, queue: str) -> None:
        """Remove a queue, its dead-letter queue and all their messages."""
        await self._server.send("DELETE", f"/queues/{quoted(queue)}")
