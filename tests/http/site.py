# SPDX-License-Identifier: MIT
"""A real server with receivers, real destinations, and clients that write bytes as they like."""

import asyncio
import json
from contextlib import suppress
from types import SimpleNamespace

from redrive.clock import pause, system_clock
from redrive.http import SharedHttpServer
from redrive.routes.ack_tree import Ack
from redrive.routes.receivers.http import HttpReceiver
from tests.patience import PATIENCE_S


async def until(holds):
    """Wait for what another task does."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await pause(system_clock, 0.001)


class GatedIntake:
    """An intake that answers as its test says, and not before the gate is open."""

    def __init__(self):
        self.begun = []
        self.accepted = []
        self.answer = Ack()
        self.error = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def accept(self, message, *, settle=()):
        assert not settle
        self.begun.append(message)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.accepted.append(message)
        return self.answer


class Site:
    """A server, and the receivers that run at it."""

    def __init__(self, clock=system_clock, **limits):
        self.server = SharedHttpServer("127.0.0.1:0", clock, **limits)
        self.tasks = []
        self.intakes = []

    async def run(self, intake, **settings):
        """Run a receiver; it is at work when this returns."""
        receiver = HttpReceiver(**{"path": "/in"} | settings)
        task = asyncio.create_task(receiver.open(SimpleNamespace(http=self.server)).run(intake))
        self.tasks.append(task)
        self.intakes.append(intake)
        await asyncio.wait({task}, timeout=0)
        if task.done():
            task.result()
        return task

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.port}"

    async def connect(self):
        return Wire(*await asyncio.open_connection("127.0.0.1", self.server.port))

    async def ask(self, raw):
        """Send bytes on a connection of their own; return status, headers and body of the answer."""
        wire = await self.connect()
        wire.write(raw)
        try:
            return await wire.answer()
        finally:
            wire.close()

    async def close(self):
        for intake in self.intakes:
            intake.gate.set()  # a test that failed may have left it closed, and what has begun is waited for
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.server.close()


class Wire:
    """A connection."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    def write(self, raw):
        self.writer.write(raw)

    async def answer(self):
        """Return status, headers and body of the next answer."""
        async with asyncio.timeout(PATIENCE_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
            if "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            else:
                body = await self.reader.read()
        status = int(head[0].split(" ")[1])
        is_json = headers.get("content-type") == "application/json"
        return status, headers, json.loads(body) if is_json and body else body

    async def end(self):
        """Return what comes before the server closes the connection."""
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionResetError):
                return await self.reader.read()
        return b""

    def close(self):
        self.writer.close()

    def reset(self):
        """End it at once, as when a client is killed."""
        self.writer.transport.abort()


def post(body=b"{}", path="/in", method="POST", **headers):
    """Return the bytes of a request; a header whose value is None is left out."""
    lines = {"host": "localhost", "content-type": "application/json", "content-length": str(len(body))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    return f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode("latin-1") + body


class Destination:
    """A server that answers each request with the bytes that its test says, and notes the requests.

    Attributes:
        greeting: bytes to be sent before any request.
        reply: bytes to be sent, or a function of the writer that sends them.
        requests: pairs of headers and body.
        connections: how many there were.
    """

    def __init__(self):
        self.greeting = b""
        self.reply = answer_bytes(200)
        self.requests = []
        self.connections = 0
        self._server = None

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        self._server.close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook"

    async def _serve(self, reader, writer):
        self.connections += 1
        writer.write(self.greeting)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.requests.append((headers | {":line": head[0]}, body))
                if callable(self.reply):
                    await self.reply(writer)
                    break
                writer.write(self.reply)
                await writer.drain()
        writer.close()


def answer_bytes(status, body=b"", **headers):
    """Return the bytes of an answer."""
    lines = {"content-length": str(len(body))} | {name.replace("_", "-"): value for name, value in headers.items()}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Whatever\r\n{text}\r\n".encode() + body
