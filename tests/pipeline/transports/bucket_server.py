# SPDX-License-Identifier: MIT
"""A real S3 server, and a wire to it that loses requests and answers as its test says."""

import asyncio
import re

from tests.pipeline.transports.listener import Listener

FAULTS = ("drop_on_connect", "drop_before", "hang_before", "drop_after", "hang_after", "half_answer")
ARRIVED = ("drop_after", "hang_after", "half_answer")
"""Faults after which the server has the request."""


class Wire:
    """Hands requests on to a server, one for each connection.

    Attributes:
        fault: what happens to the next request of the method ``on``; None: it is answered.
        answer: bytes to be sent instead of what the server says.
        requests: the first line of every request that the server got.
        has_failed: set when the fault has happened.
    """

    def __init__(self, host, port):
        self._there = (host, port)
        self.on = "PUT"
        self.fault = None
        self.answer = None
        self.requests = []
        self.has_failed = asyncio.Event()
        self._listener = Listener(self._hand_on)

    async def __aenter__(self):
        self.url = f"http://127.0.0.1:{(await self._listener.__aenter__()).port}"
        return self

    async def __aexit__(self, *_):
        await self._listener.__aexit__()

    async def _hand_on(self, reader, writer):
        if self.fault == "drop_on_connect":
            self.fault = None
            self.has_failed.set()
            return
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1]) if length else 0)
        fault = None
        if head.startswith(self.on.encode()):
            fault, self.fault = self.fault, None
            answer, self.answer = self.answer, None
            if answer is not None:
                writer.write(answer)
                await writer.drain()
                return
        await self._fail(fault, "before", reader)
        if fault == "drop_before":
            return
        said = await self._asked(head, body)
        await self._fail(fault, "after", reader)
        writer.write({"drop_after": b"", "half_answer": said[:20]}.get(fault, said))
        await writer.drain()

    async def _fail(self, fault, when, reader):
        if fault == f"hang_{when}":
            self.has_failed.set()
            await reader.read()  # until the client goes
            raise ConnectionResetError
        if fault is not None and (when == "after" or fault == "drop_before"):
            self.has_failed.set()

    async def _asked(self, head, body):
        self.requests.append(head.split(b"\r\n")[0].decode())
        reader, writer = await asyncio.open_connection(*self._there)
        writer.write(head.replace(b"\r\n", b"\r\nconnection: close\r\n", 1) + body)
        try:
            return await reader.read()
        finally:
            writer.close()
