# SPDX-License-Identifier: MIT
"""Messages of queues over HTTP."""

import base64

import pytest

from redrive import connect, open_recovery
from redrive.access import Role
from redrive.broker.views import received_view
from redrive.errors import EngineUnavailable
from redrive.server import open_desk
from redrive.testing import ManualClock
from tests.server.conftest import client_of


@pytest.fixture
async def orders(desk):
    await desk.broker.declare("orders")
    return "/queues/orders"


async def test_messages_are_sent_all_or_none_and_looked_at(client, desk, orders):
    raw = base64.b64encode(b"\xff\x00").decode()
    asked = {"messages": [{"body": "one", "id": "1", "headers": {"a": 1}}, {"body": raw, "body_encoding": "base64"}]}
    answer = await client.post(f"{orders}/messages", json=asked)
    assert answer.json() == {
        "queue": "orders",
        "sent": 2,
        "duplicates": 0,
        "first_sequence": answer.json()["first_sequence"],
        "last_sequence": answer.json()["first_sequence"] + 1,
    }
    found = await client.get(f"{orders}/messages")
    assert found.json() == [received_view(each) for each in await desk.broker.peek("orders")]
    assert [each["body"] for each in found.json()] == ["one", raw]
    one = await client.get(f"{orders}/messages/{answer.json()['first_sequence']}")
    assert one.json() == found.json()[0]
    assert (await client.get(f"{orders}/messages/99999")).json()["code"] == "message-not-found"


async def test_messages_have_pages_and_states(client, desk, orders):
    await desk.broker.send_many("orders", ["1", "2", "3"])
    answer = await client.get(f"{orders}/messages", params={"limit": 2, "state": "ready"})
    assert len(answer.json()) == 2
    assert len((await client.get(answer.links["next"]["url"].removeprefix("/api/v1"))).json()) == 1
    assert (await client.get(f"{orders}/messages", params={"state": "scheduled"})).json() == []


async def test_a_request_with_a_key_is_made_once(client, desk, orders):
    asked, key = {"messages": [{"body": "one"}]}, {"Idempotency-Key": "k-1"}
    assert (await client.post(f"{orders}/messages", json=asked, headers=key)).status_code == 200
    again = await client.post(f"{orders}/messages", json=asked, headers=key)
    assert (again.status_code, again.json()["code"]) == (409, "request-repeated")
    assert (await desk.broker.inspect("orders")).ready == 1
    assert (await client.post(f"{orders}/purge", headers=key)).json()["removed"] == 1  # another request
    assert (await client.post(f"{orders}/purge", headers=key)).json()["code"] == "request-repeated"


async def test_messages_are_sent_once_for_a_key_though_the_store_goes_away(client, desk, orders, monkeypatch):
    asked, key = {"messages": [{"body": "one"}]}, {"Idempotency-Key": "k-1"}
    away = Away(desk.broker)
    monkeypatch.setattr(type(desk.broker), "apply", away.before)
    assert (await client.post(f"{orders}/messages", json=asked, headers=key)).status_code == 503
    monkeypatch.setattr(type(desk.broker), "apply", away.after)
    assert (await client.post(f"{orders}/messages", json=asked, headers=key)).status_code == 503  # it was stored
    monkeypatch.undo()
    assert (await client.post(f"{orders}/messages", json=asked, headers=key)).json()["code"] == "request-repeated"
    assert (await desk.broker.inspect("orders")).ready == 1


class Away:
    """A store that goes away before it does something, or after it."""

    def __init__(self, broker):
        self._apply = type(broker).apply

    async def before(self, *_effects, **_more):
        raise EngineUnavailable("gone")

    @property
    def after(self):
        async def apply(broker, *effects, **more):
            await self._apply(broker, *effects, **more)
            raise EngineUnavailable("gone")

        return apply


async def test_a_request_that_came_to_nothing_can_be_made_again_with_its_key(client, desk):
    key = {"Idempotency-Key": "k-1"}
    assert (await client.post("/queues/none/purge", headers=key)).status_code == 404
    await desk.broker.declare("none")
    assert (await client.post("/queues/none/purge", headers=key)).status_code == 200
    assert (await client.post("/queues/none/purge", headers=key)).json()["code"] == "request-repeated"


async def test_a_request_whose_server_ended_is_made_again_after_a_minute(url, monkeypatch):
    clock, key = ManualClock(), {"Idempotency-Key": "k-1"}
    async with connect(url, clock=clock) as broker, open_desk(broker, open_recovery(broker)) as desk:
        client = client_of(desk)
        await broker.declare("orders")
        monkeypatch.setattr(type(broker), "purge", ended)
        with pytest.raises(Ended):
            await client.post("/queues/orders/purge", headers=key)
        monkeypatch.undo()
        assert (await client.post("/queues/orders/purge", headers=key)).json()["code"] == "request-under-way"
        clock.advance(61)
        assert (await client.post("/queues/orders/purge", headers=key)).status_code == 200
        assert (await client.post("/queues/orders/purge", headers=key)).json()["code"] == "request-repeated"
        clock.advance(86_401)
        assert (await client.post("/queues/orders/purge", headers=key)).status_code == 200  # forgotten after a day


class Ended(BaseException):
    """The process ends here."""


async def ended(*_, **__):
    raise Ended


async def test_a_key_of_somebody_else_is_another_key(client, as_someone, orders):
    asked, key = {"messages": [{"body": "one"}]}, {"Idempotency-Key": "k-1"}
    for one in (client, as_someone(name="bob")):
        assert (await one.post(f"{orders}/messages", json=asked, headers=key)).json()["sent"] == 1


async def test_a_scheduled_message_is_cancelled(client, desk, orders):
    answer = await client.post(f"{orders}/messages", json={"messages": [{"body": "later"}], "delay": 3600})
    number = answer.json()["first_sequence"]
    assert (await client.delete(f"{orders}/messages/{number}")).json()["cancelled"] is True
    assert (await client.delete(f"{orders}/messages/{number}")).json()["code"] == "message-not-found"
    assert (await desk.broker.inspect("orders")).scheduled == 0


async def test_dead_letters_are_sent_again(client, desk, orders):
    await desk.broker.send("orders", b"1")
    (delivery,) = await desk.broker.receive("orders")
    await delivery.dead_letter("odd", "by hand")
    (dead,) = (await client.get("/queues/orders%2F$dead/messages")).json()
    assert dead["dead_letter"]["reason"] == "odd"
    assert (await client.post(f"{orders}/resubmit", json={})).json()["resubmitted"] == 1
    assert (await desk.broker.inspect("orders")).ready == 1


async def test_single_dead_letters_are_sent_again_and_removed_by_number(client, desk, orders):
    await desk.broker.send_many("orders", [b"1", b"2", b"3"])
    for delivery in await desk.broker.receive("orders", max_messages=3):
        await delivery.dead_letter("odd", "by hand")
    path = "/queues/orders%2F$dead"
    first, second, third = (each["sequence"] for each in (await client.get(f"{path}/messages")).json())
    assert (await client.post(f"{orders}/resubmit", json={"sequences": [second]})).json()["resubmitted"] == 1
    assert (await client.post(f"{path}/purge", json={"sequences": [first]})).json()["removed"] == 1
    assert [each["sequence"] for each in (await client.get(f"{path}/messages")).json()] == [third]
    gone = await client.post(f"{orders}/resubmit", json={"sequences": [first, third]})
    assert (gone.status_code, gone.json()["code"]) == (404, "message-not-found")
    assert (await client.post(f"{orders}/purge", json={"sequences": [third]})).json()["code"] == "invalid-setting"
    assert (await client.post(f"{path}/purge")).json()["removed"] == 1


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"body": "x", "body_encoding": "base64"}, "invalid-message"),
        ({"body": "x", "id": ""}, "invalid-message"),
        ({"body": "x", "headers": {"": 1}}, "invalid-message"),
        ({"body": "x", "ttl": 0}, "invalid-request"),
        ({"body": 1}, "invalid-request"),
        ({}, "invalid-request"),
    ],
)
async def test_a_message_that_no_queue_takes_is_refused(client, desk, orders, message, code):
    answer = await client.post(f"{orders}/messages", json={"messages": [{"body": "good"}, message]})
    assert answer.json()["code"] == code
    assert (await desk.broker.inspect("orders")).ready == 0


async def test_another_queue_is_out_of_reach(as_someone, desk, orders):
    await desk.broker.send("orders", b"1")
    limited = as_someone(Role.ADMIN, queues=("billing",))
    for answer in (
        await limited.get(f"{orders}/messages"),
        await limited.get("/queues/orders%2F$dead/messages"),
        await limited.get(f"{orders}/messages/1"),
        await limited.post(f"{orders}/messages", json={"messages": [{"body": "x"}]}),
        await limited.post(f"{orders}/purge"),
        await limited.post(f"{orders}/resubmit", json={}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert (await desk.broker.inspect("orders")).ready == 1
