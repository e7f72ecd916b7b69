# SPDX-License-Identifier: MIT
"""Writes to the audit trail what commands change about queues, topics, routes, pipelines, tokens and users.

The trail is where failures are kept: in the store that the environment names, or where the queues are. Through a server
nothing is written here: the server does that, and knows who asks.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from redrive import open_recovery
from redrive.broker import Broker
from redrive.broker.port import Database, find_ability
from redrive.cli.options.connection import RecoveryConnection, missing_file
from redrive.cli.options.request import actor_name
from redrive.cli.output import console
from redrive.printable import one_line
from redrive.recovery import audited
from redrive.remote import RemoteBroker

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """A change that a command makes.

    Attributes:
        action: what is done, as the server calls it: ``queues.delete``.
        subject: what it is about: ``queue:orders``.
        reason: why.
        actor: who makes it; None: as the environment says, or the user of this machine.
    """

    action: str
    subject: str
    reason: str = ""
    actor: str | None = None


async def in_trail(broker: Broker | RemoteBroker, change: AuditedChange | None, call: Callable[[], Awaitable[T]]) -> T:
    """Do something; if it is a change, write to the audit trail that it has begun, and what came of it."""
    if change is None or isinstance(broker, RemoteBroker):
        return await call()
    store = RecoveryConnection().store_url
    if store is not None and (missing := missing_file(store)):
        console.warn(f"there is no store {one_line(missing)}: this change is not in its audit trail")
        return await call()
    if store is None and find_ability(broker.engine, Database) is None:
        return await call()
    recovery = open_recovery(broker, store, sources=())
    await recovery.ledger.open()  # not recovery itself: that would declare its queues
    try:
        return await audited(
            recovery, change.action, change.subject, call, actor=actor_name(change.actor), reason=change.reason
        )
    finally:
        await recovery.ledger.close()
