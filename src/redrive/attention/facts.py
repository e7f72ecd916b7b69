# SPDX-License-Identifier: MIT
"""What is known about all layers, for the rules that say what needs a person. Pure: no I/O, no clock."""

from dataclasses import dataclass
from datetime import datetime

from redrive.recovery import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFact:
    """A group of failures that are unresolved.

    Attributes:
        id: its id.
        title: what they have in common.
        count: how many there are.
        first_failed_at: when the first one failed.
        lately: how many failed in the last while (``Thresholds.lately_s``).
        usual: how many fail in such a while, on average over the day before.
    """

    id: str
    title: str
    count: int
    first_failed_at: datetime
    lately: int
    usual: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFact:
    """A queue in which messages wait and which none reads.

    Attributes:
        name: its name.
        ready: how many wait.
        oldest_at: since when the oldest waits.
    """

    name: str
    ready: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFact:
    """A route on which events wait.

    Attributes:
        name: what people call it.
        state: what it is doing: ``running``, ``paused``.
        reason: why, if that was said.
        waiting: how many events wait.
        oldest_at: since when the oldest waits.
        sent: how many were delivered lately.
        failed: how many attempts failed lately.
    """

    name: str
    state: str
    reason: str
    waiting: int
    oldest_at: datetime | None
    sent: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFact:
    """A pipeline with tasks that should have been done a while ago.

    Attributes:
        name: its name.
        stuck: how many tasks; at most as many as were read.
        oldest_at: when the oldest of them was due.
    """

    name: str
    stuck: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the rules look at.

    Attributes:
        now: the time.
        groups: the largest groups.
        operations: operations under way, and the last ones that are over.
        queues: queues that none reads.
        routes: routes on which events wait.
        pipelines: pipelines with stuck tasks.
        set_aside: how many messages could not be read; at most as many as were read.
        services: how many processes serve recovery.
    """

    now: datetime
    groups: tuple[GroupFact, ...] = ()
    operations: tuple[Operation, ...] = ()
    queues: tuple[QueueFact, ...] = ()
    routes: tuple[RouteFact, ...] = ()
    pipelines: tuple[PipelineFact, ...] = ()
    set_aside: int = 0
    services: int = 1
