# SPDX-License-Identifier: MIT
"""The history of an engine that is a database: each verb is a script."""

import json

from redrive.clock import utc
from redrive.engines.sql.history import queries, rounds, samples, workers
from redrive.engines.sql.script import Script
from redrive.engines.sql.verbs import SqlStore, reads, writes
from redrive.history import WorkerInfo


def worker_infos() -> Script[list[WorkerInfo]]:
    """Return the workers that are there, the oldest first."""
    rows = yield from workers.listed()
    return [
        WorkerInfo(
            session=row["session"],
            name=row["name"],
            host=row["host"],
            pid=row["pid"],
            version=row["version"],
            queues=tuple(json.loads(row["queues"])),
            concurrency=row["concurrency"],
            in_flight=row["in_flight"],
            handled=row["handled"],
            p95_s=row["p95"],
            since=utc(row["since"]),
            seen_at=utc(row["seen_at"]),
        )
        for row in rows
    ]


class SqlHistoryLedger(SqlStore):
    """What was counted and noted, in a database."""

    numbers = reads(queries.numbers)
    lines = reads(queries.lines)
    sums = reads(queries.sums)
    sums_of_all = reads(queries.sums_of_all)
    totals = reads(queries.totals)
    last_counted = reads(queries.last_counted)
    workers = reads(worker_infos, together=True)  # of a small table
    samples = reads(samples.samples)
    retention = reads(rounds.kept)
    moment = reads(rounds.moment, together=True)  # of a table that has one row
    keep = writes(rounds.keep)
