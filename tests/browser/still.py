# SPDX-License-Identifier: MIT
"""A store that is the same whenever it is made, at a time that stands still: what pictures are compared with."""

from contextlib import asynccontextmanager
from dataclasses import replace

from redrive.testing import ManualClock
from redrive.worker import Worker
from tests.browser.conftest import opened, served
from tests.browser.store import AT_ONCE, CardDeclined, ProviderTimeout, order, payments, set_up

NOON = 1_795_003_200.0
"""18 November 2026, 12:00 UTC: when everybody looks."""

HALF_HOURS = (0, 1, 0, 2, 1, 0, 1, 3, 2, 1, 0, 1, 2, 1, 1, 4, 9, 14)
"""How many orders fail in each of the half hours before."""

IN_TURN = {"concurrency": 1, "prefetch": 1}
"""One after the other, so that failures have the same numbers each time."""

WORKS = {"operations": False, "ingest": False, "routes": False, "pipelines": False, "upkeep": False}


def invoices():
    """Return a worker that cannot read invoices."""
    worker = Worker()

    @worker.handler("invoices", recoverability=AT_ONCE, slow_down=None, **IN_TURN)
    async def book(invoice: dict) -> None:
        raise ValueError(f"invoice {invoice['order']} has no tax number")

    return worker


async def fill_still(desk, clock):
    """Let orders fail for nine hours, recover some, and let an operation wait for its canaries."""
    for queue in ("payments", "invoices", "search", "error"):
        await desk.broker.declare(queue, journey="all" if queue == "payments" else "trouble")
    number = 0
    for failing in HALF_HOURS:
        orders = [replace(order(each), id=f"order-{each:04d}") for each in range(number, number + failing)]
        if orders:
            await desk.broker.send_many("payments", orders)
            await desk.broker.send("invoices", replace(order(number), id=f"invoice-{number:04d}"))
        number += failing
        await payments(**IN_TURN).run(desk.broker, until_idle=True)
        await invoices().run(desk.broker, until_idle=True)
        await desk.recovery.ingest()
        await desk.history.flush()
        clock.advance(1_800)
    await desk.broker.send_many("search", [replace(order(each), id=f"search-{each}") for each in range(12)])
    await recover_still(desk, clock)
    await set_up(desk)
    await desk.history.flush()


async def recover_still(desk, clock):
    """Recover some orders: 12 do well, some fail again, and an operation waits for its canaries."""
    await desk.recovery.recover("exception:ProviderTimeout", limit=12, actor="ana", reason="the provider is back")
    await desk.recovery.step()
    clock.advance(5)
    await payments(works=True, **IN_TURN).run(desk.broker, until_idle=True)
    await desk.recovery.ingest()
    await desk.recovery.step()
    clock.advance(300)
    await desk.recovery.recover("exception:ProviderTimeout", limit=9, actor="mikael", reason="once more")
    for failing in (True, False):
        await desk.recovery.step()
        clock.advance(10)
        await payments(works=not failing, **IN_TURN).run(desk.broker, until_idle=True)
        await desk.recovery.ingest()
    await desk.broker.engine.upkeep()  # what became of them is noted now, whether or not a round comes before the next
    clock.advance(275)
    await desk.recovery.recover("exception:CardDeclined", canary=2, actor="mikael", reason="try a few")
    await desk.recovery.step()
    group = (await desk.recovery.groups(largest_first=True))[0]
    await desk.recovery.note(f"group:{group.id}", "The provider has been degraded since 09:40.", actor="ana")


@asynccontextmanager
async def still_life(url):
    """Serve the store; yield the address of the server, those of the pages by name, and the time."""
    clock = ManualClock(NOON - 600 - 1_800 * len(HALF_HOURS))
    async with opened(url, clock=clock) as desk:
        await fill_still(desk, clock)
        found = await desk.recovery.failed(f"exception:{ProviderTimeout.__name__} operation:2")
        failed = min(found, key=lambda each: each.message_id)
        assert clock.time() == NOON
    pages = {
        "overview": "/",
        "groups": "/failed",
        "sheet": f"/failed/recover?q=exception%3A{CardDeclined.__name__}",
        "failure": f"/failed/{failed.id}",
        "operation": "/operations/2",
        "journey": f"/journey/{failed.message_id}",
    }
    async with served(url, clock=clock, **WORKS) as base:
        yield base, pages, NOON
