# SPDX-License-Identifier: MIT
"""What of the failures and operations a principal sees that is limited to queues: never more than these queues have.

A filter is narrowed to the queues before it is used, for looking and for doing alike. An operation is seen if all its
messages are in these queues; what is not seen is not found, as if it were not there.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from redrive.clock import utc
from redrive.errors import FailureNotFound, OperationNotFound
from redrive.recovery import FailedDetail, Filter, Operation, Status

if TYPE_CHECKING:
    from redrive.access import Principal
    from redrive.server.desk import Desk

NOTHING: Final = Filter(ids=("0" * 32,))
"""A filter that matches no failed message."""

_MOST_QUEUES: Final = 1_000
ANY: Final = frozenset(Status)


async def filter_within(desk: "Desk", principal: "Principal", text: str) -> Filter:
    """Return the filter that a text describes, narrowed to the queues of a principal.

    Raises:
        InvalidFilter: it cannot be understood.
        InvalidSetting: it names a route that is not there.
    """
    wanted = await desk.recovery.settled(text)
    if principal.queues is None:
        return wanted
    narrow = await narrowed(desk, principal, wanted)
    written = f"{text} within {','.join(principal.queues)}"  # another request than without a limit
    return narrow.at(utc(desk.broker.clock.time()), written=written)


async def narrowed(desk: "Desk", principal: "Principal", wanted: Filter) -> Filter:
    """Return a filter that matches no message beyond the queues of a principal."""
    if principal.queues is None:
        return wanted
    names = wanted.queues or await _queues_of(desk, principal)
    allowed = tuple(each for each in names if principal.has(each))
    return replace(wanted, queues=allowed) if allowed else replace(NOTHING, status=wanted.status)


async def _queues_of(desk: "Desk", principal: "Principal") -> tuple[str, ...]:
    """Return the queues within a limit that have failures."""
    limits = principal.queues or ()
    if not any(each.endswith("*") for each in limits):
        return limits
    names: list[str] = []
    while True:
        page = await desk.recovery.groups(
            Filter(status=ANY), by="queue", after=names[-1] if names else None, limit=_MOST_QUEUES
        )
        names += [each.id for each in page]
        if len(page) < _MOST_QUEUES:
            return tuple(names)


async def failure_within(desk: "Desk", principal: "Principal", id: str) -> FailedDetail:  # noqa: A002 - as in show
    """Return a failed message that a principal may see.

    Raises:
        FailureNotFound: there is none with that id, or it is in another queue.
    """
    found = await desk.recovery.show(id)
    if not principal.has(found.summary.queue):
        raise FailureNotFound(id)
    return found


async def operation_within(desk: "Desk", principal: "Principal", number: int, *, newcomers: bool = True) -> Operation:
    """Return an operation that a principal may see.

    Raises:
        OperationNotFound: there is none with that number, or it has messages of other queues.
    """
    found = await desk.recovery.operation(number, newcomers=newcomers)
    if not await has_operation(desk, principal, found):
        raise OperationNotFound(number)
    return found


async def has_operation(desk: "Desk", principal: "Principal", operation: Operation) -> bool:
    """Say whether all messages of an operation are in the queues of a principal."""
    if principal.queues is None:
        return True
    wanted = operation.plan.filter
    if wanted.queues:
        return all(principal.has(each) for each in wanted.queues)
    if not wanted.ids:
        return False
    these = Filter(status=ANY, ids=wanted.ids)
    own = await narrowed(desk, principal, these)
    return await desk.recovery.count(these) == await desk.recovery.count(own)
