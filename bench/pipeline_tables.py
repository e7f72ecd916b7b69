"""The tables of a pipeline that has been running for long: filled with SQL, and asked by people."""

# ruff: noqa: S608 - all statements are our own

import sqlite3
import time

from pipeline_subjects import PER_SHIPMENT
from queue_subjects import path_of

from redrive import connect, open_pipelines

STUCK_SHARE = 1_000
"""One task of so many has failed; one is overdue; and one waits for a slot."""

OLD = int(time.time()) - 864_000
"""When they began: not so long ago that they would be removed."""

_TASK = "id, pipeline, stage, destination, state, due_at, not_after, epoch, retries, retry_items, item_count, size"
_REST = "version, slot_at, reason, created_at, changed_at"
_STATE = f"CASE n % {STUCK_SHARE} WHEN 1 THEN 4 WHEN 2 THEN 1 ELSE 3 END"
_WAITS = f"CASE n % {STUCK_SHARE} WHEN 3 THEN 2 ELSE 3 END"

# What is left of a number of items that have gone through all four stages; {n} is a series of numbers, {id} the id of a
# task: p, b or s for its stage, and a number.
FILL = (
    (
        f"INSERT INTO @tasks ({_TASK}, {_REST}) SELECT {{p}}, 'bench', 'process', '', {_STATE}, {OLD} + n * 0.001,"
        f" NULL, 0, 0, '[]', 1, 1200, 1, NULL, '', {OLD} + n * 0.001, {OLD} + n * 0.001 FROM {{n}}"
    ),
    (
        f"INSERT INTO @tasks ({_TASK}, {_REST}) SELECT {{b}}, 'bench', 'batch', 'old', {_WAITS}, {OLD} + n * 0.001,"
        f" 4e9, 0, 0, '[]', 1, 1200, 1, NULL, '', {OLD} + n * 0.001, {OLD} + n * 0.001 FROM {{n}}"
    ),
    (
        f"INSERT INTO @tasks ({_TASK}, {_REST}) SELECT {{s}}, 'bench', 'send', 'old', {_STATE}, {OLD} + n * 0.001,"
        f" NULL, 0, 0, '[]', {PER_SHIPMENT}, 120000, 1, NULL, '', {OLD} + n * 0.001, {OLD} + n * 0.001 FROM {{n}}"
        f" WHERE n % {PER_SHIPMENT} = 0"
    ),
    "INSERT INTO @bodies (id, body) SELECT {p} || '/1', {bytes} FROM {n}",
    (
        "INSERT INTO @items (task, position, item, parent_task, parent_position, shipment, body, size)"
        " SELECT {p}, 1, {p} || '.1', NULL, NULL, NULL, {p} || '/1', 200 FROM {n}"
    ),
    (
        "INSERT INTO @items (task, position, item, parent_task, parent_position, shipment, body, size)"
        " SELECT {b}, 1, {p} || '.1', {p}, 1, NULL, {p} || '/1', 200 FROM {n}"
    ),
    (
        "INSERT INTO @items (task, position, item, parent_task, parent_position, shipment, body, size)"
        f" SELECT {{s100}}, n % {PER_SHIPMENT} + 1, {{p}} || '.1', {{b}}, 1, 1, {{p}} || '/1', 200 FROM {{n}}"
    ),
    (
        "INSERT INTO @shipments (task, position, delivery_id, state, attempt, item_count, content_type, body, receipt,"
        f" reason, changed_at) SELECT {{s}}, 1, {{s}} || '-1', 3, 1, {PER_SHIPMENT}, NULL, {{s}} || '/s1', '', '',"
        f" {OLD} + n * 0.001 FROM {{n}} WHERE n % {PER_SHIPMENT} = 0"
    ),
    (
        "INSERT INTO @submissions (pipeline, key, digest, task, accepted_at)"
        f" SELECT 'bench', 'old ' || n, {{p}} || {{p}}, {{p}}, {OLD} + n * 0.001 FROM {{n}}"
    ),
    *(
        (
            "INSERT INTO @actions (task, pipeline, destination, name, attempt, at, actor, reason, detail)"
            f" SELECT {{{stage}}}, 'bench', '', '{name}', 1, {OLD} + n * 0.001, '', '', '{{{{}}}}' FROM {{n}}"
        )
        for stage, name in (("p", "receive"), ("p", "process"), ("b", "batch"))
    ),
)


class SqliteTables:
    """In a file."""

    prefix = "redrive_pipeline_"

    def __init__(self, url):
        self.connection = sqlite3.connect(path_of(url), isolation_level=None)

    def id(self, stage, number="n"):
        """Return the expression of a task's id."""
        return f"printf('0{stage}%026x', {number})"

    def fill(self, items):
        """Fill the tables."""
        series = f"(WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {items}) SELECT n FROM c)"
        self.connection.execute("PRAGMA synchronous = OFF")
        self.connection.execute("PRAGMA cache_size = -500000")
        self.connection.execute("BEGIN")
        for statement in FILL:
            self.connection.execute(self.filled(statement, series, "zeroblob(200)"))
        self.connection.execute("COMMIT")
        self.connection.execute("ANALYZE")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def filled(self, statement, series, body):
        """Return a statement in this database's words."""
        of_shipment = self.id("c", f"(n / {PER_SHIPMENT}) * {PER_SHIPMENT}")
        ids = {stage: self.id(letter) for stage, letter in (("p", "a"), ("b", "b"), ("s", "c"))}
        return statement.format(n=series, s100=of_shipment, bytes=body, **ids).replace("@", self.prefix)

    def ask(self, question):
        """Run a query by hand; return the seconds."""
        began = time.perf_counter()
        self.connection.execute(question.replace("@", self.prefix)).fetchall()
        return time.perf_counter() - began

    def close(self):
        """Close the file."""
        self.connection.close()


class PostgresTables(SqliteTables):
    """In a server."""

    prefix = "redrive.pipeline_"

    def __init__(self, url):
        import psycopg  # noqa: PLC0415 - only where it is used

        self.connection = psycopg.connect(url, autocommit=True)

    def id(self, stage, number="n"):
        """Return the expression of a task's id."""
        return f"('0{stage}' || lpad(to_hex({number}), 26, '0'))"

    def fill(self, items):
        """Fill the tables."""
        self.connection.execute("SET synchronous_commit = off")
        for statement in FILL:
            self.connection.execute(
                self.filled(statement, f"generate_series(1, {items}) n", "decode(repeat('00', 200), 'hex')")
            )
        self.connection.execute("VACUUM (ANALYZE)")
        self.connection.execute("CHECKPOINT")


TABLES = {"sqlite": SqliteTables, "postgres": PostgresTables}

_COLUMNS = f"{_TASK}, {_REST}"
RAW = {
    "stuck": f"SELECT {_COLUMNS} FROM @tasks WHERE state IN (4, 5, 6) ORDER BY state, stage, due_at LIMIT 100",
    "tasks": f"SELECT {_COLUMNS} FROM @tasks ORDER BY id DESC LIMIT 100",
    "destinations": "SELECT count(*), sum(size), min(created_at) FROM @tasks WHERE pipeline = 'bench' AND state = 2"
    " AND destination = 'old'",
    "counts": "SELECT stage, destination, state, count(*) FROM @tasks WHERE pipeline = 'bench'"
    " GROUP BY stage, destination, state",
}
"""The query that one would write by hand for the same question, where there is an index for it."""


async def asked(url, tables, times):
    """Return the seconds of each question, and of the query by hand, for a number of times in turns."""
    found = {name: [] for name in RAW}
    async with connect(url, upkeep_every=3_600) as broker, open_pipelines(broker) as pipelines:
        questions = {
            "stuck": pipelines.stuck,
            "tasks": lambda: pipelines.tasks("bench"),
            "destinations": lambda: pipelines.destinations("bench"),
            "counts": lambda: pipelines.counts("bench"),
        }
        for name, question in questions.items():
            for turn in range(times + 1 if name != "counts" else 3):
                first = tables.ask(RAW[name]) if turn % 2 else None  # what comes second finds its pages in memory
                began = time.perf_counter()
                await question()
                ours = time.perf_counter() - began
                found[name].append((ours, tables.ask(RAW[name]) if first is None else first))
            del found[name][0]
    return found
