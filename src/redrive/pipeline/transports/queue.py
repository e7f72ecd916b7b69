# SPDX-License-Identifier: MIT
"""Transports to queues and topics of this broker: exactly once, as the outcome is stored in the same transaction."""

from dataclasses import dataclass
from typing import ClassVar

from redrive.broker import Message, Send, rules
from redrive.errors import MessageError, QueueNotFound, SessionRequired, Unavailable
from redrive.parts import TextSetting, setting
from redrive.pipeline.shipment import (
    DestinationAway,
    OutcomeUnknown,
    ProbeOutcome,
    Shipment,
    ShipmentOutcome,
    ShipmentRefused,
    ShipmentSent,
)
from redrive.pipeline.transport import BrokerTransport, OpenTransport, TransportEnvironment


@dataclass(frozen=True, slots=True)
class QueueTransport(BrokerTransport):
    """Sends each shipment to a queue of this broker, with its delivery id as message id."""

    kind: ClassVar[str] = "queue"

    queue: str = setting(TextSetting("must be the name of a queue"), "the queue to send to")

    @property
    def address(self) -> str:
        """The queue."""
        return self.queue

    def check(self) -> None:
        """See that a queue can have that name."""
        rules.check_queue_name(self.queue)

    def effect(self, shipment: Shipment) -> Send:
        """Return what sends a shipment."""
        return _send(self.queue, shipment)

    def open(self, environment: TransportEnvironment) -> OpenTransport:
        """Return the transport at work."""
        return _OpenBrokerTransport(self, environment)


@dataclass(frozen=True, slots=True)
class TopicTransport(BrokerTransport):
    """Sends each shipment to a topic of this broker, with its delivery id as message id."""

    kind: ClassVar[str] = "topic"

    topic: str = setting(TextSetting("must be the name of a topic"), "the topic to send to")

    @property
    def address(self) -> str:
        """The topic."""
        return self.topic

    def check(self) -> None:
        """See that a topic can have that name."""
        rules.check_queue_name(self.topic)

    def effect(self, shipment: Shipment) -> Send:
        """Return what sends a shipment."""
        return _send(self.topic, shipment)

    def open(self, environment: TransportEnvironment) -> OpenTransport:
        """Return the transport at work."""
        return _OpenBrokerTransport(self, environment)


def _send(target: str, shipment: Shipment) -> Send:
    return Send(target, Message(shipment.body, id=shipment.delivery_id, content_type=shipment.content_type))


class _OpenBrokerTransport:
    """A transport to this broker in a transaction of its own, for who sends without storing an outcome."""

    def __init__(self, settings: BrokerTransport, environment: TransportEnvironment) -> None:
        self._settings = settings
        self._broker = environment.broker

    async def send(self, shipment: Shipment) -> ShipmentOutcome:
        try:
            await self._broker.apply(self._settings.effect(shipment))
        except (MessageError, SessionRequired) as error:
            return ShipmentRefused(str(error))
        except QueueNotFound as error:
            return DestinationAway(str(error))
        except Unavailable as error:  # the database may have got it
            return OutcomeUnknown(str(error))
        return ShipmentSent(shipment.delivery_id)

    async def probe(self, shipment: Shipment) -> ProbeOutcome:
        return OutcomeUnknown("a queue cannot be asked: a message may have been handled and removed")

    async def close(self) -> None:
        return
