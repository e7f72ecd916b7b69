"""What bench/recovery.py measures, each in a process of its own: recovery, and the raw loop it is held against.

The raw loop is the least that can be done with these queues: lock a page, then complete all of it and send it on in one
transaction. It keeps no record, knows no filter, and what it sends carries less. Both move the same messages.
"""

import asyncio
import gc
import sys
import time
from pathlib import Path

from redrive import connect, open_recovery
from redrive.broker import Complete, Message, Send
from redrive.clock import utc
from redrive.recovery import OperationState
from redrive.worker.recoverability import MAX_IMMEDIATE_RETRIES, HandlerFailure, failure_headers

ERROR, QUEUE, AWAY = "error", "orders", "recovered"
BODY = bytes(range(256))
SUBJECT = "order.placed"
GROUPS = 40  # of failures, in turn
ERRORS = (ValueError, KeyError, TimeoutError, ConnectionResetError)  # so a quarter of them are ValueErrors
FAILED_AT = 1_790_000_000.0
PAGE = 1_000  # messages to a transaction, where many are needed quickly
CHUNK = 10_000  # are sent and read in turn, so that an error queue does not get deep
TOLD_EVERY = 100_000

CALLS = [("orders", "handle"), ("orders", "place"), ("stock", "reserve"), ("stock", "locked"), ("prices", "lookup")]
FRAME = '  File "/srv/shop/current/lib/shop/{0}.py", line {1}, in {2}\n    result = await {2}(order, context)\n'


# --- messages ---------------------------------------------------------------------------------------------------------


def message(number):
    """Return a message as its sender made it."""
    headers = {"tenant": f"tenant-{number % 7}", "trace-id": f"{number:032x}"}
    return Message(BODY, id=f"order-{number}", subject=SUBJECT, headers=headers)


def trace(number, error):
    """Return a traceback of nine frames that says which group a failure belongs to."""
    group = number % GROUPS
    calls = [*CALLS, *((f"gateway_{group}", f"attempt_{depth}") for depth in range(4))]
    frames = "".join(FRAME.format(module, 40 + group, function) for module, function in calls)
    return f"Traceback (most recent call last):\n{frames}{type(error).__name__}: {error}\n"


def failed_message(number):
    """Return a message as a worker puts it into an error queue."""
    sent = message(number)
    error = ERRORS[number % len(ERRORS)](f"order {number} cannot be placed: warehouse {number % 100} did not answer")
    failure = HandlerFailure(
        error=error,
        queue=QUEUE,
        message=sent,
        delivery_count=6,
        failed_at=utc(FAILED_AT + number / 100),
        source=f"shop.gateway_{number % GROUPS}.attempt_3:{40 + number % GROUPS}",
        stack_trace=trace(number, error),
        host="worker-7.shop.internal",
        worker="orders",
    )
    told = {name: value for name, value in failure_headers(failure, MAX_IMMEDIATE_RETRIES).items() if value is not None}
    return Message(BODY, id=sent.id, subject=SUBJECT, headers={**sent.headers, **told})


async def send_all(engine, queue, made):
    """Send messages, a thousand to a transaction."""
    page = []
    for one in made:
        page.append(Send(queue, one))
        if len(page) == PAGE:
            await engine.apply(page)
            page = []
    if page:
        await engine.apply(page)


# --- the raw loop -----------------------------------------------------------------------------------------------------


async def fill_raw(url, size):
    """Put messages into a queue."""
    async with connect(url) as broker:
        await broker.declare(QUEUE)
        await broker.declare(AWAY)
        await send_all(broker.engine, QUEUE, map(message, range(size)))


async def move(url, size, page):
    """Move messages from one queue to another; return messages per second, and the memory that took."""
    async with connect(url) as broker:
        engine = broker.engine
        await engine.inspect(QUEUE)  # whatever is done at the first call only
        gc.collect()
        moved, began = 0, time.perf_counter()
        while held := await engine.lock_next(QUEUE, page):
            effects = [effect for one in held for effect in (Send(AWAY, one.message), Complete(one.lock))]
            await engine.apply(effects)
            moved += len(held)
        taken = time.perf_counter() - began
        assert moved == size
    return {"rate": size / taken, "MB": high_water_mb()}


# --- recovery ---------------------------------------------------------------------------------------------------------


async def fill_failures(url, size):
    """Let messages fail, and let recovery read that; return how many it reads per second."""
    reading = 0.0
    async with connect(url) as broker:
        for queue in (ERROR, QUEUE):
            await broker.declare(queue)
        async with open_recovery(broker) as recovery:
            for start in range(0, size, CHUNK):
                await send_all(broker.engine, ERROR, map(failed_message, range(start, min(size, start + CHUNK))))
                began = time.perf_counter()
                await recovery.ingest()
                reading += time.perf_counter() - began
                if size > TOLD_EVERY and (start + CHUNK) % TOLD_EVERY == 0:
                    print(f"  {start + CHUNK:,} of {size:,} failures are read", file=sys.stderr, flush=True)
            assert await recovery.count() == size
    return size / reading


async def fill_errors(url, size):
    """Let messages fail, and leave that to be read."""
    async with connect(url) as broker:
        for queue in (ERROR, QUEUE):
            await broker.declare(queue)
        await send_all(broker.engine, ERROR, map(failed_message, range(size)))


async def read(url, size, _how):
    """Read failures from their error queue; return failures per second, and the memory that took."""
    async with connect(url) as broker, open_recovery(broker) as recovery:
        await recovery.count()  # whatever is done at the first call only
        gc.collect()
        began = time.perf_counter()
        await recovery.ingest()
        taken = time.perf_counter() - began
        peak = high_water_mb()
        assert await recovery.count() == size
        assert await recovery.check_counts() == []
    return {"rate": size / taken, "MB": peak}


async def recover(url, size, driver):
    """Recover all failures; return messages per second from the request to its end, and the memory that took."""
    async with connect(url) as broker, open_recovery(broker) as recovery:
        await recovery.operations()  # whatever is done at the first call only
        gc.collect()
        began = time.perf_counter()
        number = (await recovery.recover(f"queue:{QUEUE}")).number
        await DRIVERS[driver](recovery, number)
        taken = time.perf_counter() - began
        peak = high_water_mb()
        operation = await recovery.operation(number)
        assert (operation.state, operation.progress.forwarded) == (OperationState.COMPLETED, size), operation
        assert (await broker.engine.inspect(QUEUE))[0].ready == size
    return {"rate": size / taken, "MB": peak}


async def by_steps(recovery, number):
    """Do all the work there is, until nothing is left of the operation."""
    while await is_open(recovery, number):
        await recovery.step()


async def by_running(recovery, number):
    """Let recovery run as it does in a process of its own, and look every 20 ms whether it is done."""
    running = asyncio.create_task(recovery.run())
    async for _ in recovery.follow(number, every=0.02):
        pass
    recovery.stop()
    await running


async def is_open(recovery, number):
    """Say whether an operation is not over."""
    return (await recovery.operation(number, newcomers=False)).state is not OperationState.COMPLETED


DRIVERS = {"step": by_steps, "run": by_running}


def high_water_mb():
    """Return the most memory this process ever had, in megabytes; None where that is not told."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) * 1_024 / 1e6 for line in lines if line.startswith("VmHWM"))
