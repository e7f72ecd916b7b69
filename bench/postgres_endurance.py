"""What only a database server shows: what becomes of it under churn, and how far more worker processes carry.

PostgreSQL keeps the old version of each row that was changed until a vacuum finds that no transaction can see it. A
queue changes every row twice within moments, so it lives or dies by that.
"""

import asyncio
import time
from contextlib import asynccontextmanager
from multiprocessing import get_context
from statistics import median, quantiles

from queue_scenarios import BODY, CALLERS, QUEUE, in_pages, opened
from queue_subjects import Redrive

from redrive import connect
from redrive.worker import Worker

FIFTHS = 5
DEPTH = 1_000
SIZE = """
SELECT sum(pg_total_relation_size(pg_class.oid))::float8
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind = 'r' AND nspname NOT IN ('pg_catalog', 'information_schema')
"""


# --- churn ------------------------------------------------------------------------------------------------------------


async def churn(subject, seconds, size):
    """Let 64 callers send, receive and complete as fast as they can; describe each fifth of the time."""
    taken, sizes = [[] for _ in range(FIFTHS)], []
    began = time.perf_counter()

    async def caller():
        while (now := time.perf_counter()) < began + seconds:
            await subject.send(BODY)
            asked = time.perf_counter()
            held = await subject.receive()
            fifth = min(int((now - began) / seconds * FIFTHS), FIFTHS - 1)
            taken[fifth].append(time.perf_counter() - asked)
            await subject.complete(held)

    async def watch():
        for fifth in range(1, FIFTHS + 1):
            await asyncio.sleep(began + seconds * fifth / FIFTHS - time.perf_counter())
            sizes.append(await size())

    await asyncio.gather(watch(), *(caller() for _ in range(CALLERS)))
    return [described(part, seconds / FIFTHS, held) for part, held in zip(taken, sizes, strict=True)]


def described(taken, seconds, size):
    """Return the figures of a stretch of time; one in which nobody received anything has no times of receiving."""
    return {
        "cycles/s": len(taken) / seconds,
        "p50 ms": median(taken) * 1e3 if taken else None,
        "p99 ms": quantiles(taken, n=100)[98] * 1e3 if len(taken) > 1 else None,
        "MB": size / 1e6,
    }


@asynccontextmanager
async def foreign_transaction(url, *, is_there):
    """Hold a transaction of somebody else open: what it could see cannot be vacuumed."""
    import asyncpg  # noqa: PLC0415 - an extra

    connection = await asyncpg.connect(url)
    try:
        if is_there:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await connection.execute("SELECT count(*) FROM pg_class")
        yield
    finally:
        await connection.close()


async def churn_of(kind, engine, effort, *, held_back):
    """Churn one subject at a depth of a thousand."""
    async with opened(kind, engine) as subject:
        await in_pages(DEPTH, subject.send_many)
        await engine.tidy(subject.url)
        await engine.settle()
        async with foreign_transaction(subject.url, is_there=held_back):

            async def size():
                return (await engine.ask(SIZE, subject.url))[0]

            return await churn(subject, effort.churn_s, size)


def measure_churn(engine, effort, progress, *, held_back=False):
    """Return what became of ourselves, and of hand-written code that leaves vacuuming to the server."""
    found = {}
    for kind in (Redrive, engine.raw):
        progress(f"{kind.name}, {effort.churn_s:.0f} s")
        found[kind.name] = asyncio.run(churn_of(kind, engine, effort, held_back=held_back))
    return found


# --- worker processes -------------------------------------------------------------------------------------------------


async def handle_for(url, seconds, start, told):
    """Run a worker with an empty handler and 64 at once; tell how many messages it handled, with how much CPU time."""
    handled = 0
    worker = Worker()

    @worker.handler(QUEUE, concurrency=CALLERS)
    async def handle(_body: bytes) -> None:
        nonlocal handled
        handled += 1

    async with connect(url) as broker:
        await asyncio.to_thread(start.wait)
        running = asyncio.create_task(worker.run(broker))
        await asyncio.sleep(seconds / 4)  # until all of them are at it
        before, used = handled, time.process_time()
        await asyncio.sleep(seconds)
        told.put((handled - before, time.process_time() - used))
        worker.stop()
        await running


def work(url, seconds, start, told):
    """Run in a process of its own."""
    asyncio.run(handle_for(url, seconds, start, told))


def run_processes(engine, url, processes, seconds):
    """Let that many processes work off a backlog; return the rate, and whose CPU time it took."""
    context = get_context("spawn")
    start, told = context.Barrier(processes + 1), context.Queue()
    crew = [context.Process(target=work, args=(url, seconds, start, told)) for _ in range(processes)]
    for process in crew:
        process.start()
    start.wait()
    time.sleep(seconds / 4)
    before = engine.server.cpu_seconds()
    time.sleep(seconds)
    server = engine.server.cpu_seconds() - before
    counts = [told.get(timeout=600) for _ in crew]
    for process in crew:
        process.join()
    handled = sum(count for count, _ in counts)
    return {
        "messages/s": handled / seconds,
        "database cores": server / seconds,
        "worker cores": sum(cpu for _, cpu in counts) / seconds,
        "database µs": server / handled * 1e6 if handled else None,
        "worker µs": sum(cpu for _, cpu in counts) / handled * 1e6 if handled else None,
    }


async def scale(engine, processes, effort, progress):
    """Measure that many processes once."""
    async with opened(Redrive, engine) as subject:
        await in_pages(effort.backlog, subject.send_many)
        await engine.tidy(subject.url)
        await engine.settle()
        found = await asyncio.to_thread(run_processes, engine, subject.url, processes, effort.scaling_s)
        if not (await subject.broker.inspect(QUEUE)).ready:
            progress(f"{processes} processes had nothing left to do: their figures are too low")
        return found


def measure_scaling(engine, effort, progress):
    """Return what some numbers of worker processes achieve: the round in the middle of some."""
    if engine.server.cpu_seconds() is None:
        return None
    rounds = {processes: [] for processes in effort.processes}
    for turn in range(max(1, effort.rounds // 3)):
        for processes in effort.processes:
            progress(f"round {turn + 1}, {processes} processes")
            rounds[processes].append(asyncio.run(scale(engine, processes, effort, progress)))
    by_rate = {processes: sorted(found, key=lambda one: one["messages/s"]) for processes, found in rounds.items()}
    return {processes: found[len(found) // 2] for processes, found in by_rate.items()}
