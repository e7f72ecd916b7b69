# SPDX-License-Identifier: MIT
"""A journey: all that is known of a message, its children and its parents, as a graph. Pure: no I/O, no clock."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from redrive.journey.times import Interval, Kind

NodeKind: TypeAlias = Literal["event", "message", "failure", "operation", "task", "shipment"]
EdgeKind: TypeAlias = Literal[
    "fork", "child", "failed", "recovery", "again", "edit", "submitted", "stage", "join", "sent"
]


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened at a node.

    Attributes:
        at: when, in seconds since 1970.
        event: what.
        said: more about it.
    """

    at: float
    event: str
    said: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One place of a journey.

    Attributes:
        id: names it in this journey.
        kind: what it is.
        layer: which layer knows of it.
        title: what people call it.
        message_id: the message that it is about; for tasks and shipments their own id.
        state: where it stands.
        begin: the first that is known of it, in seconds since 1970.
        end: the last; None: it is under way.
        happenings: what happened there, in order.
    """

    id: str
    kind: NodeKind
    layer: str
    title: str
    message_id: str
    state: str
    begin: float
    end: float | None
    happenings: tuple[Happening, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """A step from one node to the next.

    Attributes:
        source: the id of the node it begins at.
        target: the id of the node it leads to.
        kind: what the step is: a ``fork`` to the subscriptions of a topic, a ``join`` in a batch, and so on.
    """

    source: str
    target: str
    kind: EdgeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """All that is known of a message.

    Attributes:
        id: the message that was asked for.
        state: ``under way``, ``failed``, ``ended``, or ``unknown``: nothing says what became of it.
        begin: the first that is known, in seconds since 1970.
        end: the last that is known, or now if it is under way or has failed.
        nodes: its places, in order of time.
        edges: the steps between them.
        parts: the time from begin to end in parts that follow each other, gaps included.
        times: how many seconds each kind of part has: they add up to the total.
        notes: what cannot be said, in sentences.
    """

    id: str
    state: str
    begin: float
    end: float
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    parts: tuple[Interval, ...]
    times: dict[Kind, float]
    notes: tuple[str, ...] = ()

    @property
    def gaps(self) -> list[Interval]:
        """The parts of which there is no record."""
        return [part for part in self.parts if part.kind == "no record"]
