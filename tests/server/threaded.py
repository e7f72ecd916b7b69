# SPDX-License-Identifier: MIT
"""A server in a thread with a loop of its own, for tests that call it from elsewhere; still without a socket."""

import asyncio
import threading
from contextlib import AsyncExitStack, contextmanager

from redrive import connect, open_recovery
from redrive.server import ServerSettings, create_app, open_desk
from tests.patience import PATIENCE_S


@contextmanager
def running_desk(url):
    """Open a desk in a thread; yield it, and what runs a coroutine there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="desk", daemon=True)
    thread.start()

    def run(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE_S)

    stack = AsyncExitStack()

    async def begin():
        broker = await stack.enter_async_context(connect(url))
        return await stack.enter_async_context(open_desk(broker, open_recovery(broker)))

    try:
        yield run(begin()), run
    finally:
        run(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


def app_of(desk, run, door=None):
    """Return an ASGI app that can be called from any loop: each request runs in that of the desk."""
    inner = create_app(desk, ServerSettings(hosts=("localhost", "testserver")), door)

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        message, body = await receive(), b""
        while message["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
            message = await receive()
        for sent in await asyncio.get_running_loop().run_in_executor(None, run, _answer(inner, scope, body)):
            await send(sent)

    return app


async def _answer(inner, scope, body):
    """Return everything that an app sends for a request."""
    sent, asked = [], [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        if not asked:
            await asyncio.Event().wait()  # the client stays
        return asked.pop()

    async def send(message):
        sent.append(message)

    try:
        await inner(dict(scope), receive, send)
    except Exception:  # the framework raises what it has answered with 500
        if not sent:
            raise
    return sent
