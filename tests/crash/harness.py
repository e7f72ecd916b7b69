# SPDX-License-Identifier: MIT
"""Processes that die between any two calls of a store or a broker, in an order that a seed decides.

A ``World`` has the databases, a clock and the turns: every call that a process makes to its engine or its ledger waits
for its turn, one call is under way at a time, and the clock moves on to the next alarm when nobody wants a turn. So a
run is the same whenever it is repeated, and the calls of a run can be counted: a ``Mishap`` befalls a process at the
n-th of its calls, before that is made or after, when its effect is there and its answer is lost.

A process that is dead makes no call any more, whatever its ``finally`` clauses try; its leases and locks stay until
their time is over.
"""

import asyncio
import inspect
import random
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count

from redrive.broker import Broker, Complete, Message, QueueSettings, Received, Send, State
from redrive.broker.headers import RECOVERY_TAG
from redrive.broker.rules import STAGING_QUEUES
from redrive.clock import pause, utc
from redrive.engines.sql.recovery.ledger import SqlLedger
from redrive.errors import EngineUnavailable, InvalidSetting, LeaseLost, LockLost, OperationConflict
from redrive.recovery import (
    LaneSettings,
    OperationState,
    Outcome,
    Recovery,
    ServiceSettings,
    Status,
    TransformSettings,
)
from redrive.recovery.failure_formats import clean, read_failure
from redrive.recovery.identity import failure_id
from redrive.recovery.states import ENDED, SENT
from redrive.worker.confirmation import confirmation_of, digest_of
from tests.clocks import SharedClock

DESTINATIONS = ("a", "b")
LANES = LaneSettings(page=2, lock_duration=10.0)
TRANSFORMS = TransformSettings(allow="tests.recovery.functions:*", seconds=30.0)
CHANGING = []
"""The messages that functions are changing, in processes whose time is not ours."""

A_MOMENT_S = 0.001
MOST_TURNS = 6_000
"""No run comes near it; one that does goes round in circles."""


_BESIDE_THE_WORK = ("worker_present", "worker_absent", "flush_tallies")
"""What workers note about themselves: no message depends on it, and a death may come at any of it."""


class Crash(BaseException):
    """The process is dead. No ``except Exception`` notices."""


@dataclass(frozen=True)
class Mishap:
    """What befalls a process at the n-th of its calls.

    Attributes:
        nth: at which; 0: never.
        when: before the call is made, or after.
        kind: ``dies``; ``fails``: the call does, and the process lives on; ``freezes``: until somebody thaws it.
    """

    nth: int = 0
    when: str = "before"
    kind: str = "dies"


def spread(calls, stride, among=None):
    """Return at which calls of a run there are mishaps: at the first of each kind, and at every so many-th after it.

    Args:
        calls: the verbs of a run without a mishap.
        stride: 1 for all of them.
        among: at which verbs, if not all are to be met. Who dies before a call that only reads leaves the same as
            who dies before the next one that changes something.
    """
    assert among is None or among & set(calls)
    seen = Counter()
    for nth, verb in enumerate(calls, 1):
        if stride == 1 or ((among is None or verb in among) and seen[verb] % stride == 0):
            yield nth
        seen[verb] += 1


@dataclass(eq=False)
class Turn:
    """A call that waits to be made, and its process."""

    process: "Process"
    verb: str
    granted: asyncio.Future
    done: asyncio.Future


class Wire:
    """An engine or a ledger, as one process sees it."""

    def __init__(self, process, target):
        self._process = process
        self._target = target

    def __getattr__(self, verb):
        found = getattr(self._target, verb)
        if verb in {"open", "close"} or not inspect.iscoroutinefunction(found):
            return found
        if verb in _BESIDE_THE_WORK:
            return lambda *values, **more: self._process.world.alone(found(*values, **more))

        async def call(*values, **more):
            return await self._process.call(verb, found, *values, **more)

        return call

    async def wait(self, _queue, seconds):
        """Wait for a hint that never comes: nothing may depend on one."""
        await pause(self._process.world.clock, seconds)


class Loose:
    """An engine that cannot send and settle in one transaction: it sends one by one, and then settles one by one.

    Args:
        engine: the one that is like that.
        counts_exactly: whether it knows how many messages there are; if not it says that there are none.
    """

    def __init__(self, engine, *, counts_exactly=True):
        self._engine = engine
        self._counts_exactly = counts_exactly

    def __getattr__(self, verb):
        return getattr(self._engine, verb)

    @property
    def capabilities(self):
        return replace(self._engine.capabilities, is_transactional=False, counts_exactly=self._counts_exactly)

    async def apply(self, effects):
        outcomes = {}
        for place, effect in sorted(enumerate(effects), key=lambda each: not isinstance(each[1], Send)):
            outcomes[place] = (await self._engine.apply([effect]))[0]
        return [outcomes[place] for place in range(len(effects))]

    async def inspect(self, name=None):
        infos = await self._engine.inspect(name)
        return infos if self._counts_exactly else [replace(info, ready=0, locked=0) for info in infos]


class Process:
    """One process at work on the databases of a world.

    Attributes:
        calls: the verbs it has called.
        is_dead: whether it makes no more calls.
        is_frozen: whether it makes none for now.
    """

    def __init__(self, world, name, mishap, loose):
        self.world = world
        self.name = name
        self.mishap = mishap
        self.calls = []
        self.is_dead = self.is_frozen = False
        self.events = []
        self._raw = world.queues.engine(world.clock)
        ledger = SqlLedger(self._raw, is_shared=True, is_with_queues=True)
        self._raw_store = None
        if world.store is not world.queues:
            self._raw_store = world.store.engine(world.clock)
            ledger = SqlLedger(self._raw_store, is_shared=True)
        self.engine = Wire(self, self._raw)
        if loose is not None:
            self.engine = Loose(self.engine, **loose)
        self.broker = Broker(self.engine, clock=world.clock, new_id=world.new_id)
        self.recovery = Recovery(
            self.broker,
            Wire(self, ledger),
            settings=world.settings,
            new_id=lambda: f"{name}-{world.new_id()}",
            chance=lambda: 0.5,
            on_event=self.events.append,
        )

    def __str__(self):
        return self.name

    async def live(self, script):
        """Start, do something, and end: well, or by its mishap."""
        for raw in filter(None, (self._raw, self._raw_store)):
            await self.world.opened(raw)
        try:
            await patiently(self.recovery.__aenter__)
            await script(self)
        except Crash:
            assert self.is_dead
        finally:
            self.recovery.stop()
            self.world.let_go(self)
            for raw in filter(None, (self._raw, self._raw_store)):
                await self.world.closed(raw)

    async def call(self, verb, found, *values, **more):
        """Make a call when it is our turn."""
        turn = await self.world.turn(self, verb)
        try:
            self.calls.append(verb)
            is_now = len(self.calls) == self.mishap.nth
            if is_now and self.mishap.when == "before":
                self._befall(verb)
            try:
                answer = await found(*values, **more)
            except LeaseLost:
                self.world.refused += 1
                raise
            self.world.seen(self, verb, values, answer)
            if is_now and self.mishap.when == "after":
                self._befall(verb)
            return answer
        finally:
            turn.done.set_result(None)

    def _befall(self, verb):
        if self.mishap.kind == "fails":
            raise EngineUnavailable(f"no answer to {verb}")
        self.die()
        raise Crash(verb)

    def die(self):
        """Make no more calls."""
        self.is_dead = True
        self.world.bury(self)

    async def work(self, steps=200):
        """Do all work there is, and wait for what has to wait a moment."""
        for _ in range(steps):
            try:
                step = await self.recovery.step()
                if not step and (step.next_in is None or step.next_in > LANES.lock_duration):
                    return
                if not step:
                    await pause(self.world.clock, step.next_in)
            except LeaseLost:
                continue  # a neighbour has it now
        raise AssertionError(f"{self}: there is no end of work\n{self.world.story()}")


class World:
    """The databases, the time, and whose turn it is.

    Args:
        queues: the home of the queues.
        store: the home of the ledger; the same or another.
        seed: decides the order of turns.
        settings: how processes work.
        is_shared: whether all processes use one open engine for each home: to open one takes long.
        clock: what moves the time.
    """

    def __init__(self, queues, store=None, *, seed=0, settings=None, is_shared=False, clock=None):
        self.queues = Keeping(queues) if is_shared else queues
        self.store = self.queues if store in (None, queues) else Keeping(store) if is_shared else store
        self.is_shared = is_shared
        self.settings = settings or ServiceSettings(lanes=LANES, transforms=TRANSFORMS)
        self.clock = clock or SharedClock()
        self._ids = count(1)
        self.run = 0
        self.begin(seed)

    def begin(self, seed):
        """Begin a run, on whatever the ones before it have left."""
        self.run += 1
        self.seed = seed
        self.chance = random.Random(seed)
        self.turns = 0
        self.processes = []
        self.waiting = []
        self.log = []
        self.faults = []
        self.refused = 0
        self.thaw_in = None  # so many calls, or as soon as this verb was called, after others took over
        self.favoured = None
        self._thawing = []
        self._outlasted = {}
        self.arrived = Counter()
        self._noted = set()
        self.failures = {}
        self.ids = {}
        self.arrived_ids = Counter()
        self.first_operation = 0
        self._holders = {}
        self._at_work = 0
        self._numbers = count(1)

    # --- processes

    def process(self, mishap=None, *, loose=None):
        """Return a new process."""
        process = Process(self, f"p{len(self.processes) + 1}", mishap or Mishap(), loose)
        self.processes.append(process)
        return process

    async def opened(self, raw):
        """Open an engine, unless it is open already."""
        if not self.is_shared:
            await self.alone(raw.open())

    async def closed(self, raw):
        """Close an engine of a process that has ended."""
        if not self.is_shared:
            await self.alone(raw.close())

    async def alone(self, doing):
        """Do something that takes no turn, while time stands still; return its answer."""
        self._at_work += 1
        try:
            return await doing
        finally:
            self._at_work -= 1

    def new_id(self):
        """Return a name that nothing else has."""
        return f"{next(self._ids):032x}"

    # --- turns

    async def turn(self, process, verb):
        """Wait for a turn."""
        if process.is_dead:
            raise Crash(verb)
        loop = asyncio.get_running_loop()
        turn = Turn(process, verb, loop.create_future(), loop.create_future())
        self.waiting.append(turn)
        try:
            await turn.granted
        except asyncio.CancelledError:
            if turn in self.waiting:
                self.waiting.remove(turn)
            elif not turn.done.done():
                turn.done.set_result(None)
            raise
        return turn

    def bury(self, process):
        """Let whatever a dead process still waits for end."""
        for turn in [each for each in self.waiting if each.process is process]:
            self.waiting.remove(turn)
            turn.granted.set_exception(Crash(turn.verb))

    async def play(self, *doings):
        """Do things side by side, call by call, with the clock moving whenever nobody wants a turn."""
        asyncio.get_running_loop().set_exception_handler(_tell)
        tasks = [asyncio.ensure_future(each) for each in doings]
        try:
            while not await self._is_over(tasks):
                self.turns += 1
                assert self.turns < MOST_TURNS, f"it goes round in circles\n{self.story()}"
                turns = self._runnable()
                if turns:
                    favoured = [turn for turn in turns if turn.process is self.favoured and self.chance.random() < 0.7]
                    await self._grant(self.chance.choice(favoured or turns))
                else:
                    self._tick()
        except AssertionError:
            for process in self.processes:
                process.die()  # so that nobody waits for a turn that never comes
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _is_over(self, tasks):
        """Let everybody run until all wait for a turn or for the clock."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # noqa: TID251 - takes no time, lets others run
            if any(task.done() and not task.cancelled() and task.exception() for task in tasks):
                return True
            if all(task.done() for task in tasks):
                return True
            if not loop._ready and not self._at_work and not CHANGING and (self.waiting or self.clock.sleepers):
                return False
            if self._at_work or CHANGING:
                await asyncio.sleep(A_MOMENT_S)  # noqa: TID251 - threads and processes would get no time from a loop

    def _runnable(self):
        for turn in self.waiting:
            mishap, process = turn.process.mishap, turn.process
            if mishap.kind == "freezes" and len(process.calls) + 1 == mishap.nth:
                process.mishap = Mishap()
                process.is_frozen = True
                for name in [name for name, holder in self._holders.items() if holder is process]:
                    self._outlasted[name] = self._holders.pop(name)
                self.log.append(f"{process} freezes before {turn.verb}")
        return [turn for turn in self.waiting if not turn.process.is_frozen]

    async def _grant(self, turn):
        self.waiting.remove(turn)
        if turn.verb != "hesitates":
            self.log.append(f"{self.clock.monotonic():9.3f} {turn.process} {turn.verb}")
        turn.granted.set_result(None)
        await turn.done
        for thaw in self._thawing:
            if isinstance(thaw[0], int):
                thaw[0] -= 1
            if thaw[0] in {0, turn.verb} and thaw[1].is_frozen:
                thaw[1].is_frozen = False
                self.log.append(f"{thaw[1]} goes on")

    def _tick(self):
        """Move the clock to the next alarm."""
        alarms = self.clock._alarms
        assert alarms, f"everybody waits for nothing\n{self.story()}"
        self.clock.advance(max(0.0, alarms[0][0] - self.clock.monotonic()))

    def seen(self, process, verb, values, answer):
        """Look at what a call has brought: no lease of a live process is taken, and figures always add up."""
        if verb == "hold" and answer is not None:
            before = self._holders.get(answer.name)
            if before is not None and before is not process and not before.is_dead:
                self.faults.append(f"{process} took {answer.name}, which {before} is at work on")
            if answer.name in self._outlasted and self.thaw_in is not None:
                self._thawing.append([self.thaw_in, self._outlasted.pop(answer.name)])
            self._holders[answer.name] = process
        elif verb == "release" and self._holders.get(values[0].name) is process:
            del self._holders[values[0].name]
        elif verb == "settle" and answer in ENDED:  # there is nothing left to hold
            self._holders.pop(values[0].name, None)
        elif verb == "finish" and answer in ENDED:
            self._holders.pop(f"operation/{values[1].operation}", None)
        elif verb in {"operation", "request", "change"}:
            self._add_up(answer)
        elif verb == "operations":
            for operation in answer:
                self._add_up(operation)

    def let_go(self, process):
        """Note that a process has ended, and works on nothing any more: what it could not release ends by itself."""
        if not process.is_dead:
            self._holders = {name: holder for name, holder in self._holders.items() if holder is not process}

    def _add_up(self, operation):
        now = operation.progress
        sent = now.succeeded + now.failed_again + now.waiting + now.closed + now.superseded + now.done
        if now.total != sent + now.skipped + now.failed + now.cancelled + now.remaining or sent != now.forwarded:
            self.faults.append(f"figures do not add up: {operation}")

    def story(self):
        """Return the last of what happened."""
        return "\n".join([f"seed {self.seed}, run {self.run}", *self.log[-80:]])

    # --- messages

    def failed(self, queue, *, size=10, **more):
        """Return a message as a worker puts it into an error queue."""
        number = next(self._numbers)
        id_ = f"run-{self.run}-{self.new_id()[-6:]}-{number}"
        message = Message(
            b"x" * size,
            id=id_,
            headers={
                "redrive-failed-queue": queue,
                "redrive-failed-at": utc(self.clock.time() + number / 1_000).isoformat(),
                "redrive-failed-exception-type": "shop.NoStock",
            },
            **more,
        )
        self.ids[id_] = record_id(message)
        self.failures[self.ids[id_]] = queue
        return message

    async def consume(self, process, queue, *, fails=lambda _id: False, to=None):
        """Handle everything in a queue as a worker does: confirm what went well, move the rest to the error queue.

        With ``to`` a message that went well is passed on, with all its headers.
        """
        while page := await process.engine.lock_next(queue, 100):
            for received in page:
                self._note(received)
                if fails(self.ids.get(received.id)):
                    told = {
                        "redrive-failed-queue": queue,
                        "redrive-failed-at": utc(self.clock.time() + 0.5).isoformat(),  # later than any first failure
                        "redrive-failed-exception-type": "shop.NoStock",
                    }
                    again = replace(received.message, headers={**received.headers, **told})
                    await process.engine.apply([Send("error", again), Complete(received.lock)])
                else:
                    words = confirmation_of(received.message, queue, utc(self.clock.time()))
                    made = () if to is None else (Send(to, received.message),)
                    await process.broker.apply(*words, *made, Complete(received.lock))

    def _note(self, received):
        if received.queue not in DESTINATIONS and received.queue not in self.failures.values():
            return  # it was passed on, and is no copy of ours
        operation, failure, *_ = str(received.headers[RECOVERY_TAG]).split(".")
        if (received.queue, received.sequence) not in self._noted:  # the consumer may die too, and see it again
            self._noted.add((received.queue, received.sequence))
            self.arrived[int(failure), int(operation)] += 1
            self.arrived_ids[received.id] += 1

    async def collect(self, process, *queues):
        """Take everything out of queues, and note it."""
        for queue in queues:
            while page := await process.engine.lock_next(queue, 500):
                for received in page:
                    self._note(received)
                await process.engine.apply([Complete(received.lock) for received in page])


def record_id(message):
    """Return the id that the record of a message in an error queue gets."""
    failure = read_failure(Received(message, "error", 1, State.READY, utc(0), 1))
    return failure_id(failure, clean(message), digest_of(message.body))


def _tell(loop, context):
    """Say what went wrong where nobody looks, but for a death: that is meant to be."""
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)


class Keeping:
    """A home whose engine is opened once."""

    def __init__(self, home):
        self.home = home
        self.kept = None

    def engine(self, clock):
        """Return the engine that everybody shares."""
        if self.kept is None:
            self.kept = self.home.engine(clock)
        return self.kept


# --- what must hold


async def check(world, process, *, is_loose=False):
    """Say that every message of every operation of a run is accounted for, and nothing is left behind."""
    assert world.faults == [], f"{world.faults}\n{world.story()}"
    recovery = process.recovery
    assert await recovery.check_counts() == [], world.story()
    queues = {each.name: each for each in await process.engine.inspect()}
    await world.collect(process, *sorted(set(world.failures.values()) & set(queues)))
    operations = [each for each in await recovery.operations(limit=500) if each.number > world.first_operation]
    for operation in operations:
        told = f"{operation}\n{world.story()}"
        assert operation.state in ENDED, told
        assert operation.batches_left == 0, told
        assert operation.progress.remaining == 0, told
        parts = await recovery.outcomes(operation.number, limit=10_000)
        assert not [part for part in parts if part.outcome is Outcome.PENDING], told
        assert operation.progress.total == len(parts), told
        for part in parts:
            await _check_part(world, recovery, part, told, is_loose=is_loose)
    known = {part[1] for part in world.arrived} <= {each.number for each in operations}
    assert known, "copies of operations that nobody knows"
    for lane in await recovery.lanes():
        assert lane.batch is None, f"{lane}\n{world.story()}"
        assert lane.session is None, f"{lane}\n{world.story()}"
    for name, info in queues.items():
        if name.startswith(STAGING_QUEUES):
            left = info.ready + info.locked + info.scheduled + info.deferred + info.dead
            assert not left, f"{left} messages are stuck in {name}\n{world.story()}"


async def _check_part(world, recovery, part, told, *, is_loose):
    copies = world.arrived[part.failure, part.operation]
    about = f"{part}, {copies} copies\n{told}"
    is_flagged = is_loose and "may have been sent" in part.reason
    if part.outcome in SENT:
        assert copies >= 1, about
        assert copies == 1 or is_flagged, about
        return
    assert not copies or is_flagged, about
    if part.outcome is Outcome.DONE:
        return
    assert part.outcome in (Outcome.SKIPPED, Outcome.FAILED, Outcome.CANCELLED), about
    assert part.reason, about
    if part.outcome is not Outcome.SKIPPED:
        later = [each for each in (await recovery.show(part.id)).parts if each.operation > part.operation]
        status = (await recovery.show(part.id)).summary.status
        assert status is Status.UNRESOLVED or later, f"{status} {about}"


async def check_free(world, process):
    """Say that whatever is unresolved can be recovered: nothing has a claim on it."""
    left = [each for each in await process.recovery.failed("", limit=500) if each.id in world.failures]
    if left:
        operation = await process.recovery.recover([each.id for each in left])
        await process.work()
        operation = await process.recovery.operation(operation.number)
        assert operation.state is OperationState.COMPLETED, f"{operation}\n{world.story()}"
        assert operation.progress.forwarded == len(left), f"{operation}\n{world.story()}"


# --- one run


async def prepared(world, scenario):
    """Let messages fail, and begin counting operations."""

    async def prepare(process):
        for queue in ("error", *DESTINATIONS):
            await process.engine.declare(queue, QueueSettings())
        made = await process.recovery.operations(limit=1)
        world.first_operation = made[0].number if made else 0
        await scenario.prepare(world, process)

    await world.play(world.process().live(prepare))


async def finished(world, scenario, *, loose=None):
    """Go on as a new process after the clock has passed every lease and lock, and look at what there is."""

    async def go_on(process):
        await scenario.script(world, process)
        await process.work()
        await scenario.check(world, process)
        await check(world, process, is_loose=loose is not None)
        await scenario.mend(world, process)
        await check_free(world, process)
        await check(world, process, is_loose=loose is not None)

    world.clock.advance(100.0)
    await world.play(world.process(loose=loose).live(go_on))


async def run(world, scenario, *mishaps, loose=None):
    """Let processes do a scenario one after the other, each with a mishap; return how many calls each has made."""
    await prepared(world, scenario)
    calls = []
    for mishap in mishaps:
        process = world.process(mishap, loose=loose)
        await world.play(process.live(lambda process: enduring(world, process, scenario)))
        calls.append(len(process.calls))
        world.clock.advance(100.0)
    await finished(world, scenario, loose=loose)
    return calls


async def enduring(world, process, scenario):
    """Do a scenario, again if a call has failed."""

    async def do():
        await scenario.script(world, process)
        await process.work()

    await patiently(do)


async def patiently(do):
    """Do something, again if a call has failed."""
    while True:
        try:
            return await do()
        except (EngineUnavailable, LockLost):
            continue


async def tolerating(doing):
    """Do something that may have been done before the process died."""
    try:
        return await doing
    except (OperationConflict, InvalidSetting):
        return None
