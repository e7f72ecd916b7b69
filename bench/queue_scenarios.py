"""What is measured of queues, whatever database they are in: a scenario is written once, in a subject's few words."""

import asyncio
import gc
import os
import time
from contextlib import asynccontextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from measure import rotated
from queue_subjects import QUEUE, Redrive

from redrive.worker import Worker

BODY = bytes(range(256))
BATCH = 100
HEADERS = {
    "tenant": "tenant-3",
    "trace-id": "0123456789abcdef0123456789abcdef",
    "type": "order.placed",
    "version": 3,
    "region": "eu-west-1",
    "priority": 5,
    "is-test": False,
    "source": "checkout-service",
}
CALLERS = 64
PAGE = 1_000  # messages to a transaction, where many are needed quickly


class Effort(NamedTuple):
    """How much to measure."""

    rounds: int  # all subjects take part in every round, in another order each time
    batches: int
    cycles: int  # of each of the 64 callers
    calls: int  # of the lone caller
    deep: int  # messages in the deep queue
    latencies: int
    passing: int  # messages, while memory is watched
    handled: int  # messages, by the worker
    churn_s: float
    scaling_s: float
    processes: tuple  # how many of them, whose scaling is measured
    backlog: int  # messages that wait for the workers whose scaling is measured


FULL = Effort(
    rounds=9,
    batches=50,
    cycles=40,
    calls=1_000,
    deep=1_000_000,
    latencies=400,
    passing=100_000,
    handled=5_000,
    churn_s=75.0,
    scaling_s=8.0,
    processes=(1, 2, 4),
    backlog=400_000,
)
QUICK = Effort(
    rounds=1,
    batches=2,
    cycles=1,
    calls=5,
    deep=2_000,
    latencies=5,
    passing=1_000,
    handled=200,
    churn_s=0.2,
    scaling_s=0.1,
    processes=(1, 2),
    backlog=2_000,
)
WARM_UP = FULL._replace(batches=10, cycles=6, calls=50)
"""What everybody does once before any round; of a quick run it would be most."""


# --- what is timed: each returns messages per second ------------------------------------------------------------------


async def send_batches(subject, effort):
    """Send batches, one after another."""
    began = time.perf_counter()
    for _ in range(effort.batches):
        await subject.send_many([BODY] * BATCH)
    return effort.batches * BATCH / (time.perf_counter() - began)


async def receive_batches(subject, effort):
    """Receive and complete batches, one after another."""
    for _ in range(effort.batches):
        await subject.send_many([BODY] * BATCH)
    began = time.perf_counter()
    for _ in range(effort.batches):
        held = await subject.receive_many(BATCH)
        assert len(held) == BATCH
        await subject.complete_many(held)
    return effort.batches * BATCH / (time.perf_counter() - began)


async def send_headed(subject, effort):
    """Send batches of messages with eight headers, one after another."""
    began = time.perf_counter()
    for _ in range(effort.batches):
        await subject.send_headed([BODY] * BATCH, HEADERS)
    return effort.batches * BATCH / (time.perf_counter() - began)


async def receive_headed(subject, effort):
    """Receive and complete batches of messages with eight headers, one after another."""
    for _ in range(effort.batches):
        await subject.send_headed([BODY] * BATCH, HEADERS)
    began = time.perf_counter()
    for _ in range(effort.batches):
        held = await subject.receive_headed(BATCH)
        assert len(held) == BATCH
        await subject.complete_many(held)
    return effort.batches * BATCH / (time.perf_counter() - began)


async def many_callers(subject, effort):
    """Let 64 callers send, receive and complete, each awaiting each of it."""
    # Who does not share syncs among callers is slow here, and needs fewer cycles for a good figure.
    cycles = effort.cycles if subject.shares_syncs else max(1, effort.cycles // 4)

    async def caller():
        for _ in range(cycles):
            await subject.send(BODY)
            await subject.complete(await subject.receive())

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return CALLERS * cycles / (time.perf_counter() - began)


async def send_alone(subject, effort):
    """Send one message after another."""
    began = time.perf_counter()
    for _ in range(effort.calls):
        await subject.send(BODY)
    return effort.calls / (time.perf_counter() - began)


async def receive_alone(subject, effort):
    """Receive and complete one message after another."""
    for _ in range(effort.calls):
        await subject.send(BODY)
    began = time.perf_counter()
    for _ in range(effort.calls):
        await subject.complete(await subject.receive())
    return effort.calls / (time.perf_counter() - began)


async def hand_over_alone(subject, effort):
    """Hand over one message after another: complete it, and send the next queue one in its place."""
    for _ in range(effort.calls):
        await subject.send(BODY)
    began = time.perf_counter()
    for _ in range(effort.calls):
        await subject.hand_over(await subject.receive(), BODY)
    return effort.calls / (time.perf_counter() - began)


async def hand_over_together(subject, effort):
    """Let 64 callers hand over messages that wait."""

    async def sender():
        for _ in range(effort.cycles):
            await subject.send(BODY)

    async def caller():
        for _ in range(effort.cycles):
            await subject.hand_over(await subject.receive(), BODY)

    await asyncio.gather(*(sender() for _ in range(CALLERS)))
    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return CALLERS * effort.cycles / (time.perf_counter() - began)


class Rates(NamedTuple):
    """A scenario whose figure is messages per second, by subject."""

    title: str
    run: object
    takes_part: object


RATES = {
    "batch-send": Rates("Send 100 at a time, messages/s", send_batches, lambda kind: hasattr(kind, "send_many")),
    "batch-receive": Rates(
        "Receive and complete 100 at a time, messages/s", receive_batches, lambda kind: hasattr(kind, "receive_many")
    ),
    "headers-send": Rates(
        "Send 100 with eight headers each at a time, messages/s",
        send_headed,
        lambda kind: hasattr(kind, "send_headed"),
    ),
    "headers-receive": Rates(
        "Receive and complete 100 with eight headers each at a time, messages/s",
        receive_headed,
        lambda kind: hasattr(kind, "receive_headed"),
    ),
    "callers-64": Rates(
        "64 callers, each awaiting send, receive, complete: cycles/s", many_callers, lambda kind: kind.serves_many
    ),
    "lone-send": Rates("A lone caller sends one by one, messages/s", send_alone, lambda kind: kind.serves_one),
    "lone-receive": Rates(
        "A lone caller receives and completes one by one, messages/s", receive_alone, lambda kind: kind.serves_one
    ),
}

HAND_OVERS = {
    "hand-over": Rates(
        "A lone caller receives and hands over one by one, messages/s",
        hand_over_alone,
        lambda kind: hasattr(kind, "hand_over") and kind.serves_one,
    ),
    "hand-over-64": Rates(
        "64 callers receive and hand over one by one, messages/s",
        hand_over_together,
        lambda kind: hasattr(kind, "hand_over"),
    ),
}


@asynccontextmanager
async def opened(kind, engine):
    """Open a subject where nothing is stored yet."""
    async with engine.place_of(kind) as url:
        subject = kind()
        await subject.open(url)
        subject.url = url
        try:
            yield subject
        finally:
            await subject.close()


async def one_rate(run, kind, engine, effort):
    """Measure one subject once, with a clean heap and a disk that has nothing left to write for others."""
    async with opened(kind, engine) as subject:
        await subject.send(BODY)  # whatever is done at the first call only
        await subject.complete(await subject.receive())
        gc.collect()
        await engine.settle()
        return await run(subject, effort)


def measure_rates(scenario, engine, effort, progress):
    """Return each round's messages per second, by subject; None for those that are not installed."""
    found = {}
    subjects = [kind for kind in engine.subjects if scenario.takes_part(kind)]
    for kind in subjects:
        try:
            asyncio.run(one_rate(scenario.run, kind, engine, QUICK if effort is QUICK else WARM_UP))
        except ModuleNotFoundError as error:
            progress(f"{kind.name} is not installed ({error.name})")
            found[kind.name] = None
        else:
            found[kind.name] = []
    present = [kind for kind in subjects if found[kind.name] is not None]
    for turn in range(effort.rounds):
        progress(f"round {turn + 1} of {effort.rounds}")
        for kind in rotated(present, turn, effort.rounds):
            found[kind.name].append(asyncio.run(one_rate(scenario.run, kind, engine, effort)))
    return found


# --- a deep queue -----------------------------------------------------------------------------------------------------


async def fill(subject, depth):
    """Fill a queue: at its head a twentieth is scheduled and a twentieth locked, the rest is ready."""
    await in_pages(depth // 20, lambda bodies: subject.schedule_many(bodies, 3_600))
    await in_pages(depth - depth // 20, subject.send_many)
    for _ in range(depth // 20 // 50):
        await subject.receive_many(50)


async def in_pages(messages, send):
    """Send many messages, a thousand to a transaction."""
    for start in range(0, messages, PAGE):
        await send([BODY] * min(PAGE, messages - start))


async def receive_steadily(subject, calls):
    """Receive, complete and send, so that the depth stays; return the seconds of each receive with its completion."""
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        await subject.complete(await subject.receive())
        taken.append(time.perf_counter() - began)
        await subject.send(BODY)
    return taken


async def depth_of(kind, engine, effort, progress):
    """Return a subject's median microseconds of receive and complete in each round, by depth."""
    depths = [1_000, effort.deep]
    found = {depth: [] for depth in depths}
    calls = max(10, effort.calls // 20) if kind.is_peer else effort.calls  # a peer may need 20 ms for each
    async with opened(kind, engine) as shallow, opened(kind, engine) as deep:
        subjects = dict(zip(depths, (shallow, deep), strict=True))
        for depth, subject in subjects.items():
            progress(f"filling {kind.name} with {depth:,}")
            await fill(subject, depth)
            await engine.tidy(subject.url)
        await engine.settle()
        gc.collect()
        for turn in range(effort.rounds):
            progress(f"{kind.name}, round {turn + 1} of {effort.rounds}")
            for depth in rotated(depths, turn, effort.rounds):
                taken = await receive_steadily(subjects[depth], calls)
                found[depth].append(median(taken) * 1e6)
    return found


def measure_depth(engine, effort, progress):
    """Return the microseconds by depth, of everybody who can schedule and lock in batches."""
    found = {}
    for kind in engine.subjects:
        if hasattr(kind, "schedule_many"):
            with suppress(ModuleNotFoundError):
                found[kind.name] = asyncio.run(depth_of(kind, engine, effort, progress))
    return found


# --- latency ----------------------------------------------------------------------------------------------------------


async def measure_latency(engine, effort):
    """Return the microseconds from the call of send to the handler of a worker that was idle."""
    async with opened(Redrive, engine) as subject:
        worker = Worker("bench")
        arrived = asyncio.Queue()

        @worker.handler(QUEUE)
        async def note(_body: bytes):
            arrived.put_nowait(time.perf_counter())

        running = asyncio.create_task(worker.run(subject.broker))
        taken = []
        for _ in range(effort.latencies):
            await asyncio.sleep(0.005)  # the worker asks, finds nothing, and waits
            began = time.perf_counter()
            await subject.send(BODY)
            taken.append((await arrived.get() - began) * 1e6)
        worker.stop()
        await running
    cuts = quantiles(taken, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


# --- memory -----------------------------------------------------------------------------------------------------------


def resident_mb():
    """Return the megabytes this process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def pass_messages(count, url):
    """Let messages pass through a queue; return the resident megabytes after each tenth."""
    subject = Redrive()
    await subject.open(url)
    seen = []
    for _ in range(10):
        for _ in range(max(1, count // 10 // BATCH)):
            await subject.send_many([BODY] * BATCH)
            await subject.complete_many(await subject.receive_many(BATCH))
        seen.append(resident_mb())
    await subject.close()
    return seen


def passing(count, url):
    """Run in a process of its own."""
    return asyncio.run(pass_messages(count, url))


async def measure_memory(engine, effort):
    """Return the resident megabytes of a fresh process after each tenth of the messages."""
    if not os.access("/proc/self/statm", os.R_OK):
        return None
    async with engine.place() as url:
        with get_context("spawn").Pool(1) as pool:
            return pool.apply(passing, (effort.passing, url))


# --- the worker -------------------------------------------------------------------------------------------------------


WORKER, RECEIVERS = "redrive worker", "redrive, 64 callers"


async def handle_all(subject, count):
    """Let a worker with an empty handler and 64 at once handle all messages; return messages per second."""
    done, handled = asyncio.Event(), 0
    worker = Worker()

    @worker.handler(QUEUE, concurrency=CALLERS)
    async def handle(_body: bytes) -> None:
        nonlocal handled
        handled += 1
        if handled == count:
            done.set()

    for _ in range(max(1, count // BATCH)):
        await subject.send_many([BODY] * BATCH)
    began = time.perf_counter()
    running = asyncio.create_task(worker.run(subject.broker))
    await done.wait()
    while (await subject.broker.inspect(QUEUE)).locked:  # noqa: ASYNC110 - the last completions tell nobody
        await asyncio.sleep(0.001)
    taken = time.perf_counter() - began
    worker.stop()
    await running
    return count / taken


async def receive_all(subject, count):
    """Let 64 callers receive and complete all messages, one by one; return messages per second."""
    each = count // CALLERS

    async def caller():
        for _ in range(each):
            await subject.complete(await subject.receive())

    await in_pages(each * CALLERS, subject.send_many)
    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return each * CALLERS / (time.perf_counter() - began)


async def measure_worker(engine, effort, progress):
    """Return the worker's messages per second in each round, beside 64 callers and what a peer acknowledges."""
    beside = engine.beside_worker
    found = {WORKER: [], RECEIVERS: [], beside.name: []}
    for turn in range(effort.rounds):
        progress(f"round {turn + 1} of {effort.rounds}")
        for name, run in rotated([(WORKER, handle_all), (RECEIVERS, receive_all)], turn, effort.rounds):
            async with opened(Redrive, engine) as subject, asyncio.timeout(600):
                found[name].append(await run(subject, effort.handled))
        with suppress(ModuleNotFoundError):
            found[beside.name].append(await one_rate(receive_alone, beside, engine, effort))
    return found
