# SPDX-License-Identifier: MIT
"""How a destination is reached: a transport is a value, and is opened when a pipeline runs. Pure: no I/O."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from redrive.parts import DeclaredPart
from redrive.pipeline.shipment import ProbeOutcome, Shipment, ShipmentOutcome

if TYPE_CHECKING:
    from redrive.broker import Broker, Send
    from redrive.clock import Clock


@dataclass(frozen=True, slots=True)
class TransportEnvironment:
    """What transports work with.

    Attributes:
        broker: where the pipeline is.
        clock: where time comes from.
    """

    broker: "Broker"
    clock: "Clock"


class OpenTransport(Protocol):
    """A transport at work."""

    async def send(self, shipment: Shipment) -> ShipmentOutcome:
        """Send a shipment, and return what came of it.

        What the destination does is an outcome, never an exception. An exception means that it may have arrived or
        not.
        """
        ...

    async def probe(self, shipment: Shipment) -> ProbeOutcome:
        """Look whether the destination has a shipment, if the transport can."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


@dataclass(frozen=True, slots=True)
class Transport(DeclaredPart):
    """How a destination is reached."""

    @property
    def address(self) -> str:
        """What is away when sending fails: destinations with the same address share a circuit breaker."""
        raise NotImplementedError

    @property
    def deduplicates(self) -> bool:
        """Whether a shipment that is sent twice with one delivery id has one effect."""
        return False

    @property
    def can_probe(self) -> bool:
        """Whether the destination can be asked what it has."""
        return False

    def open(self, environment: TransportEnvironment) -> OpenTransport:
        """Return the transport at work; nothing is connected before it is needed."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class BrokerTransport(Transport):
    """A transport to this broker: a shipment is sent in the transaction that stores its outcome, so exactly once."""

    @property
    def deduplicates(self) -> bool:
        """It is sent once."""
        return True

    def effect(self, shipment: Shipment) -> "Send":
        """Return what sends a shipment."""
        raise NotImplementedError
