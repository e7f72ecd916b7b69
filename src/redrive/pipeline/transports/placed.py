# SPDX-License-Identifier: MIT

"""What the transports share that put a file or an object under a name of its own. Pure: no I/O, no clock."""

from dataclasses import dataclass

from redrive.broker import FlagSetting
from redrive.parts import setting
from redrive.pipeline.shipment import ShipmentDelayed, ShipmentRefused
from redrive.pipeline.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTransport(Transport):
    """A transport that puts each shipment under a name of its own, and never replaces what has that name."""

    is_kept: bool = setting(
        FlagSetting(),
        "whether what was put there stays; if a receiver takes it away, a repetition cannot be noticed and the "
        "destination cannot be asked",
        default=True,
    )

    @property
    def deduplicates(self) -> bool:
        """Whether a shipment that is sent twice is there once: it has the same name, and is found there."""
        return self.is_kept

    @property
    def can_probe(self) -> bool:
        """Whether a look at the name tells whether a shipment has arrived."""
        return self.is_kept


def taken(name: str) -> ShipmentRefused:
    """Return what comes of a shipment whose name something else has."""
    return ShipmentRefused(f"{name} is there already, with other content; give shipments names of their own")


def absent(name: str) -> ShipmentDelayed:
    """Return what a look says that has not found a shipment."""
    return ShipmentDelayed(f"{name} is not there")


def displaced(name: str) -> ShipmentDelayed:
    """Return what a look says that has found something else under the name of a shipment."""
    return ShipmentDelayed(f"{name} is there with other content, so this shipment is not")
