"""Looking failures up, beside the statement one would write for it by hand, on a table with an index made for it."""

import hashlib
import sqlite3
import time

from recovery_subjects import ERRORS, FAILED_AT, GROUPS, QUEUE

from redrive import connect, open_recovery
from redrive.recovery import GroupInfo

GROUP_IDS = [hashlib.md5(str(group).encode(), usedforsecurity=False).hexdigest() for group in range(GROUPS)]
RAW_TABLE = "CREATE TABLE raw (number integer PRIMARY KEY, grp text, queue text, kind text, at double precision)"
RAW_INDEXES = ("CREATE INDEX raw_group ON raw (grp, at)", "CREATE INDEX raw_kind ON raw (queue, kind)")

# For each thing that is looked up: our words for it, and the statement that one would write by hand.
LOOKS = {
    "list of groups": (
        lambda recovery, _: recovery.groups(),
        "SELECT grp, count(*), min(at), max(at) FROM raw GROUP BY grp ORDER BY grp",
    ),
    "count of a group": (
        lambda recovery, group: recovery.count(f"group:{group}"),
        f"SELECT count(*) FROM raw WHERE grp = '{GROUP_IDS[0]}'",  # noqa: S608 - our own
    ),
    "count of a queue": (
        lambda recovery, _: recovery.count(f"queue:{QUEUE}"),
        f"SELECT count(*) FROM raw WHERE queue = '{QUEUE}'",  # noqa: S608
    ),
    "count of a queue's ValueErrors": (
        lambda recovery, _: recovery.count(f"queue:{QUEUE} exception:ValueError"),
        f"SELECT count(*) FROM raw WHERE queue = '{QUEUE}' AND kind = 'ValueError'",  # noqa: S608
    ),
}


def raw_rows(size):
    """Return what the hand-written statements look at: the same failures, without all that is told about them."""
    kinds = [kind.__name__ for kind in ERRORS]
    return (
        (number, GROUP_IDS[number % GROUPS], QUEUE, kinds[number % len(kinds)], FAILED_AT + number / 100)
        for number in range(size)
    )


class RawSqlite:
    """Plain sqlite3."""

    async def open(self, url):
        """Connect."""
        self.connection = sqlite3.connect(url.removeprefix("sqlite:///"))

    async def fill(self, size):
        """Make the table and its indexes."""
        self.connection.execute(RAW_TABLE)
        self.connection.executemany("INSERT INTO raw VALUES (?, ?, ?, ?, ?)", raw_rows(size))
        for index in RAW_INDEXES:
            self.connection.execute(index)
        self.connection.execute("ANALYZE")
        self.connection.commit()

    async def look(self, statement):
        """Do a statement, and return its rows."""
        return self.connection.execute(statement).fetchall()

    async def close(self):
        """Disconnect."""
        self.connection.close()


class RawPostgres:
    """Plain asyncpg."""

    async def open(self, url):
        """Connect."""
        import asyncpg  # noqa: PLC0415 - an extra

        self.connection = await asyncpg.connect(url)

    async def fill(self, size):
        """Make the table and its indexes."""
        await self.connection.execute(RAW_TABLE)
        await self.connection.copy_records_to_table("raw", records=raw_rows(size))
        for index in RAW_INDEXES:
            await self.connection.execute(index)
        await self.connection.execute("VACUUM (ANALYZE) raw")

    async def look(self, statement):
        """Do a statement, and return its rows."""
        return await self.connection.fetch(statement)

    async def close(self):
        """Disconnect."""
        await self.connection.close()


RAW = {"sqlite": RawSqlite, "postgres": RawPostgres}


async def look(url, raw_url, engine, size, times):
    """Return the milliseconds of each look, ours and the hand-written statement's, in turn."""
    raw = RAW[engine]()
    await raw.open(raw_url)
    await raw.fill(size)
    found = {}
    async with connect(url) as broker, open_recovery(broker) as recovery:
        group = max(await recovery.groups(), key=lambda each: each.count).id
        for name, (ask, statement) in LOOKS.items():
            ours, theirs = [], []
            for turn in range(times + 1):  # the first of all brings the pages into the caches
                answer = await timed(lambda ask=ask: ask(recovery, group), ours)
                rows = await timed(lambda statement=statement: raw.look(statement), theirs)
                assert counts(answer) == counts(rows), (name, answer, rows)
                if not turn:
                    ours.clear()
                    theirs.clear()
            found[name] = {"redrive": ours, "raw": theirs}
    await raw.close()
    return found


async def timed(do, taken):
    """Do something, and note its milliseconds."""
    began = time.perf_counter()
    answer = await do()
    taken.append((time.perf_counter() - began) * 1e3)
    return answer


def counts(answer):
    """Return the figures of an answer, whoever gave it."""
    if isinstance(answer, int):
        return [answer]
    return sorted(one.count if isinstance(one, GroupInfo) else tuple(one)[:2][-1] for one in answer)
