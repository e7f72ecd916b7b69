"""Clients of the server that cost little: they run on its cores, and those of people would not.

Requests are put together once, and of an answer no more is read than its status, its length and its tag.
"""

import asyncio
import json
import re
from functools import cache

from server_process import HOST

RECENT = b"cache-control: max-age=1\r\n"
PAGE = b"accept: text/html\r\n"
FRAGMENT = PAGE + b"redrive-fragment: 1\r\n"
LENGTH = re.compile(rb"\ncontent-length: (\d+)", re.IGNORECASE)
TAG = re.compile(rb"\netag: ([^\r]+)", re.IGNORECASE)


@cache
def question(path, more):
    """Return a request, but for the end of its headers."""
    return f"GET {path} HTTP/1.1\r\nhost: {HOST}\r\naccept-encoding: gzip\r\n".encode() + more


class Connection(asyncio.Protocol):
    """One connection that is kept, for one request after the other. As a page does, it remembers the tags of answers.

    Args:
        server: where to.
    """

    def __init__(self, server):
        self._server = server
        self._tags = {}
        self._ended = asyncio.Event()
        self._got = b""
        self._waiting = None
        self._hear = None

    async def __aenter__(self):
        """Connect."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: self, HOST, self._server.port)
        return self

    async def __aexit__(self, *_):
        """Disconnect."""
        self._transport.close()
        await self._ended.wait()

    def connection_made(self, _transport):
        """Begin anew. Not before: whoever leaves would wait for the end of a connection that was refused."""
        self._ended.clear()
        self._got = b""

    def data_received(self, data):
        """Take what comes: events of a stream, or a part of an answer."""
        if self._hear is not None:
            self._hear(data.count(b"data:"))  # the server sends each event in one piece
            return
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if end and len(body) >= (int(length[1]) if length else 0) and self._waiting is not None:
            self._got = b""
            waiting, self._waiting = self._waiting, None
            if not waiting.done():
                waiting.set_result((head, body))

    def connection_lost(self, _error):
        """Say so to who waits for an answer, or listens."""
        self._ended.set()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(asyncio.IncompleteReadError(self._got, None))

    async def get(self, path, *, fresh=False):
        """Ask for a path under ``/api/v1``; return status and body.

        An answer of the last second will do, and one that is known already need not be sent again; not so if ``fresh``.
        """
        return await self._ask(f"/api/v1{path}", b"" if fresh else RECENT, fresh=fresh)

    async def page(self, path):
        """Ask for a page of the console, as a browser does at first; return status and body."""
        return await self._ask(path, PAGE, fresh=True)

    async def fragment(self, path):
        """Ask for what has changed on a page, as the console does when it hears of a change; return status and body."""
        return await self._ask(path, FRAGMENT, fresh=False)

    async def post(self, path, value):
        """Post a value as JSON; return status and what is answered."""
        body = json.dumps(value)
        head = f"POST /api/v1{path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n"
        head, answer = await self._answer_to(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        return _status(head), json.loads(answer)

    async def stream(self, path, seen, changed=None):
        """Listen to a stream until cancelled; count in ``seen`` what comes, and set the event ``changed``."""

        def hear(events):
            seen["events"] += events
            if events and changed is not None:
                changed.set()

        self._hear = hear
        self._transport.write(question(f"/api/v1{path}", b"accept: text/event-stream\r\n") + b"\r\n")
        await self._ended.wait()
        seen["ended"] += 1

    async def _ask(self, path, more, *, fresh):
        tag = None if fresh else self._tags.get(path)
        known = b"if-none-match: %b\r\n\r\n" % tag if tag else b"\r\n"
        head, body = await self._answer_again_to(question(path, more) + known)
        if not fresh and (found := TAG.search(head)):
            self._tags[path] = found[1]
        return _status(head), body

    async def _answer_again_to(self, asked):
        """Ask; once more on a new connection if the server has closed this one, since nothing was asked for long."""
        if not self._ended.is_set():
            try:
                return await self._answer_to(asked)
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    raise
        await self.__aenter__()
        return await self._answer_to(asked)

    async def _answer_to(self, asked):
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(asked)
        return await self._waiting


def _status(head):
    return int(head[9:12])
