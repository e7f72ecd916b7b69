# SPDX-License-Identifier: MIT
"""The HTTP transport, with a real server that loses requests and answers at every step."""

import asyncio
import socket
import sys

import pytest

from redrive.errors import InvalidSetting, MissingExtra
from redrive.pipeline.shipment import DestinationAway, OutcomeUnknown, ShipmentDelayed, ShipmentRefused, ShipmentSent
from redrive.pipeline.transports.http import HttpTransport
from redrive.testing import ManualClock
from tests.pipeline.transports.http_destination import FAULTS, PROCESSED, HttpDestination
from tests.pipeline.transports.listener import Listener, say_nothing
from tests.pipeline.transports.shipments import BODY, check_truth, environment, shipment

KEY = shipment().delivery_id


@pytest.fixture
async def destination():
    async with HttpDestination() as destination:
        yield destination


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def opened(destination, clock):
    """Return a transport to the destination at work."""
    open_ones = []

    def make(url=None, **settings):
        settings = {"verify_tls": False} | settings  # without it, each client reads all certificates
        transport = HttpTransport(url or destination.url, **settings).open(environment(clock))
        open_ones.append(transport)
        return transport

    yield make
    for each in open_ones:
        await each.close()


async def after_the_time(sending, has_begun, clock):
    """Return the outcome of a send whose time passes when the destination has it and is silent."""
    sending, begun = asyncio.ensure_future(sending), asyncio.ensure_future(has_begun.wait())
    await asyncio.wait({sending, begun}, return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    if not sending.done():
        clock.advance(60)
    return await sending


async def test_a_shipment_is_a_request(opened, destination):
    assert await opened().send(shipment()) == ShipmentSent("/reports/7")
    ((line, headers),) = destination.heads
    assert line == "POST /reports HTTP/1.1"
    assert headers["idempotency-key"] == KEY
    assert headers["content-type"] == "text/csv"
    assert headers["user-agent"] == "redrive"
    assert destination.processed == [(KEY, BODY)]


async def test_what_is_asked_for_is_sent(opened, destination, monkeypatch):
    monkeypatch.setenv("LAB_TOKEN", "Bearer geheim")
    destination.headers = {"X-Receipt": "r-1"}
    settings = {"headers": {"Authorization": "env:LAB_TOKEN", "Content-Type": "text/x"}, "receipt": "x-receipt"}
    transport = opened(f"{destination.url}/{{delivery_id}}", method="PUT", **settings)
    assert await transport.send(shipment(content_type=None)) == ShipmentSent("r-1")
    ((line, headers),) = destination.heads
    assert line == f"PUT /reports/{KEY} HTTP/1.1"
    assert headers["authorization"] == "Bearer geheim"
    assert headers["content-type"] == "text/x"


@pytest.mark.parametrize("key", ["ä", "a b", "x" * 300, "a\nb"])
async def test_any_delivery_id_can_be_sent(opened, destination, key):
    assert isinstance(await opened().send(shipment(delivery_id=key)), ShipmentSent)
    assert destination.heads[0][1]["idempotency-key"].isalnum()


# --- faults


@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_is_lost_the_outcome_is_true_and_a_resend_is_dropped(opened, destination, clock, fault):
    transport = opened(deduplicates=True)
    destination.fault = fault
    outcome = await after_the_time(transport.send(shipment()), destination.has_failed, clock)
    has_arrived = bool(destination.processed)
    assert has_arrived == (fault in PROCESSED)
    check_truth(outcome, has_arrived=has_arrived)
    if fault == "half_an_answer":  # its status is known
        assert outcome == ShipmentSent("/reports/7")
    elif fault == "drop_on_connect":
        assert isinstance(outcome, OutcomeUnknown | DestinationAway)  # the first bytes may have left
    else:
        assert isinstance(outcome, OutcomeUnknown)
    assert isinstance(await transport.send(shipment(attempt=2)), ShipmentSent)
    assert destination.processed == [(KEY, BODY)]


async def test_a_destination_that_is_not_there_is_away(opened):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listened at
        outcome = await opened(f"http://127.0.0.1:{taken.getsockname()[1]}/").send(shipment())
    assert isinstance(outcome, DestinationAway)


async def test_a_host_that_has_no_address_is_away(opened):
    assert isinstance(await opened("http://nowhere.invalid/").send(shipment()), DestinationAway)


async def test_a_destination_without_tls_is_away(opened, destination):
    outcome = await opened(destination.url.replace("http:", "https:")).send(shipment())
    assert isinstance(outcome, DestinationAway)
    assert destination.processed == []


async def test_a_destination_that_never_begins_tls_is_away(opened):
    async with Listener(say_nothing) as listener:
        transport = opened(f"https://127.0.0.1:{listener.port}/", timeout=0.1)
        assert isinstance(await transport.send(shipment()), DestinationAway)


async def test_a_send_that_is_cancelled_is_cancelled(opened, destination):
    destination.fault = "hang_before_processing"
    sending = asyncio.ensure_future(opened().send(shipment()))
    await destination.has_failed.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_no_connection_is_used_twice(opened, destination):
    transport = opened()
    for index in (1, 2, 3):
        await transport.send(shipment(index=index, delivery_id=f"d-{index}"))
    assert destination.connections == 3


async def test_a_content_type_that_no_header_can_have_is_refused(opened, destination):
    outcome = await opened().send(shipment(content_type="text/csv\r\nX-Evil: 1"))
    assert isinstance(outcome, ShipmentRefused)
    assert destination.processed == []


# --- statuses


MATRIX = {
    ShipmentSent: [200, 201, 202, 204, 299],
    ShipmentDelayed: [408, 425, 429, 500, 501, 505, 507, 599],
    DestinationAway: [503],
    OutcomeUnknown: [502, 504],
    ShipmentRefused: [301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 451],
}


@pytest.mark.parametrize(("kind", "status"), [(kind, status) for kind, all_ in MATRIX.items() for status in all_])
async def test_the_matrix(opened, destination, kind, status):
    destination.status, destination.body = status, b"" if status in (204, 304) else b"because"
    destination.headers = {"Location": "/else", "Retry-After": "7"}
    outcome = await opened().send(shipment())
    assert type(outcome) is kind
    if kind in (ShipmentDelayed, DestinationAway):
        assert outcome.after == 7.0
    if kind is not ShipmentSent and status != 304:
        assert outcome.reason == f"the destination answered {status}: because"


async def test_409_of_a_destination_that_drops_repetitions_is_no_refusal(opened, destination):
    destination.status = 409
    assert isinstance(await opened(deduplicates=True).send(shipment()), OutcomeUnknown)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("sent", ShipmentSent),
        ("delayed", ShipmentDelayed),
        ("away", DestinationAway),
        ("refused", ShipmentRefused),
        ("unknown", OutcomeUnknown),
    ],
)
async def test_a_destination_may_mean_something_else(opened, destination, word, kind):
    destination.status = 409
    assert type(await opened(statuses={409: word}).send(shipment())) is kind


# --- looking


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, ShipmentSent),
        (204, ShipmentSent),
        (404, ShipmentDelayed),
        (302, OutcomeUnknown),
        (400, OutcomeUnknown),
        (401, OutcomeUnknown),
        (410, OutcomeUnknown),
        (429, OutcomeUnknown),
        (500, OutcomeUnknown),
        (503, OutcomeUnknown),
    ],
)
async def test_a_look_says_what_the_destination_has(opened, destination, method, status, kind):
    destination.status, destination.body = status, b""
    transport = opened(probe_url=f"{destination.url}/{{delivery_id}}", probe_method=method)
    outcome = await transport.probe(shipment())
    assert type(outcome) is kind
    assert destination.heads[0][0] == f"{method} /reports/{KEY} HTTP/1.1"
    assert "idempotency-key" not in destination.heads[0][1]
    if kind is ShipmentSent:
        assert outcome.receipt == "/reports/7"


@pytest.mark.parametrize("fault", ["drop_on_connect", "drop_before_processing", "hang_before_processing", "no_http"])
async def test_a_look_that_is_lost_says_nothing(opened, destination, clock, fault):
    transport = opened(probe_url=destination.url)
    destination.fault = fault
    outcome = await after_the_time(transport.probe(shipment()), destination.has_failed, clock)
    assert isinstance(outcome, OutcomeUnknown)


async def test_without_a_url_nobody_can_be_asked(opened):
    assert isinstance(await opened().probe(shipment()), OutcomeUnknown)


# --- settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://a/"}, {"url": "http://u:p@a/"}, {"url": "http://{task}/"}, {"method": "GET"}, {"probe_url": "x"},
        {"headers": {"Idempotency-Key": "x"}}, {"headers": {"Content-Length": "1"}}, {"headers": {"a b": "c"}},
        {"headers": {"a": "b\nc"}}, {"statuses": {"409": "fine"}}, {"statuses": {"4xx": "sent"}}, {"timeout": 0},
        {"receipt": "a b"}, {"deduplicates": "yes"}, {"probe_method": "POST"},
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused(wrong):
    with pytest.raises(InvalidSetting):
        HttpTransport(**{"url": "http://a/"} | wrong)


def test_a_token_that_is_missing_is_said_before_anything_is_sent():
    with pytest.raises(InvalidSetting, match="NOT_THERE_AT_ALL"):
        HttpTransport("http://a/", headers={"Authorization": "env:NOT_THERE_AT_ALL"}).open(environment())


def test_secrets_are_not_shown():
    transport = HttpTransport("http://a/", headers={"Authorization": "geheim", "X-Key": "env:KEY"})
    for shown in (str(transport), repr(transport)):
        assert "geheim" not in shown
        assert "env:KEY" in shown


def test_without_httpx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra, match=r"redrive\[pipeline\]"):
        HttpTransport("http://a/").open(environment())


def test_what_it_is_called_and_what_it_can():
    transport = HttpTransport("https://a.example/x/{task}", deduplicates=True, probe_url="https://a.example/{task}")
    assert transport.address == "https://a.example:443"
    assert transport.deduplicates
    assert transport.can_probe
    assert not HttpTransport("http://a/").deduplicates
    assert not HttpTransport("http://a/").can_probe
    assert HttpTransport.from_table(transport.to_table()) == transport
