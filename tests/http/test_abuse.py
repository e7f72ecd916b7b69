# SPDX-License-Identifier: MIT
"""Clients that do what clients do: too much, too slowly, half of it, or something else entirely."""

import asyncio
import gzip
import resource
import tracemalloc
import zlib
from contextlib import suppress

import pytest

from tests.http.site import post, until

LIMIT = 1_048_576
CHUNKED = {"content_length": None, "transfer_encoding": "chunked"}


def chunks(body, size=65_536):
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


async def is_well(site, intake):
    """Say whether a usual client is answered, and got through."""
    before = len(intake.accepted)
    status, _, _ = await site.ask(post(b'{"usual": true}'))
    return status == 202 and len(intake.accepted) == before + 1


# --- size


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("over", [0, 1])
async def test_the_limit_is_exact(site, intake, framing, over):
    await site.run(intake, max_bytes=100_000)
    body = b'"%s"' % (b"x" * (99_998 + over))
    raw = post(body) if framing == "length" else post(**CHUNKED)[:-2] + chunks(body, 1_000)
    status, _, answer = await site.ask(raw)
    assert status == (413 if over else 202)
    assert len(intake.begun) == 1 - over
    if over:
        assert "100,000" in answer["detail"]


async def test_a_large_body_is_refused_before_it_is_sent(site, intake):
    await site.run(intake)
    status, _, _ = await site.ask(post(b"", content_length=str(10 << 20)))
    assert status == 413


async def test_a_client_that_asks_first_is_refused_first(site, intake):
    await site.run(intake)
    wire = await site.connect()
    wire.write(post(b"", content_length=str(10 << 20), expect="100-continue"))
    status, headers, _ = await wire.answer()
    assert (status, headers["connection"]) == (413, "close")
    assert await wire.end() == b""
    wire.write(b"x")
    wire.close()


async def test_a_client_that_asks_first_may_go_on(site, intake):
    await site.run(intake)
    wire = await site.connect()
    wire.write(post(b"{}", expect="100-continue")[:-2])
    assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
    wire.write(b"{}")
    assert (await wire.answer())[0] == 202
    wire.close()


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_memory_does_not_grow_with_what_is_sent(site, intake, framing):
    await site.run(intake)
    piece = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(5):
            wire = await site.connect()
            wire.write(post(b"", content_length=str(10 << 20)) if framing == "length" else post(**CHUNKED)[:-2])
            for _ in range(160):
                wire.write(piece if framing == "length" else b"%x\r\n%s\r\n" % (len(piece), piece))
                await wire.writer.drain()
            wire.write(b"" if framing == "length" else b"0\r\n\r\n")
            assert (await wire.answer())[0] == 413
            wire.write(post())  # the connection is as good as before
            assert (await wire.answer())[0] == 202
            wire.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * LIMIT
    assert len(intake.begun) == 5


# --- compression


PACKERS = [
    ("gzip", gzip.compress),
    ("GZIP", gzip.compress),
    ("x-gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("identity", bytes),
    ("", bytes),
    ("gzip", lambda body: gzip.compress(body[:3]) + gzip.compress(body[3:])),  # in two parts
]


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_compressed_bodies(site, intake, framing):
    await site.run(intake, max_bytes=5_000)
    body = b'"%s"' % (b"0123456789" * 499)
    for encoding, pack in PACKERS:
        packed = pack(body)
        raw = post(packed, content_encoding=encoding)
        if framing == "chunked":
            raw = post(content_encoding=encoding, **CHUNKED)[:-2] + chunks(packed, 7)
        assert (await site.ask(raw))[0] == 202
        assert intake.accepted.pop().body == body


@pytest.mark.parametrize("over", [0, 1])
async def test_the_limit_counts_what_was_decompressed(site, intake, over):
    await site.run(intake, max_bytes=5_000)
    packed = gzip.compress(b'"%s"' % (b"x" * (4_998 + over)))
    assert (await site.ask(post(packed, content_encoding="gzip")))[0] == (413 if over else 202)


BADLY_PACKED = [
    ("gzip", b"{}"),
    ("gzip", b""),
    ("gzip", gzip.compress(b"{}")[:-3]),
    ("gzip", gzip.compress(b"{}")[:-8] + b"\0" * 8),
    ("gzip", gzip.compress(b"{}") + b"more"),
    ("gzip", zlib.compress(b"{}")),
    ("deflate", gzip.compress(b"{}")),
    ("deflate", zlib.compress(b"{}")[:-1]),
]


async def test_bad_compression(site, intake):
    await site.run(intake)
    for encoding, body in BADLY_PACKED:
        status, _, answer = await site.ask(post(body, content_encoding=encoding))
        assert (status, answer["error"], body) == (400, "bad-compression", body)
    assert not intake.begun


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "nonsense"])
async def test_unknown_compression(site, intake, encoding):
    await site.run(intake)
    status, headers, _ = await site.ask(post(content_encoding=encoding))
    assert (status, headers["accept-encoding"]) == (415, "gzip, deflate")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_bomb_does_not_explode(site, intake, encoding):
    await site.run(intake)
    plain = b"\0" * (100 << 20)
    bomb = gzip.compress(plain, 9) if encoding == "gzip" else zlib.compress(plain, 9)
    del plain
    assert len(bomb) < LIMIT
    tracemalloc.start()
    try:
        assert (await site.ask(post(bomb, content_encoding=encoding)))[0] == 413
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * LIMIT
    assert await is_well(site, intake)


# --- time


async def test_a_slow_body_is_given_up(timed_site, clock, intake):
    await timed_site.run(intake)
    await until(lambda: clock.sleepers == 1)  # what looks after idle connections
    wire = await timed_site.connect()
    wire.write(post(b'{"half": ', content_length="1000"))
    await until(lambda: clock.sleepers == 2)
    clock.advance(29)
    assert await is_well(timed_site, intake)
    clock.advance(1)
    status, headers, _ = await wire.answer()
    assert (status, headers["connection"]) == (408, "close")
    assert await wire.end() == b""
    wire.close()
    assert len(intake.begun) == 1


async def test_connections_without_a_request_are_ended(timed_site, clock, intake):
    await timed_site.run(intake)
    silent, dripping, late = [await timed_site.connect() for _ in range(3)]
    dripping.write(b"POST /in HTTP/1.1\r\nhost: ")
    late.write(post())
    await late.answer()
    assert await is_well(timed_site, intake)
    for _ in range(2):
        await until(lambda: clock.sleepers == 1)
        dripping.write(b"x")
        clock.advance(30)
    for wire in (silent, dripping, late):
        assert await wire.end() == b""
        wire.close()
    assert await is_well(timed_site, intake)


async def test_a_request_that_is_being_answered_is_not_ended(timed_site, clock, intake):
    await timed_site.run(intake)
    intake.gate.clear()
    wire = await timed_site.connect()
    wire.write(post())
    await until(lambda: intake.begun)
    for _ in range(5):
        await until(lambda: clock.sleepers == 1)
        clock.advance(30)
    await until(lambda: clock.sleepers == 1)
    intake.gate.set()
    assert (await wire.answer())[0] == 202
    wire.close()


async def test_thousands_of_idle_connections(site, intake):
    wanted = 2_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * wanted + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"NOT TESTED: {needed} open files are needed, and this machine allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        await site.run(intake)
        wires = []
        for _ in range(wanted // 100):
            wires += await asyncio.gather(*(site.connect() for _ in range(100)))
        for wire in wires[::2]:
            wire.write(b"POST /in HTTP/1.1\r\n")
        assert await is_well(site, intake)
        for wire in wires:
            wire.close()
        assert await is_well(site, intake)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- half of it


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"POST",
        post()[:40],
        post(b'{"half": ', content_length="1000"),
        post(**CHUNKED)[:-2] + b"5\r\n[1,2]\r\n",  # all of its JSON is here, but not all of the request
        post(b"[1]", content_length="4"),
    ],
    ids=["nothing", "method", "head", "body", "chunks", "one byte"],
)
@pytest.mark.parametrize("is_reset", [True, False])
async def test_a_client_that_leaves_early(site, intake, raw, is_reset):
    await site.run(intake)
    for _ in range(20):
        wire = await site.connect()
        wire.write(raw)
        await wire.writer.drain()
        if is_reset:
            wire.reset()
        else:
            wire.close()
    assert await is_well(site, intake)
    assert len(intake.begun) == 1


async def test_an_event_whose_client_has_left_is_taken_all_the_same(site, intake):
    intake.gate.clear()
    await site.run(intake)
    wire = await site.connect()
    wire.write(post(idempotency_key="o-7"))
    await until(lambda: intake.begun)
    wire.reset()
    intake.gate.set()
    await until(lambda: intake.accepted)
    assert await is_well(site, intake)


# --- something else


NO_REQUESTS = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100 + b"\r\n\r\n",
    "zeros": b"\r\n" * 3 + b"\0\0\0\0\r\n\r\n",
    "method only": b"GET\r\n\r\n",
    "HTTP 9": b"POST /in HTTP/9.9\r\nhost: a\r\n\r\n",
    "HTTP 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no host": b"POST /in HTTP/1.1\r\n\r\n",
    "no colon": b"POST /in HTTP/1.1\r\nhost: a\r\n bad: folding\r\nno colon\r\n\r\n",
    "long header": b"POST /in HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 1_000_000 + b"\r\n\r\n",
    "long path": b"POST /" + b"i" * 1_000_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
    "negative length": post(content_length="-2"),
    "odd length": post(content_length="2x"),
    "signed length": post(content_length="+2"),
    "endless length": post(content_length="99999999999999999999999999"),
    "two lengths": post(content_length="2\r\ncontent-length: 3"),
    "two lengths in one": post(content_length="2, 3"),
    "length and chunks": post(transfer_encoding="chunked"),
    "gzip and chunks": post(content_length=None, transfer_encoding="gzip, chunked"),
    "chunks and more": post(content_length=None, transfer_encoding="chunked, identity"),
    "nearly chunked": post(content_length=None, transfer_encoding="xchunked"),
    "odd chunk": post(b"zz\r\n{}\r\n0\r\n\r\n", **CHUNKED),
    "zero in a header": post(x="a\0b"),
}


@pytest.mark.parametrize("raw", NO_REQUESTS.values(), ids=NO_REQUESTS)
async def test_what_is_no_request(site, intake, raw):
    await site.run(intake)
    wire = await site.connect()
    wire.write(raw + post(b'{"smuggled": true}'))
    with suppress(ConnectionError):  # what it has not read resets the connection, perhaps before its answer is here
        assert (await wire.answer())[0] in {400, 501, 505}
    wire.close()
    assert await is_well(site, intake)
    assert [message.body for message in intake.begun] == [b'{"usual": true}']


async def test_pipelined_requests_are_answered_in_order(site, intake):
    await site.run(intake)
    wire = await site.connect()
    wire.write(b"".join(post(idempotency_key=f"o-{number}") for number in range(50)))
    assert [(await wire.answer())[2]["id"] for _ in range(50)] == [f"o-{number}" for number in range(50)]
    wire.write(
        post(path="/other")
        + post(b"{")
        + post(method="GET", body=b"")
        + post(b"x" * 10, content_encoding="br")
        + post()
    )
    assert [(await wire.answer())[0] for _ in range(5)] == [404, 400, 405, 415, 202]
    wire.close()


async def test_a_pipeline_whose_client_reads_nothing(timed_site, intake):
    await timed_site.run(intake)
    wire = await timed_site.connect()
    wire.writer.transport.pause_reading()
    many = post(path="/other" + "x" * 100) * 2_000
    for _ in range(20):
        wire.write(many)
    assert await is_well(timed_site, intake)
    wire.reset()
    assert await is_well(timed_site, intake)


async def test_requests_for_websockets_are_requests(site, intake):
    await site.run(intake, methods=["GET"], json=False)
    raw = post(b"", method="GET", connection="upgrade", upgrade="websocket", sec_websocket_version="13")
    assert (await site.ask(raw))[0] == 202
