# SPDX-License-Identifier: MIT
"""Stands between a program and its server, and cuts the connection at the worst moment.

A client speaks in flights: messages up to one that asks for an answer. The proxy counts them, over all connections,
and can cut at any of them, so that a test can try every moment there is.
"""

import asyncio
import shutil
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

from redrive.clock import system_clock

SOCKET = ".s.PGSQL.5432"
END_OF_FLIGHT = b"SQH"
READY = b"Z"

LOST = "lost"
"""The flight never reaches the server."""

UNANSWERED = "unanswered"
"""The server does all of it, and its answer is lost."""

ABANDONED = "abandoned"
"""The flight reaches the server; the client is cut off at once, and the server is left to work on it."""


class Proxy:
    """A socket of its own that leads to a server's. Use it in an ``async with`` block."""

    def __init__(self, server):
        self._server = server.folder
        self.folder = Path(tempfile.mkdtemp(prefix="rdp", dir="/tmp"))
        self._connections = set()
        self._cuts = []
        self._under_way = []
        self.has_cut = False
        """Whether it has cut wherever it was told to."""

    async def __aenter__(self):
        self._listener = await asyncio.start_unix_server(self._serve, self.folder / SOCKET)
        return self

    async def __aexit__(self, *_):
        self._listener.close()
        self.cut_all()
        if self._connections:
            await asyncio.wait(self._connections)
        await system_clock.sleep_async(0)  # transports close in the next turn of the loop
        shutil.rmtree(self.folder)

    def through(self, url):
        """Return the URL that leads through the proxy instead of directly."""
        return url.replace(str(self._server), str(self.folder))

    def cut_at(self, *cuts):
        """Cut that many flights from now, in that way; then that many from there, and so on."""
        self._cuts, self.has_cut = list(cuts), False

    async def settled(self):
        """Cut no more than until now, and wait until the server is done with what it was left with."""
        self._cuts = []
        while self._under_way:
            await self._under_way.pop().wait()

    def cut_all(self):
        """Cut every connection there is."""
        for connection in self._connections:
            connection.cancel()

    def _cut_here(self):
        """Count a flight; return how to cut at it, None if it passes."""
        if not self._cuts:
            return None
        (left, how), *more = self._cuts
        if left > 1:
            self._cuts[0] = (left - 1, how)
            return None
        self._cuts, self.has_cut = more, not more
        return how

    async def _serve(self, reader, writer):
        connection = asyncio.current_task()
        self._connections.add(connection)
        try:
            # cancelled by cut_all, closed by either side, or cut by itself: it is over
            with suppress(asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
                await self._carry(reader, writer)
        finally:
            self._connections.discard(connection)
            writer.transport.abort()

    async def _carry(self, reader, writer):
        server_reader, server_writer = await asyncio.open_unix_connection(self._server / SOCKET)
        try:
            await _Wire(self, reader, writer, server_reader, server_writer).carry()
        finally:
            server_writer.transport.abort()


class _Wire:
    """One connection through the proxy."""

    def __init__(self, proxy, reader, writer, server_reader, server_writer):
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._server_reader, self._server_writer = server_reader, server_writer
        self._is_muted = False
        self._is_over = asyncio.Event()

    async def carry(self):
        """Carry messages both ways until one side has ended or it has been cut."""
        both = {asyncio.ensure_future(self._to_server()), asyncio.ensure_future(self._to_client())}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            self._is_over.set()

    async def _to_server(self):
        (length,) = struct.unpack("!I", head := await self._reader.readexactly(4))
        self._server_writer.write(head + await self._reader.readexactly(length - 4))  # who it is, and what it wants
        flight = b""
        while True:
            kind, message = await _message(self._reader)
            flight += message
            if kind in END_OF_FLIGHT and (how := self._proxy._cut_here()) is not None:
                await self._cut(how, kind, flight)
                return
            if kind in END_OF_FLIGHT or kind in b"pX":
                self._server_writer.write(flight)
                flight = b""

    async def _cut(self, how, kind, flight):
        """End the connection at a flight."""
        self._proxy._under_way.append(self._is_over)
        if how == LOST:
            return
        self._is_muted = True
        self._server_writer.write(flight)
        if how == ABANDONED:
            self._writer.transport.abort()
        if kind != b"H":  # that one asks for an answer, but not for an end
            await asyncio.get_running_loop().create_future()  # until the server is done

    async def _to_client(self):
        while True:
            kind, message = await _message(self._server_reader)
            if not self._is_muted:
                self._writer.write(message)
            elif kind == READY:
                return


async def _message(reader):
    kind, length = struct.unpack("!cI", head := await reader.readexactly(5))
    return kind, head + await reader.readexactly(length - 4)
