"""A server in a process of its own, and clients of it that cost little, so that the server is what is measured."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

HOST = "127.0.0.1"
GET = "GET {path} HTTP/1.1\r\nhost: {host}\r\naccept-encoding: gzip\r\n{more}\r\n"


class ServerEnded(RuntimeError):
    """The server has ended, or did not begin."""


class Server:
    """``redrive serve``, with the processes that it starts.

    Args:
        url: its database.
        folder: where its log goes.
        switches: more of its command line.

    Attributes:
        port: where it listens.
    """

    def __init__(self, url, folder, switches):
        self._url = url
        self._folder = folder
        self._switches = switches
        self.port = 0

    def start(self):
        """Start it, at the port that it had before, and wait until it can use its database."""
        command = [sys.executable, "-m", "redrive.cli", "serve", "--listen", f"{HOST}:{self.port}", *self._switches]
        log = Path(self._folder) / "serve.log"
        with log.open("w", encoding="utf-8") as out:
            self._process = subprocess.Popen(  # noqa: S603 - our own
                command, stdout=out, stderr=out, env={**os.environ, "REDRIVE_URL": self._url}, cwd=self._folder
            )
        self.port = _port(self._process, log)
        _wait_until_ready(self)

    def stop(self):
        """Stop it; it must end well."""
        self._process.terminate()
        if code := self._process.wait(60):
            log = Path(self._folder) / "serve.log"
            raise ServerEnded(f"the server has ended with {code}: {log.read_text(encoding='utf-8')[-2000:]}")

    @property
    def memory_mb(self):
        """The memory of its processes now, in megabytes."""
        return sum(_memory_mb(each) for each in self._processes())

    @property
    def cpu_s(self):
        """The CPU time that its processes have used, in seconds."""
        return sum(_cpu_s(each) for each in self._processes())

    def _processes(self):
        """Return the process that answers, and the one that does the work if there is one."""
        if (code := self._process.poll()) is not None:
            raise ServerEnded(f"the server has ended with {code}")
        pid = self._process.pid
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [pid, *(int(each) for task in tasks for each in (task / "children").read_text().split())]


def _memory_mb(process):
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _cpu_s(process):
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_serve(url, folder, *switches):
    """Start ``redrive serve`` on a database, and stop it; it must end well."""
    server = Server(url, folder, switches)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _port(process, log):
    """Wait until the server says where it listens."""
    while process.poll() is None:
        if found := re.search(rf"http://{HOST}:(\d+)", log.read_text(encoding="utf-8")):
            return int(found[1])
        time.sleep(0.02)
    raise ServerEnded(f"the server has ended with {process.returncode}: {log.read_text(encoding='utf-8')[-2000:]}")


def _wait_until_ready(server):
    """Wait until the server can use its database."""
    while True:
        try:
            with urlopen(f"http://{HOST}:{server.port}/ready"):
                return
        except HTTPError:  # not yet: 503
            time.sleep(0.02)


class Connection:
    """One connection that is kept, for one request after the other. As a page does, it remembers the tags of answers.

    Args:
        server: where to.
    """

    def __init__(self, server):
        self._server = server
        self._tags = {}

    async def __aenter__(self):
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(HOST, self._server.port)
        return self

    async def __aexit__(self, *_):
        """Disconnect."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def get(self, path, *, fresh=False):
        """Ask for a path under ``/api/v1``; return status and body.

        An answer of the last second will do, and one that is known already need not be sent again; not so if ``fresh``.
        """
        return await self._ask(f"/api/v1{path}", "" if fresh else "cache-control: max-age=1\r\n", fresh=fresh)

    async def page(self, path):
        """Ask for a page of the console, as a browser does at first; return status and body."""
        return await self._ask(path, "accept: text/html\r\n", fresh=True)

    async def fragment(self, path):
        """Ask for what has changed on a page, as the console does when it hears of a change; return status and body."""
        return await self._ask(path, "accept: text/html\r\nredrive-fragment: 1\r\n", fresh=False)

    async def post(self, path, value):
        """Post a value as JSON; return status and what is answered."""
        body = json.dumps(value)
        head = f"POST /api/v1{path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n"
        await self._send(f"{head}content-length: {len(body)}\r\n\r\n{body}")
        status, _, answer = await self._answer()
        return status, json.loads(answer)

    async def stream(self, path, seen, changed=None):
        """Listen to a stream until cancelled; count in ``seen`` what comes, and set the event ``changed``."""
        await self._send(GET.format(path=f"/api/v1{path}", host=HOST, more="accept: text/event-stream\r\n"))
        while line := await self._reader.readline():
            if line.startswith(b"data:"):
                seen["events"] += 1
                if changed is not None:
                    changed.set()
        seen["ended"] += 1

    async def _ask(self, path, more, *, fresh):
        tag = None if fresh else self._tags.get(path)
        more += f"if-none-match: {tag}\r\n" if tag else ""
        status, headers, body = await self._answer_to(GET.format(path=path, host=HOST, more=more))
        if "etag" in headers:
            self._tags[path] = headers["etag"]
        return status, body

    async def _answer_to(self, question):
        """Ask; once more on a new connection if the server has closed this one, since nothing was asked for long."""
        await self._send(question)
        try:
            return await self._answer()
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise
        await self.__aenter__()
        await self._send(question)
        return await self._answer()

    async def _send(self, text):
        self._writer.write(text.encode())
        await self._writer.drain()

    async def _answer(self):
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return int(first.split()[1]), headers, body
