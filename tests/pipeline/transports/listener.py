# SPDX-License-Identifier: MIT
"""A server for tests that leaves nothing open."""

import asyncio
from contextlib import suppress


class Listener:
    """Serves connections until it is stopped; then it ends all of them.

    Args:
        serve: takes a reader and a writer, as ``asyncio.start_server`` has it.
    """

    def __init__(self, serve):
        self._serve = serve
        self._server = None
        self._tasks = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._run, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for each in self._tasks:
            each.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def say_nothing(reader, _writer):
    """Serve a connection as a machine does that hangs."""
    await reader.read()
