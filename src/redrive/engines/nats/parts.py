# SPDX-License-Identifier: MIT
"""What all work on a namespace is done with."""

from dataclasses import dataclass

from redrive.clock import Clock
from redrive.engines.nats.catalog import Catalog
from redrive.engines.nats.connection import NatsConnection
from redrive.engines.nats.consumers import Consumers
from redrive.engines.nats.group_commit import GroupCommit
from redrive.engines.nats.locks import Locks
from redrive.engines.nats.numbers import Numbers
from redrive.engines.nats.subjects import Subjects


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an engine.

    Attributes:
        connection: the servers.
        subjects: the subjects of the namespace.
        catalog: knows queues and topics.
        consumers: hand messages out.
        commits: stores changes.
        locks: knows this engine's locks.
        numbers: gives out numbers.
        clock: where time comes from.
        pace: how many of the server's seconds one of the clock's is.
    """

    connection: NatsConnection
    subjects: Subjects
    catalog: Catalog
    consumers: Consumers
    commits: GroupCommit
    locks: Locks
    numbers: Numbers
    clock: Clock
    pace: float
