# SPDX-License-Identifier: MIT
"""Does what no call asks for: removes what has expired, and queues that no one uses."""

from collections.abc import Collection
from typing import Final

from redrive.broker.port import Upkeep
from redrive.broker.rules import has_had_its_deliveries, use_granularity_s
from redrive.engines.nats.catalog import Definition
from redrive.engines.nats.consumers import ConsumerProgress
from redrive.engines.nats.parts import Parts
from redrive.engines.nats.queues import Queues
from redrive.engines.nats.receiver import Receiving
from redrive.engines.nats.records import MessageRecord
from redrive.engines.nats.subjects import MessageLane

_AT_ONCE: Final = 200


class Tidying:
    """What tidies a namespace up.

    Args:
        parts: the parts of the engine.
        receiving: reads and removes messages.
        queues: changes and deletes them.
    """

    def __init__(self, parts: Parts, receiving: Receiving, queues: Queues) -> None:
        self._connection = parts.connection
        self._subjects = parts.subjects
        self._catalog = parts.catalog
        self._consumers = parts.consumers
        self._locks = parts.locks
        self._clock = parts.clock
        self._receiving = receiving
        self._queues = queues

    async def round(self, limit: int, waited_for: Collection[str]) -> Upkeep:
        """Do a bounded amount.

        Args:
            limit: how many messages it may remove.
            waited_for: queues that are in use, since someone waits for them.
        """
        released = self._locks.sort_out(limit)
        queues = await self._catalog.all()
        gone, left, is_finished = 0, limit, released < limit or limit == 0
        over_delivered = 0
        for queue in queues:
            if queue.is_topic:
                continue
            if await self._is_idle(queue, waited_for):
                await self._queues.delete(queue.name)
                gone += 1
                continue
            if queue.longer_lock and queue.longer_until <= self._clock.time():
                await self._queues.shorten_locks(queue)
            over_delivered += await self._bury_spent(queue)
            done, is_all = await self._expire(queue, left)
            left -= done
            is_finished = is_finished and is_all
        return Upkeep(
            released=released,
            expired=limit - left,
            over_delivered=over_delivered,
            queues_deleted=gone,
            is_finished=is_finished,
        )

    async def _is_idle(self, queue: Definition, waited_for: Collection[str]) -> bool:
        idle_s = queue.of_queue.auto_delete_on_idle
        if idle_s is None or queue.name in waited_for:
            return False
        used = await self._connection.last(self._subjects.stream, self._subjects.used(queue.key))
        last = queue.created_at if used is None else float(used.body)
        return self._clock.time() - last >= idle_s + use_granularity_s(idle_s)

    async def _bury_spent(self, queue: Definition) -> int:
        """Make dead letters of messages whose last lock, which was one of this engine, has ended."""
        most = queue.of_queue.max_delivery_count
        spent = [
            subject
            for subject, count in self._locks.returned()
            if has_had_its_deliveries(count, most) and self._subjects.place(subject).key == queue.key
        ]
        records = await self._receiving.records(spent)
        for subject in spent:
            self._locks.forget_returned(subject)
        return await self._receiving.end(records, queue, is_spent=True)

    async def _expire(self, queue: Definition, limit: int) -> tuple[int, bool]:
        """Remove what has expired from a queue, at most so many; say how many it were, and whether these were all."""
        now = self._clock.time()
        due: list[str] = []
        for lane in (MessageLane.READY, MessageLane.ASIDE):
            subjects = await self._receiving.in_order(self._subjects.expiring(lane, queue.key))
            due += [each for each in subjects if self._subjects.place(each).expires <= now + 1]
        if not due:
            return 0, True
        progress = await self._consumers.progress(queue)
        done = 0
        for start in range(0, len(due), _AT_ONCE):
            records = await self._receiving.records(due[start : start + _AT_ONCE])
            over = [each for each in records if each.has_expired(now) and not self._may_be_locked(each, now, progress)]
            if done + len(over) > limit:
                return done + await self._receiving.end(over[: limit - done], queue), False
            done += await self._receiving.end(over, queue)
        return done, True

    def _may_be_locked(self, record: MessageRecord, now: float, progress: ConsumerProgress) -> bool:
        """Say whether someone may have a message: then it does not expire yet."""
        if record.place.lane is not MessageLane.READY:
            return record.token is not None and record.until > now
        subject = self._subjects.message(record.place)
        if self._locks.held_at(subject) is not None:
            return True
        return record.sequence <= progress.last and progress.out > 0 and not self._locks.is_returned(subject)
