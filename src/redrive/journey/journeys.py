# SPDX-License-Identifier: MIT
"""The facade: finds out what happened to a message."""

from types import TracebackType
from typing import Final, Self

from redrive.errors import InvalidSetting, JourneyNotFound
from redrive.journey.graph import build
from redrive.journey.journey import Journey
from redrive.journey.ledger import JourneyLedger
from redrive.journey.records import Records

MOST_QUEUED: Final = 100_000
"""How many messages in queues are looked at: no index has their ids, as it would cost every message that is sent."""

_MOST_ROUNDS: Final = 20
_MOST_MESSAGES: Final = 500


class Journeys:
    """Finds out what happened to messages. Made by ``redrive.open_journeys``; use it with ``async with``.

    Args:
        ledger: knows what the tables know.
    """

    def __init__(self, ledger: JourneyLedger) -> None:
        self._ledger = ledger

    async def __aenter__(self) -> Self:
        await self._ledger.open()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self._ledger.close()

    async def find(self, id: str) -> Journey:  # noqa: A002 - what it is
        """Return the journey of a message, with its parents and children.

        Args:
            id: the message's id, or that of a task, an item or a shipment of a pipeline.

        Raises:
            JourneyNotFound: there is no record of it.
        """
        if not isinstance(id, str) or not id:
            raise InvalidSetting("id", id, "must be the id of a message")
        known, following = {id}, [id]
        records = Records()
        for number in range(_MOST_ROUNDS):
            more = await self._ledger.records(following, MOST_QUEUED, back=number == 0)
            records = _merged(records, more)
            following = sorted(_related(records) - known)[: _MOST_MESSAGES - len(known)]
            known.update(following)
            if not following:
                break
        if not (records.entries or records.queued or records.failures or records.tasks):
            raise JourneyNotFound(id)
        return build(id, records)


def _related(records: Records) -> set[str]:
    """Return the ids of all messages that are spoken of."""
    found = {each.message_id for each in records.entries if each.layer == "redeliver"}
    found |= {each.message_id for each in records.queued} | {each.message_id for each in records.failures}
    parents = {each.parent for each in records.entries} | {each.parent for each in records.queued}
    parents |= {each.parent for each in records.failures}
    found |= {parent for parent in parents if parent is not None}
    found |= {parent for parent, _ in records.submissions}
    found |= {each.edited_as for each in records.failures if each.edited_as is not None}
    return found | {each.delivery_id for task in records.tasks for each in task.shipments}


def _merged(first: Records, second: Records) -> Records:
    tasks = {each.id: each for each in (*first.tasks, *second.tasks)}
    for task in first.tasks:  # what one look knows of parents, another may not
        if set(task.parents) > set(tasks[task.id].parents):
            tasks[task.id] = task
    return Records(
        entries=tuple(dict.fromkeys((*first.entries, *second.entries))),
        queued=tuple(dict.fromkeys((*first.queued, *second.queued))),
        failures=tuple({each.id: each for each in (*first.failures, *second.failures)}.values()),
        tasks=tuple(tasks.values()),
        submissions=first.submissions | second.submissions,
        topics=first.topics | second.topics,
        was_cut=first.was_cut or second.was_cut,
        now=max(first.now, second.now),
    )
