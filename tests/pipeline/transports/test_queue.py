# SPDX-License-Identifier: MIT
"""The transports to queues and topics of this broker."""

import pytest

from redrive import connect
from redrive.errors import InvalidSetting, RedriveError, Unavailable
from redrive.pipeline.shipment import DestinationAway, OutcomeUnknown, ShipmentRefused, ShipmentSent
from redrive.pipeline.transports.queue import QueueTransport, TopicTransport
from tests.pipeline.transports.shipments import BODY, environment, shipment


@pytest.fixture
async def broker():
    async with connect("sqlite:///:memory:") as broker:
        yield broker


async def test_an_effect_is_a_message_with_the_delivery_id():
    for transport in (QueueTransport("lab"), TopicTransport("lab")):
        effect = transport.effect(shipment())
        assert (effect.queue, effect.message.id, effect.message.body) == ("lab", shipment().delivery_id, BODY)
        assert effect.message.content_type == "text/csv"


async def test_a_shipment_is_a_message(broker):
    await broker.declare("lab")
    transport = QueueTransport("lab").open(environment(broker=broker))
    assert await transport.send(shipment()) == ShipmentSent(shipment().delivery_id)
    (sent,) = await broker.peek("lab")
    assert (sent.message.id, sent.message.body) == (shipment().delivery_id, BODY)
    assert isinstance(await transport.probe(shipment()), OutcomeUnknown)
    await transport.close()


async def test_what_cannot_be_sent_is_told_apart(broker):
    assert isinstance(await QueueTransport("gone").open(environment(broker=broker)).send(shipment()), DestinationAway)
    await broker.declare("small", max_message_bytes=10)
    assert isinstance(await QueueTransport("small").open(environment(broker=broker)).send(shipment()), ShipmentRefused)


async def test_a_database_that_does_not_answer_may_have_it():
    class Away:
        async def apply(self, *_):
            raise Unavailable("the database is away")

    transport = TopicTransport("lab").open(environment(broker=Away()))
    assert isinstance(await transport.send(shipment()), OutcomeUnknown)


@pytest.mark.parametrize("kind", [QueueTransport, TopicTransport])
def test_what_it_is_called_and_what_it_can(kind):
    transport = kind("lab")
    assert transport.address == "lab"
    assert transport.deduplicates
    assert not transport.can_probe
    assert kind.from_table(transport.to_table()) == transport
    for name in ("", None, "x" * 1_000):
        with pytest.raises((InvalidSetting, RedriveError)):
            kind(name)
