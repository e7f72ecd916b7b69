# SPDX-License-Identifier: MIT
"""Where recovery lives in these tests: three sites, processes on them that can die, and a clock that tests move.

``one-file`` has queues and ledger in one SQLite file, ``one-schema`` both in PostgreSQL, ``apart`` has the queues in
PostgreSQL and the ledger in SQLite. Every process sees its engine and its ledger through a ``Wire``: that counts what
is under way, lets a test do something at a certain moment, and is cut when the process dies. After every change of the
ledger the figures of all operations and the counts of failures are checked.
"""

import asyncio
import inspect
from collections import Counter
from contextlib import asynccontextmanager, suppress
from itertools import count

from redrive.broker import Broker, Complete, Message
from redrive.clock import utc
from redrive.engines.sql.recovery.ledger import SqlLedger
from redrive.engines.sql.script import Sql
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import RedriveError
from redrive.recovery import LaneSettings, OperationState, Recovery, ServiceSettings
from redrive.worker import Recoverability, Worker
from redrive.worker.confirmation import confirmation_of
from tests.clocks import SharedClock
from tests.conformance.homes import PostgresHome, SqliteHome

AT_ONCE = Recoverability(immediate=0, delayed=None, error_queue="error")
"""One try, then the error queue."""

CHANGING = []
"""The messages that functions are changing, in processes whose time is not ours."""

CHANGES = frozenset(
    {
        "record_unlocked",
        *("record", "confirm", "request", "change", "set_rate", "acknowledge", "sweep", "mark", "claim"),
        *("advance", "settle", "staged", "forwarded", "doubt", "eject", "unstage", "finish"),
    }
)
A_MOMENT_S = 0.001
MOST_TURNS = 500
"""So often everybody has a turn, and some still want another: they wait for the clock in a loop of their own."""

TRACE = """Traceback (most recent call last):
  File "/srv/shop/orders.py", line 20, in handle
    place(order)
  File "/srv/shop/stock.py", line 7, in place
    raise {kind}({said!r})
{kind}: {said}
"""


class Crash(Exception):
    """The process is dead."""


class Refused(RedriveError):
    """The broker does not take a message."""


class Figures:
    """What the figures of operations must hold, whenever somebody looks."""

    def __init__(self):
        self._lock = asyncio.Lock()
        self._seen = {}
        self._over = set()

    async def check(self, ledger):
        """Look at all operations, and compare with what was there before."""
        async with self._lock:
            for operation in await ledger.operations(limit=100):
                is_news = operation.number not in self._over
                self._check_one(operation)
                if is_news and operation.number in self._over:
                    rows = await ledger.parts(operation.number, limit=operation.progress.total + 1)
                    assert len(rows) == operation.progress.total, operation

    def _check_one(self, operation):
        now = operation.progress
        told = (operation.number, operation.state.word, now)
        assert now.total == now.forwarded + now.skipped + now.failed + now.cancelled + now.remaining, told
        heard = now.succeeded + now.failed_again + now.waiting
        assert now.forwarded == heard + now.closed + now.superseded + now.done, told
        assert min(now.forwarded, now.skipped, now.failed, now.cancelled, now.remaining) >= 0, told
        assert 0.0 <= now.share <= 1.0, told
        if operation.state in (OperationState.COMPLETED, OperationState.CANCELLED):
            assert now.remaining == 0, told
            assert operation.batches_left == 0, told
            self._over.add(operation.number)
        before = self._seen.get(operation.number)
        if before is not None:
            assert now.total == before.total, (told, before)
            assert now.share >= before.share, (told, before)
            assert now.forwarded >= before.forwarded, (told, before)
            assert now.failed >= before.failed, (told, before)
        self._seen[operation.number] = now


class Clock(SharedClock):
    """A clock that knows when somebody wants to be woken."""

    @property
    def next_alarm_in(self):
        """How many seconds it is to the next alarm; 0 if there is none."""
        return self._alarms[0][0] - self._passed + 1e-9 if self._alarms else 0.0


class Wire:
    """An engine or a ledger, as one process sees it."""

    def __init__(self, process, name, target):
        self._process = process
        self._name = name
        self._target = target

    def __getattr__(self, verb):
        found = getattr(self._target, verb)
        if verb in {"open", "close", "wait"} or not inspect.iscoroutinefunction(found):
            return found
        return self._wrapped(f"{self._name}.{verb}", found)

    def _wrapped(self, verb, found):
        async def call(*values, **more):
            process = self._process
            await process.meet("before", verb, values)
            process.at_work += 1
            try:
                answer = await found(*values, **more)
                if verb.startswith("ledger.") and verb.removeprefix("ledger.") in CHANGES:
                    await process.site.figures.check(self._target)
                    assert await self._target.check_counts() == []
            finally:
                process.at_work -= 1
            await process.meet("after", verb, values)
            return answer

        return call


class Process:
    """One process: a broker and a recovery on the databases of a site.

    Attributes:
        events: what recovery reported.
        calls: how often each verb was called.
    """

    def __init__(self, site, **how):
        self.site = site
        self.clock = site.clock
        self.events = []
        self.calls = Counter()
        self.at_work = 0
        self.is_dead = False
        self._hooks = []
        self._refusals = []
        self._raw = site.queues.engine(site.clock)
        ledger = SqlLedger(self._raw, is_shared=True, is_with_queues=True)
        if site.store is not site.queues:
            ledger = SqlLedger(site.store.engine(site.clock))
        self.raw_ledger = ledger
        self._engines = {self._raw, ledger.database}
        for engine in self._engines:
            engine._hints._look = self._counted(engine._hints._look)
        self.engine = Wire(self, "engine", self._raw)
        self.broker = Broker(self.engine, clock=site.clock)
        lanes = LaneSettings(**how.pop("lanes", {}))
        self.recovery = Recovery(
            self.broker,
            Wire(self, "ledger", ledger),
            settings=ServiceSettings(lanes=lanes, **how.pop("settings", {})),
            chance=lambda: 0.5,
            on_event=self.events.append,
            **how,
        )

    @property
    def is_at_work(self):
        """Whether it waits for a database or a thread."""
        writers = [engine._writer for engine in self._engines if isinstance(engine, SqliteEngine)]
        return bool(self.at_work) or any(writer._is_busy for writer in writers)

    def _counted(self, look):
        """Return a look for hints during which the process is at work."""

        async def call(queues):
            self.at_work += 1
            try:
                return await look(queues)
            finally:
                self.at_work -= 1

        return call

    async def open(self):
        await self.broker.__aenter__()
        for queue in ("error", "orders", "billing"):
            await self.broker.declare(queue)
        await self.recovery.__aenter__()
        return self

    async def close(self):
        """End as a program does that has time to."""
        if self in self.site.processes:
            self.site.processes.remove(self)
            await self.recovery.__aexit__(None, None, None)
            try:
                await self.broker.close()
            except Crash:  # of its upkeep; the connections are ours to close
                await self._raw.close()

    async def die(self):
        """End without a word: leases and locks stay, until their time is over."""
        self.is_dead = True
        await self.close()

    # --- what happens when

    def at(self, verb, do, *, when="before", nth=1):
        """Do something when a verb is called for the nth time from now on, before it or after it."""
        self._hooks.append([when, verb, nth, do])

    def dies(self, verb, *, when="before", nth=1):
        """Let the process die at a certain moment."""

        def die(*_values):
            self.is_dead = True

        self.at(verb, die, when=when, nth=nth)

    def fails(self, verb, error, *, times=1):
        """Let a verb raise an error, so many times from now on."""

        def fail(*_values):
            raise error

        for nth in range(1, times + 1):
            self.at(verb, fail, nth=nth)

    def refuses(self, fits, *, times=1_000_000, error=None):
        """Let the broker refuse every transaction with an effect that fits, so many times."""
        self._refusals.append([fits, times, error or Refused("not that one")])

    def _refuse(self, effects):
        for refusal in self._refusals:
            if refusal[1] and any(refusal[0](effect) for effect in effects):
                refusal[1] -= 1
                raise refusal[2]

    async def meet(self, when, verb, values):
        """Let happen what is to happen at this moment."""
        if self.is_dead:
            raise Crash(verb)
        if when == "before":
            self.calls[verb] += 1
            if verb == "engine.apply":
                self._refuse(values[0])
        hooks = [each for each in self._hooks if each[:2] == [when, verb]]
        for hook in hooks:
            hook[2] -= 1
        for hook in [each for each in hooks if each[2] == 0]:
            self._hooks.remove(hook)
            answer = hook[3](*values)
            if inspect.isawaitable(answer):
                await answer
        if self.is_dead:
            raise Crash(verb)

    # --- what tests do often

    async def fail(self, number=1, *, queue="orders", source="error", **told):
        """Let messages fail, and read that; return the ids of their records."""
        made = [self.site.failed_message(queue=queue, **told) for _ in range(number)]
        await self.broker.send_many(source, made)
        await self.recovery.ingest()
        return await self.ids_of(*(each.id for each in made))

    async def ids_of(self, *message_ids):
        """Return the ids of the records of messages, by the ids of these; the last one where there are several."""
        found = await self.sql(
            "SELECT message_id, id FROM @.failure_contents WHERE message_id IN @texts ORDER BY number",
            list(message_ids),
        )
        known = {row[0]: row[1] for row in found}
        return [known[each] for each in message_ids]

    async def recovered(self, chosen="status:unresolved", **how):
        """Ask for a recovery and do it; return the operation as it is then."""
        operation = await self.recovery.recover(chosen, **how)
        await self.work()
        return await self.recovery.operation(operation.number)

    async def work(self, steps=20):
        """Do all work there is, with the clock moving whenever everybody waits."""
        for _ in range(steps):
            if not await self.site.play(self._patient_step()):
                return
        raise AssertionError("there is no end of work")

    async def _patient_step(self):
        """Do what there is to do, as a service does: it waits for what has to wait."""
        found = await self.recovery.ingest()
        return bool(await self.recovery._service.work(waits=True)) or found

    async def arrived(self, queue="orders"):
        """Take everything out of a queue; return what it was."""
        taken = []
        while page := await self.broker.engine.lock_next(queue, 500):
            taken += page
            await self.broker.engine.apply([Complete(each.lock) for each in page])
        return taken

    async def bodies(self, queue="orders"):
        """Take everything out of a queue; return the bodies in order."""
        return sorted(each.body for each in await self.arrived(queue))

    async def succeed(self, *received):
        """Say of messages that they were handled, as a worker does."""
        now = utc(self.clock.time())
        await self.broker.apply(*(told for each in received for told in confirmation_of(each.message, each.queue, now)))
        await self.recovery.ingest()

    async def fail_again(self, *received, source="error", **told):
        """Let messages fail that were sent again."""
        made = [
            self.site.failed_message(queue=each.queue, body=each.body, id=each.id, headers=dict(each.headers), **told)
            for each in received
        ]
        await self.broker.send_many(source, made)
        await self.recovery.ingest()

    async def sql(self, text, *values):
        """Change the ledger behind everybody's back, as a fault or a person with a console does."""

        def script():
            return (yield Sql(text, list(values)))

        return await self.raw_ledger.database.run(script)

    async def summary(self, id_):
        """Return what lists show of one failed message."""
        return (await self.recovery.show(id_)).summary

    async def outcome_words(self, number):
        """Count what became of the messages of an operation."""
        return Counter(each.outcome.word for each in await self.recovery.outcomes(number, limit=20_000))

    @asynccontextmanager
    async def busy_lane(self, lane):
        """Let another process be at work in a lane, so that operations get no further than being claimed."""
        lease = await self.raw_ledger.hold(f"lane/{lane}", "another", 1_000.0)
        yield
        await self.raw_ledger.release(lease)

    @asynccontextmanager
    async def worker(self, handler, *, queue="orders", **how):
        """Run a worker with one handler."""
        worker = Worker("shop", chance=lambda: 0.5)
        worker.handler(queue, **{"recoverability": AT_ONCE, "slow_down": None, **how})(handler)
        running = asyncio.create_task(worker.run(self.broker))
        try:
            yield worker
        finally:
            worker.stop()
            await self.site.play(running)


class Site:
    """The databases, and who is at work on them.

    Args:
        queues: the home of the queues.
        store: the home of the ledger; the same, or another.
    """

    def __init__(self, queues, store):
        self.queues = queues
        self.store = store
        self.clock = Clock()
        self.figures = Figures()
        self.processes = []
        self._numbers = count(1)
        self._has_server = any(isinstance(home, PostgresHome) for home in (queues, store))

    async def open(self, **how):
        """Start a process."""
        process = Process(self, **how)
        self.processes.append(process)
        return await process.open()

    async def crash(self):
        """Let every process die, and the databases with them."""
        for process in self.processes:
            process.is_dead = True
        for home in {self.queues, self.store}:
            home.crash()
        await self.close()

    async def close(self):
        """End every process."""
        for process in list(self.processes):
            with suppress(Crash, Exception):
                await process.close()

    def remove(self):
        """Take everything away."""
        for home in {self.queues, self.store}:
            home.remove()

    def failed_message(
        self, *, queue="orders", kind="shop.errors.NoStock", said="no stock", body=None, at=None, headers=None, **more
    ):
        """Return a message as a worker puts it into an error queue."""
        number = next(self._numbers)
        self.clock.advance(0.001)  # no two failures have the same time
        told = {
            "redrive-failed-queue": queue,
            "redrive-failed-at": utc(self.clock.time() if at is None else at).isoformat(),
            "redrive-failed-reason": "MaxImmediateRetries",
            "redrive-failed-exception-type": kind,
            "redrive-failed-exception-message": said,
            "redrive-failed-exception-source": "shop.stock.place:7",
            "redrive-failed-stack-trace": TRACE.format(kind=kind, said=said),
            "redrive-failed-immediate-retries": 0,
            "redrive-failed-delayed-retries": 0,
            "redrive-failed-host": "host-1",
            "redrive-failed-worker": "shop",
        }
        body = f"order {more.get('id', number)}".encode() if body is None else body  # one id, one body
        more.setdefault("subject", "order.placed")
        more.setdefault("id", f"message-{number}")
        return Message(body, headers={"tenant": "acme", **(headers or {}), **told}, **more)

    async def play(self, doing):
        """Do something, and move the clock to the next alarm whenever everybody waits for it."""
        task = asyncio.ensure_future(doing)
        while not task.done():
            await self._rest(task.done)
            if self._has_server or not self.clock.sleepers:
                await asyncio.sleep(A_MOMENT_S)  # noqa: TID251 - what a server tells comes by itself
                await self._rest(task.done)
            if not task.done():
                self.clock.advance(max(0.0, self.clock.next_alarm_in))
        return await task

    async def ticks(self):
        """Let everybody work until nobody has anything to do; no time passes."""
        await self._rest(lambda: False)

    async def _rest(self, is_over):
        """Let everybody work until all wait for the clock, or it is over."""
        loop = asyncio.get_running_loop()
        turns = 0
        while not is_over() and turns < MOST_TURNS:
            await asyncio.sleep(0)  # noqa: TID251 - takes no time, lets others run
            if CHANGING or any(process.is_at_work for process in self.processes):
                turns = 0
                await asyncio.sleep(A_MOMENT_S)  # noqa: TID251 - threads need time, and would get none from a loop
            elif loop._ready:
                turns += 1
            else:
                return

    async def until(self, holds, *, every=0.02):
        """Let everybody work until something holds, with the clock moving whenever everybody waits."""

        async def watch():
            while not (await found if inspect.isawaitable(found := holds()) else found):
                await self.clock.sleep_async(every)

        await self.play(watch())


def one_file(_request):
    """Return a site whose queues and ledger are in one SQLite file."""
    home = SqliteHome()
    return Site(home, home)


def one_schema(request):
    """Return a site whose queues and ledger are in one schema of PostgreSQL."""
    home = _postgres(request)
    return Site(home, home)


def apart(request):
    """Return a site whose queues are in PostgreSQL and whose ledger is in SQLite."""
    return Site(_postgres(request), SqliteHome())


def _postgres(request):
    return _Schema(request.getfixturevalue("postgres_url"), request.getfixturevalue("emptied_schema"))


class _Schema(PostgresHome):
    """A schema that the fixture takes away."""

    def remove(self):
        return


SITES = {"one-file": one_file, "one-schema": one_schema, "apart": apart}
