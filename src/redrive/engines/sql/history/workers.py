# SPDX-License-Identifier: MIT
"""Workers in SQL: which there are, and what they said last."""

import json

from redrive.broker.port import WorkerReport
from redrive.engines.sql.script import Row, Script, Sql, insert, now, plain

COLUMNS = ("session", "name", "host", "pid", "version", "queues", "concurrency", "in_flight", "handled", "p95")
_PRESENT = (
    f"{insert('workers', [*COLUMNS, 'since', 'seen_at', 'until'])} ON CONFLICT (session) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in (*COLUMNS[1:], "seen_at", "until"))
)


def present(report: WorkerReport, seconds: float) -> Script[None]:
    """Note what a worker says, and that it is there for so long; forget those that stopped saying anything.

    The time that others have left is shortened if the clock was set back; the rows are locked in one order first.
    """
    yield Sql("SELECT 1 FROM @.workers ORDER BY session @lock")
    time = yield from now()
    yield Sql("DELETE FROM @.workers WHERE until <= ?", [time])
    yield Sql("UPDATE @.workers SET until = ? WHERE until > ?", [time + seconds, time + seconds])
    yield Sql(
        _PRESENT,
        [
            report.session,
            plain(report.name),
            plain(report.host),
            report.pid,
            report.version,
            json.dumps(report.queues),
            report.concurrency,
            report.in_flight,
            report.handled,
            report.p95_s,
            time,
            time,
            time + seconds,
        ],
    )


def absent(session: str) -> Script[None]:
    """Note that a worker has ended."""
    yield Sql("DELETE FROM @.workers WHERE session = ?", [session])


def listed() -> Script[list[Row]]:
    """Return the rows of the workers that are there, the oldest first."""
    time = yield from now()
    columns = ", ".join((*COLUMNS, "since", "seen_at"))
    rows = yield Sql(f"SELECT {columns} FROM @.workers WHERE until > ? ORDER BY since, session", [time])
    return list(rows)
