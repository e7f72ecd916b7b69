# SPDX-License-Identifier: MIT
"""Upkeep of the shared tables: expiry, vacuum, and a watch on transactions that hold vacuum back.

Every message leaves dead rows behind. Autovacuum runs too rarely for a table that turns over in seconds, so upkeep
vacuums too. Any long transaction in the database keeps dead rows from being removed, however often that is tried; then
receives would read all of them. So, as long as that transaction is open, receives start to scan where they last found a
message.
"""

import logging
import math

import asyncpg

from redrive.broker.port import Upkeep
from redrive.engines.postgres.connections import Connections
from redrive.engines.postgres.driver import Connection
from redrive.engines.postgres.journeys import FORGET_OLD
from redrive.engines.postgres.scan_start import Heads
from redrive.engines.postgres.session_settings import as_needed

_VACUUM_EVERY_S = 4.0
_WORTH_A_VACUUM = 1_000
_LONGEST_VACUUM_S = 3_600.0
_LONG_S = 2.0
"""A transaction that has been open for this long holds vacuum back enough to be noticed."""

_logger = logging.getLogger("redrive.postgres")


class Tidying:
    """Upkeep of one engine's tables.

    Attributes:
        is_held_back: whether a long transaction keeps dead rows from being removed.
        began_at: by queue, the number from which its last receive scanned.
    """

    def __init__(self, database: Connections) -> None:
        self._database = database
        self._heads = Heads()
        self.is_held_back = False
        self.began_at: dict[int, int] = {}
        self._may_vacuum = True
        self._last_instant = math.inf

    # --- where a receive starts to scan

    def head(self, queue: int) -> int:
        """Return the number from which the next receive scans a queue."""
        head = self._heads.of(queue, self._database.clock.monotonic()) if self.is_held_back else 0
        self.began_at[queue] = head
        return head

    def note_heads(self, found: dict[int, int], began: float) -> None:
        """Remember where messages were found by a call that began then."""
        self._heads.note(found, self._database.clock.monotonic() - began)

    def look_again(self) -> None:
        """Scan from the beginning soon: an older message has become ready again."""
        self._heads.look_again()

    # --- upkeep

    async def tidy(self, limit: int) -> Upkeep:
        """Do a bounded amount of the work that no call asks for."""
        done = await self._database.transaction(lambda connection: self._tidy(connection, limit))
        async with self._database.connection() as connection:
            await self._watch(connection)
            await self._vacuum(connection)
        return done

    async def _tidy(self, connection: Connection, limit: int) -> Upkeep:
        sql, now = self._database.sql, self._database.now
        await self._shorten_locks(connection)
        released, buried = await connection.fetchrow(sql(_RELEASE), now, limit)
        expired = await connection.fetchval(sql(_EXPIRE), now, limit)
        await connection.execute(sql(_FORGET_SEEN), now, limit)
        await connection.execute(sql(FORGET_OLD), now, limit)
        await connection.execute(sql("SELECT @.drop_messages(id) FROM @.deleted_queues"))
        await connection.execute(sql("DELETE FROM @.deleted_queues WHERE at < now() - interval '10 minutes'"))
        deleted = await connection.fetchval(sql(_DELETE_IDLE), now)
        await self._database.drop_receipts(connection)
        return Upkeep(
            released=released,
            expired=expired,
            over_delivered=buried,
            queues_deleted=deleted,
            is_finished=released < limit and expired < limit,
        )

    async def _shorten_locks(self, connection: Connection) -> None:
        """End locks one duration from now at the latest, if the clock was set back, or may have been before we came.

        Their holders keep them at least as long as they were promised: that was one duration from when they got them.
        The time is read again when the rows are ours. A lock that another process took while this one stood still ends
        later than the time before allows, and not because of the clock.
        """
        sql, last = self._database.sql, self._last_instant
        self._last_instant = await connection.fetchval(sql("SELECT @.instant($1)"), self._database.now)
        if self._last_instant < last:
            late = await connection.fetch(sql(_LATE_LOCKS), self._last_instant)
            await connection.execute(sql(_SHORTEN_LOCKS), self._database.now, [row["sequence"] for row in late])
            late = await connection.fetch(sql(_LATE_SESSIONS), self._last_instant)
            queues, sessions = [row["queue"] for row in late], [row["session"] for row in late]
            await connection.execute(sql(_SHORTEN_SESSIONS), self._database.now, queues, sessions)

    async def _watch(self, connection: Connection) -> None:
        """Log a warning when a long transaction keeps dead rows from being removed."""
        async with as_needed(connection):
            row = await connection.fetchrow(_OLDEST)
        is_held_back = row is not None and row["age"] >= _LONG_S
        if row is not None and is_held_back and not self.is_held_back:
            _logger.warning(
                "a transaction of %s (pid %s, %s) has been open for %.0f s: vacuum cannot remove dead rows, and queues"
                " grow and slow down until it ends",
                row["usename"],
                row["pid"],
                row["application_name"] or "no application_name",
                row["age"],
            )
        elif self.is_held_back and not is_held_back:
            _logger.info("the transaction that held vacuum back has ended")
        self.is_held_back = is_held_back

    async def _vacuum(self, connection: Connection) -> None:
        """Vacuum the tables that need it, unless another process did a moment ago."""
        if not self._may_vacuum:
            return
        schema = self._database.schema[1:-1].replace('""', '"')
        async with as_needed(connection):
            if not await connection.fetchval(_MAY_VACUUM, f"{self._database.schema}.messages"):
                self._do_not_vacuum("this user does not own the broker's tables and may not vacuum them")
                return
            due = await connection.fetch(_NEEDS_VACUUM, schema, _WORTH_A_VACUUM, _VACUUM_EVERY_S)
        for row in due:
            statement = f'VACUUM (TRUNCATE FALSE, INDEX_CLEANUP TRUE, SKIP_LOCKED) @."{row["relname"]}"'
            try:
                await connection.execute(self._database.sql(statement), timeout=_LONGEST_VACUUM_S)
            except asyncpg.QueryCanceledError:  # the duration of a VACUUM cannot be limited
                self._do_not_vacuum("this user's statement_timeout is too short for a VACUUM; set it to 0")
                return

    def _do_not_vacuum(self, why: str) -> None:
        self._may_vacuum = False
        _logger.warning("%s: autovacuum has to do", why)


# Only the queues in which something is due: of ten thousand queues mostly none, and a look into an index is cheap.
# "LIMIT 1" keeps the planner from reading all messages at once instead.
_RELEASE = """
WITH due AS MATERIALIZED (
    SELECT q.id, n.now FROM (SELECT @.instant($1) AS now) n, @.queues q
    WHERE (SELECT m.due FROM @.messages m WHERE m.queue = q.id AND m.state IN (2, 4) AND m.due <= n.now
            ORDER BY m.due LIMIT 1) IS NOT NULL
        OR (SELECT m.due FROM @.messages m WHERE m.queue = q.id AND m.state = 1 AND m.due <= n.now
            ORDER BY m.due LIMIT 1) IS NOT NULL)
SELECT coalesce(sum(r.released), 0)::integer, coalesce(sum(r.buried), 0)::integer
FROM due d, LATERAL @.release_due(d.now, d.id, $2) r
"""

# An index has the locks of a queue in order of their end.
_LATE_LOCKS = """
SELECT l.sequence FROM @.queues q, LATERAL (
    SELECT m.sequence FROM @.messages m
    WHERE m.queue = q.id AND m.state IN (2, 4) AND m.due > $1::float8 + q.lock_duration FOR UPDATE SKIP LOCKED) l
"""

_SHORTEN_LOCKS = """
UPDATE @.messages m SET due = least(m.due, @.instant($1) + q.lock_duration) FROM @.queues q
WHERE q.id = m.queue AND m.sequence = ANY ($2)
"""

_LATE_SESSIONS = """
SELECT s.queue, s.session FROM @.sessions s JOIN @.queues q ON q.id = s.queue
WHERE s.locked_until > $1::float8 + q.lock_duration ORDER BY s.queue, s.session FOR UPDATE OF s
"""

_SHORTEN_SESSIONS = """
UPDATE @.sessions s SET locked_until = least(s.locked_until, @.instant($1) + q.lock_duration) FROM @.queues q
WHERE q.id = s.queue AND (s.queue, s.session) IN (SELECT * FROM unnest($2::integer[], $3::text[]))
"""

_EXPIRE = """
WITH old AS MATERIALIZED (
    SELECT m.sequence FROM @.messages m
    WHERE m.expires IS NOT NULL AND m.state IN (0, 3) AND m.expires <= (SELECT @.instant($1))
    ORDER BY m.expires LIMIT $2 FOR UPDATE SKIP LOCKED
), away AS MATERIALIZED (
    SELECT array_agg(old.sequence) AS sequences FROM old
)
SELECT coalesce(cardinality(away.sequences), 0) FROM away
    LEFT JOIN LATERAL (SELECT @.put_away(@.instant($1), away.sequences) WHERE away.sequences IS NOT NULL) p ON true
"""

_FORGET_SEEN = """
DELETE FROM @.seen_ids WHERE (queue, id) IN (
    SELECT queue, id FROM @.seen_ids WHERE until <= (SELECT @.instant($1))
    ORDER BY until LIMIT $2 FOR UPDATE SKIP LOCKED)
"""

_DELETE_IDLE = """
WITH idle AS MATERIALIZED (
    SELECT id FROM @.queues
    WHERE source IS NULL AND used_at + auto_delete_on_idle + least(1, auto_delete_on_idle / 10) <= @.instant($1)
    FOR UPDATE SKIP LOCKED
), gone AS MATERIALIZED (
    SELECT id, @.delete_queue(id) FROM idle
)
SELECT count(*) FROM gone
"""

_OLDEST = """
SELECT pid, usename, application_name, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS age
FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    AND xact_start IS NOT NULL AND datname = current_database() AND query NOT LIKE 'VACUUM%'
ORDER BY xact_start LIMIT 1
"""

_MAY_VACUUM = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = $1::regclass"

_NEEDS_VACUUM = """
SELECT relname FROM pg_stat_user_tables
WHERE schemaname = $1 AND n_dead_tup > $2 + n_live_tup / 100
    AND coalesce(last_vacuum, '-infinity') < clock_timestamp() - make_interval(secs => $3)
"""
