# SPDX-License-Identifier: MIT
"""The queues behind a server, as a command uses them: the methods of ``Broker`` that the API has."""

from collections.abc import Sequence
from typing import Any, NoReturn

from redrive.broker import Message, QueueInfo, Received, Resubmitted, State, TopicInfo
from redrive.broker.views import View, message_view
from redrive.clock import Clock, system_clock
from redrive.errors import NotSupported
from redrive.remote.connection import ServerConnection, quoted
from redrive.remote.records import received, record, records, resubmitted

WITHOUT_DATABASE = "a server"
"""What errors call it."""


class RemoteBroker:
    """The queues behind a server.

    Args:
        server: the server.
        clock: measures how long something takes.

    Attributes:
        server: the server.
        clock: the clock.
    """

    def __init__(self, server: ServerConnection, clock: Clock = system_clock) -> None:
        self.server = self._server = server
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

    async def topics(self) -> list[TopicInfo]:
        """Return all topics."""
        return records(TopicInfo, await self._server.get("/topics"))

    # --- messages

    async def send_all(self, queue: str, messages: Sequence[Message], delay: float | None) -> View:
        """Send messages, all or none; return how many, and the first and the last number."""
        body = {"messages": [message_view(each) for each in messages], "delay": delay or 0.0}
        answer: View = await self._server.send("POST", f"/queues/{quoted(queue)}/messages", body)
        return answer

    async def peek(
        self, queue: str, *, max_messages: int = 100, start: int = 0, states: Sequence[State] | None = None
    ) -> list[Received]:
        """Look at messages without receiving them."""
        words = [each.name.lower() for each in states or ()] or None
        path = f"/queues/{quoted(queue)}/messages"
        found = await self._server.some(path, max_messages, start=start or None, state=words)
        return [received(each) for each in found]

    async def cancel(self, queue: str, sequence: int) -> None:
        """Remove a scheduled message before its time."""
        await self._server.send("DELETE", f"/queues/{quoted(queue)}/messages/{sequence}")

    async def purge(self, queue: str, *, sequences: Sequence[int] | None = None, on_progress: object = None) -> int:
        """Remove every message that can be received now, or dead letters by their numbers; return how many."""
        body = None if sequences is None else {"sequences": list(sequences)}
        removed: int = (await self._server.send("POST", f"/queues/{quoted(queue)}/purge", body))["removed"]
        return removed

    async def resubmit(
        self,
        queue: str,
        *,
        max_messages: int | None = None,
        sequences: Sequence[int] | None = None,
        on_progress: object = None,
    ) -> Resubmitted:
        """Send the dead letters of a queue to it again."""
        path = f"/queues/{quoted(queue)}/resubmit"
        body = {"max_messages": max_messages, "sequences": None if sequences is None else list(sequences)}
        return resubmitted(await self._server.send("POST", path, body))
