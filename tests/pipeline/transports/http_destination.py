# SPDX-License-Identifier: MIT
"""A real HTTP server that loses requests and answers as its test says."""

import asyncio

from tests.pipeline.transports.listener import Listener

FAULTS = (
    "drop_on_connect",
    "drop_in_head",
    "drop_in_body",
    "drop_before_processing",
    "hang_before_processing",
    "drop_after_processing",
    "hang_after_processing",
    "half_a_head",
    "half_an_answer",
    "no_http",
)
PROCESSED = ("drop_after_processing", "hang_after_processing", "half_a_head", "half_an_answer", "no_http")
"""Faults after which the destination has the request."""


class HttpDestination:
    """A server that keeps bodies by their Idempotency-Key, or every one of them.

    Attributes:
        fault: what happens to the next request; None: it is answered.
        status, headers, body: of the answer.
        has_failed: set when the fault has happened.
        processed: pairs of key and body.
        heads: the first line and the headers of every request.
    """

    def __init__(self, *, deduplicates=True):
        self.deduplicates = deduplicates
        self.fault = None
        self.status, self.headers, self.body = 201, {"Location": "/reports/7"}, b"thanks"
        self.has_failed = asyncio.Event()
        self.processed = []
        self.heads = []
        self.connections = 0
        self._listener = Listener(self._serve)

    async def __aenter__(self):
        self.port = (await self._listener.__aenter__()).port
        return self

    async def __aexit__(self, *_):
        await self._listener.__aexit__()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/reports"

    async def _serve(self, reader, writer):
        self.connections += 1
        fault = None
        try:
            while fault is None:  # a client may use it again
                fault, self.fault = self.fault, None
                await self._answer(fault, reader, writer)
        finally:
            if fault is not None:
                writer.transport.abort()
                self.has_failed.set()

    async def _answer(self, fault, reader, writer):
        if fault == "drop_on_connect":
            return
        if fault == "drop_in_head":
            await reader.readexactly(5)
            return
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        self.heads.append((head[0], headers))
        length = int(headers.get("content-length", "0"))
        if fault == "drop_in_body":
            await reader.readexactly(length // 2)
            return
        body = await reader.readexactly(length)
        if fault == "drop_before_processing":
            return
        if fault == "hang_before_processing":
            await self._hang(reader)
            return
        if head[0].startswith(("POST", "PUT")):
            self._process(headers.get("idempotency-key"), body)
        await self._reply(fault, reader, writer)

    async def _reply(self, fault, reader, writer):
        if fault == "hang_after_processing":
            await self._hang(reader)
        replies = {"drop_after_processing": b"", "half_a_head": b"HTTP/1.1 201 Cre", "no_http": b"SSH-2.0-x\r\n\r\n"}
        lines = {"content-length": str(len(self.body)), **self.headers}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        whole = f"HTTP/1.1 {self.status} Whatever\r\n{text}\r\n".encode() + self.body
        if fault == "half_an_answer":
            whole = whole[:-1]
        writer.write(replies.get(fault, whole) if fault != "hang_after_processing" else b"")
        await writer.drain()

    async def _hang(self, reader):
        self.has_failed.set()
        await reader.read()  # until the client goes

    def _process(self, key, body):
        if not self.deduplicates or key not in dict(self.processed):
            self.processed.append((key, body))
