# SPDX-License-Identifier: MIT
"""The engine on a cluster: queues in NATS JetStream.

One stream holds everything, replicated as often as asked for. Effects become one atomic batch, in which every change of
a message is fenced by the version that it changes; the layout is in ``subjects``. Consumers hand messages out, and the
server's clock ends locks and moves what was scheduled; the clocks of this engine's machine decide what has expired.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from random import Random
from typing import Any, Final, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg

from redrive.broker import rules
from redrive.broker.port import (
    Abandon,
    Capabilities,
    Complete,
    DeadLetter,
    Defer,
    Effect,
    EffectResult,
    Lock,
    QueueInfo,
    QueueSettings,
    Received,
    Rule,
    State,
    TopicInfo,
    TopicSettings,
    Upkeep,
    check_settings_supported,
)
from redrive.clock import Clock, system_clock, utc
from redrive.engines import stored
from redrive.engines.hints import Hints
from redrive.engines.nats import errors
from redrive.engines.nats.catalog import Catalog, Definition
from redrive.engines.nats.changes import EffectPlan, Planner
from redrive.engines.nats.connection import NatsConnection
from redrive.engines.nats.consumers import Consumers
from redrive.engines.nats.errors import StreamRefusal
from redrive.engines.nats.group_commit import MOST_IN_A_CHANGE, GroupCommit, StreamEntry
from redrive.engines.nats.inspection import Looking
from redrive.engines.nats.locks import Held, Locks
from redrive.engines.nats.numbers import Numbers
from redrive.engines.nats.parts import Parts
from redrive.engines.nats.queues import Queues
from redrive.engines.nats.receiver import Receiving
from redrive.engines.nats.removal import remove
from redrive.engines.nats.stream import ensure_stream
from redrive.engines.nats.subjects import Subjects
from redrive.engines.nats.upkeep import Tidying
from redrive.errors import InvalidSetting, LockLost, RedriveError, StorageFull

T = TypeVar("T")

_LOOK_EVERY_S: Final = 0.5
"""How long what has come due, or whose lock has ended, may wait for a receiver: no one tells of these."""

_MOST_EFFECTS: Final = MOST_IN_A_CHANGE // 2
"""Most effects store one message, some two."""

_TRIES: Final = 20


class NatsEngine:
    """Queues in NATS JetStream.

    Args:
        servers: their addresses: ``nats://user:password@host:4222``.
        namespace: what its stream is called; two namespaces know nothing of each other.
        replicas: on how many servers everything is kept; None: on three, if there are as many, and otherwise on one.
        patience: for how many seconds a call is made again while no server answers, as during an election.
        attempt: for how many seconds an attempt may go without an answer.
        clock: what waiting, expiry and the engine's own deadlines of locks go by.
        pace: how many of the server's seconds one of the clock's is; less than 1 in tests, so that they need not wait.
    """

    def __init__(
        self,
        servers: Sequence[str],
        *,
        namespace: str = "redrive",
        replicas: int | None = None,
        patience: float = 15.0,
        attempt: float = 2.0,
        clock: Clock = system_clock,
        pace: float = 1.0,
    ) -> None:
        if replicas is not None and replicas not in (1, 3, 5):
            raise InvalidSetting("replicas", replicas, "must be 1, 3 or 5: an even number survives no more failures")
        self._clock = clock
        self._replicas = replicas
        self._subjects = subjects = Subjects(namespace)
        self._connection = connection = NatsConnection(
            servers, patience=patience, attempt=attempt, on_new=self._subscribe_to_news
        )
        self._catalog = Catalog(connection, subjects, clock)
        self._locks = Locks(clock)
        self._commits = GroupCommit(connection, subjects, self._note)
        self._numbers = Numbers(subjects, Random())
        self._consumers = Consumers(connection, subjects, pace)
        known = connection, subjects, self._catalog, self._consumers, self._commits, self._locks, self._numbers
        parts = Parts(*known, clock, pace)
        self._queues = Queues(parts)
        self._planner = Planner(parts)
        self._receiving = Receiving(parts)
        self._looking = Looking(parts, self._receiving)
        self._tidying = Tidying(parts, self._receiving, self._queues)
        self._hints = Hints(clock, self._look, _LOOK_EVERY_S)
        self._under_way: set[asyncio.Future[Any]] = set()
        self._left: set[asyncio.Future[Any]] = set()  # those of them that no one waits for
        self._attended: Counter[str] = Counter()
        self._asked_at: dict[str, float] = {}  # when receivers of a queue last asked for messages, or were woken
        self._used: dict[str, float] = {}
        self._names: dict[str, str] = {}
        self._untold: dict[str, int] = {}

    @property
    def name(self) -> str:
        """What people call it."""
        return "NATS"

    @property
    def capabilities(self) -> Capabilities:
        """All but the old place in a queue, and what others have locked."""
        return Capabilities(keeps_place=False, sees_locks=False, most_effects=_MOST_EFFECTS, time_resolution_s=0.3)

    # --- opening and closing

    async def open(self) -> None:
        """Connect, and create the stream if it is not there."""
        await self._connection.open()
        try:
            await ensure_stream(self._connection, self._subjects, self._replicas)
            await self._numbers.claim(self._commits)
        except BaseException:
            await self._connection.close()
            raise
        self._hints.open()

    async def close(self) -> None:
        """Finish what was accepted, and disconnect."""
        await self._hints.close()
        while self._under_way:
            await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._commits.finish()
        try:
            self._connection.check_open()
        except RedriveError:
            return
        try:
            await self._consumers.settled()
            await self._numbers.give_up(self._commits)
        except RedriveError:
            pass  # it ends by itself
        finally:
            await self._connection.close()

    async def _subscribe_to_news(self, client: Client) -> None:
        await client.subscribe(self._subjects.definitions, cb=self._hear_of_change)
        await client.subscribe(self._subjects.hint("*"), cb=self._hear_of_message)
        self._catalog.forget()

    async def _hear_of_change(self, _: Msg) -> None:
        self._catalog.forget()

    async def _hear_of_message(self, message: Msg) -> None:
        key = message.subject.rpartition(".")[2]
        if message.data.isdigit():
            self._consumers.note_stored(key, int(message.data))
        self._wake({key})

    def _note(self, entries: Sequence[StreamEntry]) -> None:
        self._looking.note(entries)
        for key, sequence in self._ready(entries).items():
            self._consumers.note_stored(key, sequence)

    def _ready(self, entries: Sequence[StreamEntry]) -> dict[str, int]:
        """Return the stream's number of the last message that has become ready, by the keys of queues."""
        found = [self._subjects.ready_key(each.subject) for each in entries]
        numbers = [(key, each.sequence) for key, each in zip(found, entries, strict=True) if key and each.sequence]
        return dict(sorted(numbers))

    # --- queues

    async def declare(self, name: str, settings: QueueSettings) -> bool:
        """Create a queue and its dead-letter queue."""
        check_settings_supported(self, settings)
        return await self._finished(self._queues.declare(name, settings))

    async def update(self, name: str, settings: QueueSettings) -> None:
        """Change a queue's settings."""
        if settings.requires_session:
            (await self._catalog.queue(name)).of_queue.changed(settings)
        await self._finished(self._queues.update(name, settings))

    async def delete(self, name: str) -> None:
        """Remove a queue and all it holds."""
        await self._finished(self._queues.delete(name))
        self._hints.wake([name])

    async def declare_topic(self, name: str, settings: TopicSettings) -> bool:
        """Create a topic and its dead-letter queue."""
        return await self._finished(self._queues.declare_topic(name, settings))

    async def update_topic(self, name: str, settings: TopicSettings) -> None:
        """Change a topic's settings."""
        await self._finished(self._queues.update_topic(name, settings))

    async def subscribe(self, topic: str, name: str, rule: Rule, settings: QueueSettings) -> bool:
        """Create a subscription, or give it another rule."""
        check_settings_supported(self, settings)
        return await self._finished(self._queues.subscribe(topic, name, rule, settings))

    async def unsubscribe(self, topic: str, name: str) -> None:
        """Remove a subscription and all its queue holds."""
        await self._finished(self._queues.unsubscribe(topic, name))

    async def topics(self, name: str | None = None) -> list[TopicInfo]:
        """Describe topics."""
        return await self._looking.topics(name)

    async def inspect(self, name: str | None = None) -> list[QueueInfo]:
        """Describe queues."""
        await self._settled()
        return await self._looking.inspect(name)

    # --- messages

    async def apply(self, effects: Sequence[Effect]) -> list[EffectResult]:
        """Apply all effects or none."""
        self._connection.check_open()
        return await self._finished(self._apply(effects))

    async def _apply(self, effects: Sequence[Effect]) -> list[EffectResult]:
        locks = [effect.lock for effect in effects if isinstance(effect, Complete | Abandon | Defer | DeadLetter)]
        over = await self._locks.use(locks)
        try:
            return await self._applied(effects)
        finally:
            over()

    async def _applied(self, effects: Sequence[Effect]) -> list[EffectResult]:
        for attempt in range(_TRIES):
            plan = await self._planner.plan(effects, anew=attempt > 0)
            try:
                if plan.entries:
                    await self._stored(effects, plan)
            except StreamRefusal:
                self._catalog.forget()
                continue
            self._after(plan)
            return plan.results
        raise errors.busy(self._connection.where)

    async def _stored(self, effects: Sequence[Effect], plan: EffectPlan) -> None:
        is_completion = len(effects) == 1 and isinstance(effects[0], Complete)
        if is_completion and plan.used[0].is_first and self._locks.is_certain(plan.used[0]):
            await self._removed(plan.used[0])
            return
        try:
            await self._commits.commit(plan.entries)
        except StorageFull:
            if not is_completion:
                raise
            await self._removed(plan.used[0])

    async def _removed(self, held: Held) -> None:
        await remove(self._connection, self._subjects, held, lambda: self._locks.is_certain(held))

    def _after(self, plan: EffectPlan) -> None:
        for held in plan.used:
            self._locks.drop(held)
        for queue in plan.touched.values():
            self._note_use(queue)
        self._tell(plan.woken, self._ready(plan.entries))

    async def lock_next(
        self, queue: str, limit: int, *, delete: bool = False, max_bytes: int | None = None
    ) -> list[Received]:
        """Lock the next messages that are ready, or take them out."""
        await self._settled()
        self._hints.asked(queue)
        self._asked_at[queue] = self._clock.monotonic()
        with self._attending(queue):
            self._note_use(await self._catalog.queue(queue))
            most = stored.bounded(limit)
            return await self._locking(self._receiving.next(queue, most, max_bytes, delete=delete))

    async def lock_deferred(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock deferred messages by their numbers."""
        self._note_use(await self._catalog.queue(queue))
        return await self._locking(self._receiving.numbered(queue, sequences, deferred=True))

    async def lock_chosen(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock dead letters by their numbers."""
        self._note_use(await self._catalog.queue(queue))
        return await self._locking(self._receiving.numbered(queue, sequences, deferred=False))

    async def renew(self, locks: Sequence[Lock]) -> list[datetime | None]:
        """Lengthen locks."""
        self._connection.check_open()
        return list(await asyncio.gather(*(self._renew(lock) for lock in locks)))

    async def _renew(self, lock: Lock) -> datetime | None:
        held = self._locks.find(lock)
        queue = await self._catalog.find(rules.source_queue(lock.queue))
        if held is None or queue is None or self._subjects.place(held.subject).key != queue.key:
            return None
        self._note_use(queue)
        seconds = queue.of_queue.lock_duration
        if held.reply:
            if not self._locks.is_own(held):  # the process that has given it out may have settled with it
                try:
                    await self._planner.current(held)
                except LockLost:
                    return None
            await self._consumers.renew(held.reply)
            return utc(self._locks.renewed(held, seconds))
        renewed = await self._receiving.renew(held, seconds)
        return None if renewed is None else utc(renewed)

    async def peek(
        self,
        queue: str,
        limit: int,
        *,
        start: int = 0,
        states: Sequence[State] | None = None,
        max_bytes: int | None = None,
    ) -> list[Received]:
        """Look at messages in order of their numbers."""
        await self._settled()
        return await self._looking.peek(queue, stored.bounded(limit), start, states, max_bytes)

    async def upkeep(self, limit: int = 1_000) -> Upkeep:
        """Remove what has expired, and idle queues."""
        await self._settled()
        await self._numbers.keep(self._commits)
        return await self._tidying.round(stored.bounded(limit), {*self._hints.queues, *self._attended})

    # --- callers who leave

    async def _finished(self, doing: Coroutine[Any, Any, T]) -> T:
        """Finish what was begun, even if the caller leaves."""
        task = self._started(doing)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._leave_behind(task)
            raise

    def _started(self, doing: Coroutine[Any, Any, T]) -> "asyncio.Future[T]":
        task = asyncio.ensure_future(doing)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return task

    def _start(self, doing: Coroutine[Any, Any, None]) -> None:
        """Begin what no one waits for."""
        self._leave_behind(self._started(doing))

    def _leave_behind(self, task: "asyncio.Future[Any]") -> None:
        self._left.add(task)
        task.add_done_callback(self._left.discard)

    def _ended(self, task: "asyncio.Future[Any]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may have left

    async def _locking(self, locking: Coroutine[Any, Any, list[Received]]) -> list[Received]:
        """Lock messages; for a caller who leaves meanwhile, they are given back."""
        task = self._started(locking)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._start(self._given_back(task))
            raise

    async def _given_back(self, locking: "asyncio.Future[list[Received]]") -> None:
        (found,) = await asyncio.gather(locking, return_exceptions=True)
        if isinstance(found, list) and (locks := [one.lock for one in found if one.lock is not None]):
            await self._apply([Abandon(lock, uncount=True) for lock in locks])

    async def _settled(self) -> None:
        """Wait until what callers have left behind is done."""
        self._connection.check_open()
        if self._left:
            await asyncio.gather(*self._left, return_exceptions=True)

    # --- use

    def _note_use(self, queue: Definition) -> None:
        """Note that a queue is in use, if that was not noted a moment ago."""
        self._names[queue.key] = queue.name
        now = self._clock.time()
        exactly = rules.use_granularity_s(queue.of_queue.auto_delete_on_idle)
        if abs(now - self._used.get(queue.key, queue.created_at)) < exactly:
            return
        self._used[queue.key] = now
        entry = StreamEntry(self._subjects.used(queue.key), repr(now).encode()).alone()
        self._start(self._noted(entry))

    async def _noted(self, entry: StreamEntry) -> None:
        await self._commits.commit([entry])

    # --- waiting

    async def wait(self, queue: str, seconds: float) -> None:
        """Wait for a hint that something may be ready; not so long that an idle queue could be deleted meanwhile."""
        self._connection.check_open()
        with self._attending(queue):
            found = await self._catalog.queue(queue)
            self._names[found.key] = found.name
            await self._hints.wait(queue, min(seconds, rules.longest_wait_s(found.of_queue.auto_delete_on_idle)))

    @contextmanager
    def _attending(self, queue: str) -> Generator[None]:
        """Let a queue be in use while someone asks or waits for its messages."""
        self._attended[queue] += 1
        try:
            yield
        finally:
            self._attended[queue] -= 1
            if not self._attended[queue]:
                del self._attended[queue]

    async def _look(self, queues: Sequence[str]) -> tuple[Sequence[str], float | None]:
        """Wake those who have not asked for a while: a receive finds what has come due, and whose lock has ended."""
        now = self._clock.monotonic()
        left = {queue: self._asked_at.setdefault(queue, now) + _LOOK_EVERY_S - now for queue in queues}
        found = [queue for queue, each in left.items() if each <= 0]
        self._asked_at |= dict.fromkeys(found, now)
        first = min((each for each in left.values() if each > 0), default=None)
        return found, None if first is None else self._clock.time() + first

    def _tell(self, keys: set[str], stored_: Mapping[str, int]) -> None:
        """Wake those who wait for queues, here and elsewhere; many who send at the same time tell it once."""
        self._wake(keys)
        is_telling = bool(self._untold)
        for key in keys:
            self._untold[key] = max(self._untold.get(key, 0), stored_.get(key, 0))
        if keys and not is_telling:
            self._start(self._tell_others())

    async def _tell_others(self) -> None:
        untold, self._untold = self._untold, {}
        for key, sequence in untold.items():
            await self._connection.publish(self._subjects.hint(key), b"%d" % sequence)

    def _wake(self, keys: set[str]) -> None:
        names = [self._names[key] for key in keys if key in self._names]
        self._hints.wake([*names, *(rules.dead_letter_queue(name) for name in names)])
