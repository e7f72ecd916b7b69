# SPDX-License-Identifier: MIT
"""What a transport sends, and what came of it. Pure: no I/O, no clock, no randomness."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """One body for one destination. A send task has one or several of them, and each has its own outcome.

    Attributes:
        delivery_id: names it: it is the same in every attempt, so a receiver that knows it can drop a repetition.
        pipeline: the name of the pipeline.
        destination: the name of the destination.
        task: the id of the send task.
        index: which shipment of its task this is, counted from 1.
        item_count: how many items are in it.
        body: its bytes.
        content_type: what the bytes are; None: unknown.
        slot_at: the slot that it was batched for, in seconds since 1970; None: it was not batched.
        attempt: which attempt this is, counted from 1.
    """

    delivery_id: str
    pipeline: str
    destination: str
    task: str
    index: int
    item_count: int
    body: bytes
    content_type: str | None = None
    slot_at: float | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class ShipmentSent:
    """The destination has it.

    Attributes:
        receipt: what the destination said of it, such as the id it gave it.
    """

    receipt: str = ""


@dataclass(frozen=True, slots=True)
class ShipmentDelayed:
    """The destination certainly does not have it; another attempt may succeed.

    Attributes:
        reason: why.
        after: seconds that the destination asks to wait; None: it says nothing.
    """

    reason: str
    after: float | None = None


@dataclass(frozen=True, slots=True)
class ShipmentRefused:
    """The destination refuses it, and would refuse it again.

    Attributes:
        reason: why.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class DestinationAway:
    """The destination cannot be reached, and certainly does not have it. That is no fault of this shipment.

    Attributes:
        reason: why.
        after: seconds that the destination asks to wait; None: it says nothing.
    """

    reason: str
    after: float | None = None


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """It may have arrived or not: the bytes have left, and no answer has come.

    Attributes:
        reason: what happened instead of an answer.
    """

    reason: str


ShipmentOutcome: TypeAlias = ShipmentSent | ShipmentDelayed | ShipmentRefused | DestinationAway | OutcomeUnknown
ProbeOutcome: TypeAlias = ShipmentSent | ShipmentDelayed | OutcomeUnknown
"""What a look at the destination says: it is there, it is not there, or that cannot be said now."""
