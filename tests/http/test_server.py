# SPDX-License-Identifier: MIT
"""The server: its paths, its beginning and its end."""

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from redrive.errors import InvalidSetting, MissingExtra
from redrive.http import SharedHttpServer
from redrive.http.listener import bound_socket
from tests.http.site import GatedIntake, post, until

ROOT = Path(__file__).parents[2]


async def test_paths_come_and_go(site, intake):
    first = await site.run(intake, path="/one")
    other = GatedIntake()
    await site.run(other, path="/two")
    assert (await site.ask(post(path="/one")))[0] == 202
    assert (await site.ask(post(path="/two?x=1")))[0] == 202
    assert (len(intake.accepted), len(other.accepted)) == (1, 1)
    first.cancel()
    await asyncio.wait({first})
    status, headers, _ = await site.ask(post(path="/one"))
    assert (status, headers["retry-after"]) == (503, "5")  # not 404: the client must not throw its event away
    assert (await site.ask(post(path="/two")))[0] == 202
    await site.run(intake, path="/one")
    assert (await site.ask(post(path="/one")))[0] == 202


async def test_answers_are_sent_at_once():
    accepted = asyncio.Queue()
    with bound_socket("127.0.0.1:0", "127.0.0.1", 0) as listener:
        server = await asyncio.start_server(lambda _, writer: accepted.put_nowait(writer), sock=listener)
        _, client = await asyncio.open_connection(*listener.getsockname())
        writer = await accepted.get()
        # otherwise the body of an answer waits 40 ms for the acknowledgement of its headers
        assert writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for each in (client, writer, server):
            each.close()


async def test_an_unknown_path(site, intake):
    await site.run(intake)
    for path in ("/", "/other", "/in/", "/IN", "/in/../in", "//in", "*"):
        status, _, body = await site.ask(post(path=path))
        assert (status, body["error"]) == (404, "unknown-path")
        assert "/in" not in body["detail"]  # the paths of others are not listed


async def test_a_wrong_method(site, intake):
    await site.run(intake, methods=["POST", "PUT"])
    for method in ("GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW", "post"):
        wire = await site.connect()
        wire.write(post(b"", method=method))
        head = await wire.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 405")
        assert b"allow: POST, PUT" in head
        wire.close()
    assert not intake.begun


async def test_health(site, intake):
    await site.run(intake)
    assert (await site.ask(post(b"", "/-/health", "GET")))[::2] == (200, {"status": "ok"})
    assert (await site.ask(post(b"", "/-/health")))[0] == 405


async def test_no_two_receivers_have_one_path(site, intake):
    await site.run(intake)
    with pytest.raises(InvalidSetting, match="no other receiver"):
        await site.run(intake)


async def test_a_taken_address_is_named(site, intake):
    await site.run(intake)
    second = SharedHttpServer(f"127.0.0.1:{site.server.port}")
    with pytest.raises(InvalidSetting, match=f"listen='127.0.0.1:{site.server.port}'.*no program listens"):
        await second.serve("/", ("POST",), intake.accept, 10)
    await second.close()


@pytest.mark.parametrize("listen", ["", "8080", "localhost", "localhost:x", "localhost:99999", "a:1/x", "u@a:1", None])
def test_a_wrong_address_is_refused(listen):
    with pytest.raises(InvalidSetting):
        SharedHttpServer(listen)


async def test_a_server_that_was_never_used_is_closed():
    await SharedHttpServer().close()


async def test_without_uvicorn_the_extra_is_named(monkeypatch, site, intake):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtra, match=r"redrive\[routes\]"):
        await site.run(intake)


async def test_signals_are_left_alone(site, intake):
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    await site.run(intake)
    assert (await site.ask(post()))[0] == 202
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_nothing_is_printed():
    # in a process of its own: pytest's handlers keep Python from printing what has none
    code = """
import asyncio
from tests.http.site import GatedIntake, Site, post

async def main():
    site = Site()
    await site.run(GatedIntake())
    assert (await site.ask(post()))[0] == 202
    assert (await site.ask(b"garbage\\r\\n\\r\\n"))[0] == 400
    await site.close()

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


async def test_a_receiver_that_ends_answers_what_has_begun(site, intake):
    intake.gate.clear()
    task = await site.run(intake)
    wire = await site.connect()
    wire.write(post(idempotency_key="o-7"))
    await until(lambda: intake.begun)
    task.cancel()
    while (await site.ask(post()))[0] != 503:  # from now on nothing is begun
        pass
    assert not task.done()
    intake.gate.set()
    assert (await wire.answer())[2] == {"id": "o-7"}
    await asyncio.wait({task})
    assert task.cancelled()
    wire.close()


async def test_a_new_receiver_may_begin_while_the_earlier_one_ends(site, intake):
    intake.gate.clear()
    earlier = await site.run(intake)
    wire = await site.connect()
    wire.write(post(idempotency_key="o-7"))
    await until(lambda: intake.begun)
    earlier.cancel()
    await asyncio.wait({earlier}, timeout=0)
    later = GatedIntake()
    await site.run(later)
    assert (await site.ask(post()))[0] == 202
    intake.gate.set()
    assert (await wire.answer())[2] == {"id": "o-7"}
    await asyncio.wait({earlier})
    assert (await site.ask(post()))[0] == 202
    assert len(later.accepted) == 2
    wire.close()


async def test_a_server_that_closes_answers_what_has_begun(site, intake):
    intake.gate.clear()
    task = await site.run(intake)
    wire, idle = await site.connect(), await site.connect()
    wire.write(post(idempotency_key="o-7"))
    await until(lambda: intake.begun)
    closing = asyncio.create_task(site.server.close())
    assert await idle.end() == b""
    assert not closing.done()
    intake.gate.set()
    assert (await wire.answer())[2] == {"id": "o-7"}
    await closing
    await task  # it has nothing to wait for
    with pytest.raises(OSError, match=str(site.server.port)):
        await site.connect()
    for each in (wire, idle):
        each.close()


async def test_more_requests_than_allowed_come_back_later(small_site, intake):
    await small_site.run(intake)
    intake.gate.clear()
    wires = [await small_site.connect() for _ in range(2)]
    for wire in wires:
        wire.write(post())
    await until(lambda: len(intake.begun) == 2)
    status, headers, _ = await small_site.ask(post())
    assert (status, headers["retry-after"]) == (503, "5")
    assert (await small_site.ask(post(b"", "/-/health", "GET")))[0] == 200
    intake.gate.set()
    assert [(await wire.answer())[0] for wire in wires] == [202, 202]
    assert (await small_site.ask(post()))[0] == 202
    assert len(intake.begun) == 3
    for wire in wires:
        wire.close()
