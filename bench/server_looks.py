"""What pages ask, over HTTP, beside the statement one would write for it by hand, on a table with an index for it."""

import gzip
import json
import time
from statistics import median, quantiles
from typing import NamedTuple

from recovery_looks import GROUP_IDS, RAW
from recovery_subjects import QUEUE
from report import Table
from server_client import Connection


class Look(NamedTuple):
    """A question: how many milliseconds it may take, how it is asked, and the statement one would write by hand."""

    budget_ms: int
    path: str
    statement: str


OF_QUEUE = f"WHERE queue = '{QUEUE}'"
OF_GROUP = f"WHERE grp = '{GROUP_IDS[0]}'"
LOOKS = {
    "newest 50": Look(20, "/failures?limit=50&order=newest", "SELECT * FROM raw ORDER BY number DESC LIMIT 50"),
    "newest 50 of a group": Look(
        20,
        "/failures?limit=50&order=newest&q=group:{group}",
        f"SELECT * FROM raw {OF_GROUP} ORDER BY at DESC LIMIT 50",  # noqa: S608 - our own, as all of them
    ),
    "newest failure first": Look(
        20, "/failures?limit=50&order=last-failed", "SELECT * FROM raw ORDER BY at DESC LIMIT 50"
    ),
    "one failure": Look(20, "/failures/{failure}", "SELECT * FROM raw WHERE number = 500"),
    "groups": Look(5, "/groups", "SELECT grp, count(*), min(at), max(at) FROM raw GROUP BY grp"),
    "groups of a queue": Look(
        5,
        f"/groups?q=queue:{QUEUE}",
        f"SELECT grp, count(*), min(at), max(at) FROM raw {OF_QUEUE} GROUP BY grp",  # noqa: S608
    ),
    "count of all": Look(5, "/failures/count", "SELECT count(*) FROM raw"),
    "count of a group": Look(
        5,
        "/failures/count?q=group:{group}",
        f"SELECT count(*) FROM raw {OF_GROUP}",  # noqa: S608
    ),
    "count of a queue": Look(
        5,
        f"/failures/count?q=queue:{QUEUE}",
        f"SELECT count(*) FROM raw {OF_QUEUE}",  # noqa: S608
    ),
    "tabs": Look(5, "/failures/statuses", "SELECT kind, count(*) FROM raw GROUP BY kind"),
    "lines of 40 groups, 24 h": Look(
        30,
        "/series?metric=failed&topic=group",
        "SELECT grp, cast(at / 300 AS integer), count(*) FROM raw WHERE number > 900000 GROUP BY 1, 2",
    ),
    "one queue": Look(20, f"/queues/{QUEUE}", "SELECT * FROM raw WHERE number = 500"),
}


async def measure(server, raw_url, engine, size, times):
    """Return the milliseconds of each question, over HTTP and by hand, in turn; and the server's own work for it."""
    raw = RAW[engine]()
    await raw.open(raw_url)
    await raw.fill(size)
    found = {}
    known = await known_in(server)
    async with Connection(server) as client:
        for name, look in LOOKS.items():
            taken = {"http": [], "raw": [], "bytes": 0}
            path, cpu_s = look.path.format(**known), 0.0
            for _ in range(times + 2):  # the first bring the pages into the caches
                used, began = server.cpu_s, time.perf_counter()
                status, body = await client.get(path, fresh=True)
                asked = time.perf_counter()
                cpu_s += server.cpu_s - used  # not while the statement by hand runs: a server always does something
                await raw.look(look.statement)
                taken["http"].append((asked - began) * 1e3)
                taken["raw"].append((time.perf_counter() - asked) * 1e3)
                assert status == 200, (status, path, body)
                taken["bytes"] = len(body)
            cpu = cpu_s * 1e3 / (times + 2)
            found[name] = {"http": taken["http"][2:], "raw": taken["raw"][2:], "bytes": taken["bytes"], "cpu": cpu}
    await raw.close()
    return found


async def known_in(server):
    """Return a group and a failure that there are."""
    async with Connection(server) as client:
        _, failures = await client.get("/failures?limit=1")
        _, groups = await client.get("/groups?limit=1")
    return {"failure": json.loads(_plain(failures))[0]["id"], "group": json.loads(_plain(groups))[0]["id"]}


def _plain(body):
    """Return a body that may be compressed, as it is."""
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body


def table(engine, found):
    """Return what each question took, what it may take, and its ratio to the statement by hand."""
    rows = []
    for name, taken in found.items():
        half, most = median(taken["http"]), quantiles(taken["http"], n=20)[-1]
        by_hand = median(taken["raw"])
        budget = LOOKS[name].budget_ms
        rows.append(
            [
                name,
                f"{half:.1f}",
                f"{most:.1f}",
                f"{taken['cpu']:.1f}",
                f"{budget}",
                f"{by_hand:.2f}",
                f"{half / by_hand:.2f}x",
                f"{taken['bytes'] / 1000:.1f}",
            ]
        )
    columns = ["question", "ms", "ms, p95", "CPU, ms", "budget, ms", "by hand, ms", "to by hand", "kB"]
    return Table(f"Questions, {engine}", columns, rows)
