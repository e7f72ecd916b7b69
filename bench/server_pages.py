"""The pages of the console, as a browser asks for them, beside what a page may take and weigh."""

import time
from statistics import median, quantiles

from recovery_subjects import QUEUE
from report import Table
from server_client import Connection

MOST_MS, MOST_KB = 50, 12
PAGES = {
    "overview": "/",
    "groups": "/failed",
    "groups of a queue": f"/failed?q=queue:{QUEUE}",
    "failures": "/failed/list",
    "failures of a group": "/failed/list?q=group:{group}",
    "failure": "/failed/{failure}",
    "sheet": "/failed/recover?q=group:{group}",
    "operations": "/operations",
    "queues": "/queues",
    "queue": f"/queues/{QUEUE}",
    "audit": "/audit",
}


async def measure(server, known, times):
    """Return the milliseconds and the size of each page, and the server's own work for it.

    Args:
        server: what is asked.
        known: a group and a failure that there are.
        times: how often each page is asked for.
    """
    found = {}
    async with Connection(server) as client:
        for name, path in PAGES.items():
            taken, used = [], server.cpu_s
            for _ in range(times + 2):  # the first bring the pages of the database into the caches
                began = time.perf_counter()
                status, body = await client.page(path.format(**known))
                taken.append((time.perf_counter() - began) * 1e3)
                assert status == 200, (status, path, body)
            cpu = (server.cpu_s - used) * 1e3 / (times + 2)
            found[name] = {"ms": taken[2:], "kB": len(body) / 1_000, "cpu": cpu}
    return found


def table(engine, found):
    """Return what each page took and weighs, compressed."""
    rows = [
        [
            name,
            f"{median(page['ms']):.1f}",
            f"{quantiles(page['ms'], n=20)[-1]:.1f}",
            f"{page['cpu']:.1f}",
            f"{page['kB']:.1f}",
        ]
        for name, page in found.items()
    ]
    columns = ["page", "ms", f"ms, p95 (budget {MOST_MS})", "CPU, ms", f"kB (budget {MOST_KB})"]
    return Table(f"Pages, {engine}", columns, rows)
