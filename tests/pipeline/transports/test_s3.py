# SPDX-License-Identifier: MIT
"""The S3 transport, with a real server and a wire to it that fails at every step."""

import asyncio
import logging
import os
import socket

import obstore
import pytest
from moto.server import ThreadedMotoServer
from obstore.store import S3Store

from redrive.errors import InvalidSetting
from redrive.pipeline.shipment import DestinationAway, OutcomeUnknown, ShipmentDelayed, ShipmentRefused, ShipmentSent
from redrive.pipeline.transports.s3 import S3Transport
from redrive.testing import ManualClock
from tests.pipeline.transports.bucket_server import ARRIVED, FAULTS, Wire
from tests.pipeline.transports.shipments import BODY, check_truth, environment, shipment

KEY = "reports/lab/t-1-1"
CREDENTIALS = {"access_key_id": "id", "secret_access_key": "key", "region": "us-east-1"}


@pytest.fixture(scope="module")
def server():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()
    server.stop()


class Bucket:
    """A bucket for one test, without the wire."""

    def __init__(self, server, name):
        self.name = name
        url = f"http://{server[0]}:{server[1]}"
        self.store = S3Store(
            name, endpoint=url, client_options={"allow_http": True}, virtual_hosted_style_request=False, **CREDENTIALS
        )

    @property
    def objects(self):
        listed = [each["path"] for page in obstore.list(self.store) for each in page]
        return {path: bytes(obstore.get(self.store, path).bytes()) for path in listed}

    def put(self, key, body):
        obstore.put(self.store, key, body)


@pytest.fixture
async def bucket(server, tmp_path):
    name = f"b{abs(hash(str(tmp_path)))}"
    reader, writer = await asyncio.open_connection(*server)
    writer.write(
        f"PUT /{name} HTTP/1.1\r\nhost: {server[0]}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()
    )
    assert b" 200 " in (await reader.read()).split(b"\r\n")[0]
    writer.close()
    return Bucket(server, name)


@pytest.fixture
async def wire(server):
    async with Wire(*server) as wire:
        yield wire


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def opened(wire, bucket, clock, monkeypatch):
    """Return a transport to the bucket at work."""
    monkeypatch.setenv("S3_ID", "id")
    monkeypatch.setenv("S3_KEY", "key")

    def make(**settings):
        login = {"access_key_id": "env:S3_ID", "secret_access_key": "env:S3_KEY"}
        usual = {"bucket": bucket.name, "endpoint": wire.url, **login}
        return S3Transport(**usual | settings).open(environment(clock))

    return make


async def after_the_time(sending, has_begun, clock):
    """Return the outcome of a send whose time passes when the server is silent."""
    sending, begun = asyncio.ensure_future(sending), asyncio.ensure_future(has_begun.wait())
    await asyncio.wait({sending, begun}, return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    if not sending.done():
        clock.advance(60)
    return await sending


async def test_a_shipment_is_an_object(opened, bucket):
    transport = opened()
    assert await transport.send(shipment()) == ShipmentSent(KEY)
    assert bucket.objects == {KEY: BODY}
    found = obstore.get(bucket.store, KEY)
    assert found.attributes["Content-Type"] == "text/csv"
    assert found.attributes["delivery-id"] == shipment().delivery_id
    assert await transport.probe(shipment()) == ShipmentSent(KEY)
    await transport.close()


async def test_a_repetition_is_there_once(opened, bucket, wire):
    transport = opened()
    for attempt in (1, 1, 2):
        assert await transport.send(shipment(attempt=attempt)) == ShipmentSent(KEY)
    assert bucket.objects == {KEY: BODY}
    assert [line for line in wire.requests if line.startswith("GET")] == []  # the digest tells


@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_fails_the_outcome_is_true_and_a_resend_leaves_one_object(opened, bucket, wire, clock, fault):
    transport = opened()
    wire.fault = fault
    outcome = await after_the_time(transport.send(shipment()), wire.has_failed, clock)
    assert wire.fault is None, "it has not come to that"
    has_arrived = KEY in bucket.objects
    assert has_arrived == (fault in ARRIVED)
    check_truth(outcome, has_arrived=has_arrived)
    assert isinstance(outcome, OutcomeUnknown)
    assert isinstance(await transport.probe(shipment()), ShipmentSent if has_arrived else ShipmentDelayed)
    assert await transport.send(shipment(attempt=2)) == ShipmentSent(KEY)
    assert bucket.objects == {KEY: BODY}


@pytest.mark.parametrize("fault", ["drop_before", "hang_before", "drop_after"])
async def test_a_look_that_is_lost_says_nothing(opened, wire, bucket, clock, fault):
    transport = opened()
    await transport.send(shipment())
    wire.on, wire.fault = "HEAD", fault
    assert isinstance(await after_the_time(transport.probe(shipment()), wire.has_failed, clock), OutcomeUnknown)
    wire.fault = fault
    wire.has_failed.clear()
    again = await after_the_time(transport.send(shipment(attempt=2)), wire.has_failed, clock)
    assert isinstance(again, OutcomeUnknown)  # the key is taken, and nobody knows by what
    assert bucket.objects == {KEY: BODY}


async def test_another_object_of_that_key_is_never_replaced(opened, bucket):
    bucket.put(KEY, b"other")
    transport = opened()
    assert isinstance(await transport.send(shipment()), ShipmentRefused)
    assert isinstance(await transport.probe(shipment()), ShipmentDelayed)
    assert isinstance(await transport.send(shipment(body=b"rehto")), ShipmentRefused)  # the same size
    assert bucket.objects == {KEY: b"other"}


async def test_what_another_program_has_put_there_is_compared(opened, bucket):
    bucket.put(KEY, BODY)
    transport = opened()
    assert await transport.send(shipment()) == ShipmentSent(KEY)
    assert await transport.probe(shipment()) == ShipmentSent(KEY)


@pytest.mark.parametrize("size", [0, 1, 6_000_000])
async def test_any_size(opened, bucket, size):
    big = shipment(body=os.urandom(size))
    assert await opened().send(big) == ShipmentSent(KEY)
    assert await opened().send(big) == ShipmentSent(KEY)
    assert bucket.objects == {KEY: big.body}


async def test_a_bucket_that_is_not_there_is_away(opened):
    transport = opened(bucket="not-there")
    assert isinstance(await transport.send(shipment()), DestinationAway)


async def test_a_server_that_is_not_there_is_away(opened):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listened at
        transport = opened(endpoint=f"http://127.0.0.1:{taken.getsockname()[1]}")
        assert isinstance(await transport.send(shipment()), DestinationAway)
        assert isinstance(await transport.probe(shipment()), OutcomeUnknown)


MATRIX = {
    DestinationAway: [401, 403, 404, 503],
    ShipmentDelayed: [408, 425, 429],
    ShipmentRefused: [301, 400, 405, 411, 413, 501],
    OutcomeUnknown: [409, 412, 500, 502, 504],  # 409, 412: the key is taken, and no object is found there
}


@pytest.mark.parametrize(("kind", "status"), [(kind, status) for kind, all_ in MATRIX.items() for status in all_])
async def test_the_matrix(opened, wire, bucket, kind, status):
    wire.answer = f"HTTP/1.1 {status} Whatever\r\nlocation: /else\r\ncontent-length: 12\r\n\r\nstatus: 200,".encode()
    assert type(await opened().send(shipment())) is kind
    assert bucket.objects == {}


@pytest.mark.parametrize("code", ["RequestTimeout", "ExpiredToken"])
async def test_some_refusals_are_for_now_only(opened, wire, code):
    body = f"<Error><Code>{code}</Code></Error>"
    wire.answer = f"HTTP/1.1 400 Bad Request\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    assert isinstance(await opened().send(shipment()), ShipmentDelayed)


async def test_a_send_that_is_cancelled_is_cancelled(opened, wire):
    wire.fault = "hang_before"
    sending = asyncio.ensure_future(opened().send(shipment()))
    await wire.has_failed.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_a_template_that_needs_a_slot_refuses_what_has_none(opened):
    transport = opened(key="{slot:%Y}/{task}")
    assert isinstance(await transport.send(shipment()), ShipmentRefused)
    assert isinstance(await transport.probe(shipment()), OutcomeUnknown)
    assert await transport.send(shipment(slot_at=0.0)) == ShipmentSent("1970/t-1")


@pytest.mark.parametrize(
    "wrong",
    [
        {"bucket": ""}, {"key": "x"}, {"key": "../{task}"}, {"endpoint": "example.org"}, {"endpoint": "http://u:p@a/"},
        {"access_key_id": "geheim"}, {"secret_access_key": "env:A"}, {"secret_access_key": "geheim"}, {"timeout": -1},
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused(wrong):
    with pytest.raises(InvalidSetting) as caught:
        S3Transport(**{"bucket": "b"} | wrong)
    assert "geheim" not in str(caught.value)


def test_a_key_that_is_missing_is_said_before_anything_is_sent():
    made = S3Transport("b", access_key_id="id", secret_access_key="env:NOT_THERE_AT_ALL")  # noqa: S106 - its name
    with pytest.raises(InvalidSetting, match="NOT_THERE_AT_ALL"):
        made.open(environment())


def test_what_it_is_called_and_what_it_can():
    assert S3Transport("b").address == "s3.us-east-1/b"
    made = S3Transport("b", endpoint="https://minio.example", is_kept=False)
    assert made.address == "https://minio.example/b"
    assert not made.deduplicates
    assert not made.can_probe
    assert S3Transport("b").deduplicates
    assert S3Transport.from_table(made.to_table()) == made
