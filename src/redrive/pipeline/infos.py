# SPDX-License-Identifier: MIT
"""What the ledger of pipelines says to people: destinations, slots, the history, the way of an item. Pure: no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redrive.pipeline.states import SlotState


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotInfo:
    """A slot of a destination.

    Attributes:
        pipeline: the pipeline.
        destination: the destination.
        at: its instant.
        state: where it stands.
        closed_by: why it came: ``time``, ``size``, ``bytes``, ``age`` or ``person``.
        tasks: how many tasks were batched.
        is_empty: whether an empty batch was sent for it.
        reason: why it is in that state.
    """

    pipeline: str
    destination: str
    at: datetime
    state: SlotState
    closed_by: str
    tasks: int
    is_empty: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationInfo:
    """What is stored of a destination.

    Attributes:
        pipeline: the pipeline.
        name: its name.
        since: when it was first declared: slots before that are none.
        is_held: whether nothing is batched and sent for now.
        reason: why it is held.
        last_slot: its last slot.
        waiting: how many tasks wait for a slot.
        waiting_items: how many items these have.
        waiting_size: how many bytes.
        oldest_at: when the oldest of them was made.
        has_open_slot: whether a slot is being served.
    """

    pipeline: str
    name: str
    since: datetime
    is_held: bool
    reason: str
    last_slot: datetime | None
    waiting: int = 0
    waiting_items: int = 0
    waiting_size: int = 0
    oldest_at: datetime | None = None
    has_open_slot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionInfo:
    """An entry of the history.

    Attributes:
        number: its number: the order in which they were written.
        task: the task's id; empty if it concerns a destination.
        pipeline: the pipeline.
        destination: the destination, if there is one.
        name: what was done.
        attempt: which attempt it was.
        at: when.
        actor: who did it; empty: the pipeline itself.
        reason: why.
        detail: more, as JSON values.
    """

    number: int
    task: str
    pipeline: str
    destination: str
    name: str
    attempt: int
    at: datetime
    actor: str
    reason: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageEdge:
    """One step of an item.

    Attributes:
        item: the item's id.
        parent: the task that it comes from, and its place there; None if it was submitted.
        child: the task that it has gone to, and its place there.
        shipment: the shipment that it is in there; None: it is in none.
    """

    item: str
    parent: tuple[str, int] | None
    child: tuple[str, int]
    shipment: int | None
