# SPDX-License-Identifier: MIT
"""Shipments, and what transports work with, for tests."""

import asyncio

from redrive.clock import pause, system_clock
from redrive.pipeline.shipment import DestinationAway, OutcomeUnknown, Shipment, ShipmentDelayed, ShipmentSent
from redrive.pipeline.transport import TransportEnvironment
from tests.patience import PATIENCE_S

BODY = b"patient,result\nA,1\n" * 10


def shipment(**settings):
    """Return a shipment; equal arguments make equal ones."""
    usual = {
        "delivery_id": "9f1c54b2-6e1d-5c0a-8f43-000000000001",
        "pipeline": "reports",
        "destination": "lab",
        "task": "t-1",
        "index": 1,
        "item_count": 100,
        "body": BODY,
        "content_type": "text/csv",
    }
    return Shipment(**usual | settings)


def environment(clock=system_clock, broker=None):
    return TransportEnvironment(broker=broker, clock=clock)


async def until(holds):
    """Wait for what another task or thread does."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await pause(system_clock, 0.001)


def check_truth(outcome, *, has_arrived):
    """See that an outcome claims nothing that is not so."""
    if has_arrived:
        assert isinstance(outcome, ShipmentSent | OutcomeUnknown), outcome
    else:
        assert not isinstance(outcome, ShipmentSent), outcome


def is_certain(outcome):
    """Say whether an outcome says that the destination does not have it."""
    return isinstance(outcome, ShipmentDelayed | DestinationAway)
