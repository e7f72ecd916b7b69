# SPDX-License-Identifier: MIT
"""Before a caller is told that nothing is there: whether something is, in other hands for the moment.

A receive passes over rows that another transaction has locked. Mostly that is another receiver, who takes them. But it
may be one that only brings in what is due, or ends locks that are over, or is undone: then the messages are there for
everybody a moment later. So whoever finds nothing looks once more, at what is there by the last commit; if there is
something, its holder is waited for, and then the caller looks again.
"""

import asyncio
from enum import Enum

import asyncpg

from redrive.engines.postgres.connections import Connections
from redrive.engines.postgres.driver import Connection
from redrive.engines.postgres.session_settings import as_needed


class There(Enum):
    """What is there for somebody who has found nothing."""

    NOTHING = "nothing"
    SOMETHING = "something that nobody has in hand any more"
    HELD = "something that somebody has in hand for long"


class Holders:
    """Those who have messages in their hands that others could receive.

    Args:
        database: where.
    """

    def __init__(self, database: Connections) -> None:
        self._database = database
        self._waiting: dict[int, asyncio.Task[There]] = {}

    async def let_go(self, queue: str, *, start: int = 0, session: str | None = None) -> There:
        """Say whether there is something to receive after all; if it is in other hands, not before these let go.

        Args:
            queue: where.
            start: the number from which on to look for what is ready.
            session: the session of which it must be; None: of any that nobody has, or of none.
        """
        found = await self._database.read(_HELD, queue, self._database.now, start, session)
        return await self._released(found[0]["sequence"]) if found else There.NOTHING

    async def close(self) -> None:
        """Wait for those who wait."""
        while self._waiting:
            await asyncio.gather(*self._waiting.values(), return_exceptions=True)

    async def _released(self, sequence: int) -> There:
        """Wait until nobody has a row; all callers who wait for the same one do so on one connection."""
        waiting = self._waiting.get(sequence)
        if waiting is None:
            waiting = asyncio.create_task(self._wait(sequence), name="redrive-postgres-holders")
            self._waiting[sequence] = waiting
            waiting.add_done_callback(lambda done: self._forget(sequence, done))
        return await asyncio.shield(waiting)

    def _forget(self, sequence: int, waiting: "asyncio.Task[There]") -> None:
        del self._waiting[sequence]
        if not waiting.cancelled():
            waiting.exception()  # whoever is still there hears of it

    async def _wait(self, sequence: int) -> There:
        async def wait(connection: Connection) -> There:
            try:
                async with as_needed(connection):
                    await connection.execute(self._database.sql(_RELEASED), sequence)
            except asyncpg.LockNotAvailableError:
                return There.HELD
            return There.SOMETHING

        return await self._database.until_done(lambda: self._database.lent(wait))


# One statement, so that nobody has the row in hand longer than it takes: others pass over it meanwhile. Transactions of
# ours take milliseconds; for somebody's own, in which a message is being settled, nobody waits longer than that.
_RELEASED = """
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', '1s', true))
SELECT FROM patience, @.messages m WHERE m.sequence = $1 FOR SHARE OF m
"""

_WORTH = "(m.expires IS NULL OR m.expires > (SELECT @.instant($2)))"
_SESSION = """
    CASE WHEN $4::text IS NOT NULL THEN m.session = $4
        WHEN m.session IS NULL THEN true
        ELSE NOT EXISTS (SELECT FROM @.sessions s WHERE s.queue = m.queue AND s.session = m.session
            AND s.token IS NOT NULL AND s.locked_until > (SELECT @.instant($2))) END
"""

_HELD = f"""
SELECT f.sequence FROM @.queues q, LATERAL (
    (SELECT m.sequence FROM @.messages m WHERE m.queue = q.id AND m.state = 0 AND m.sequence + 0 >= $3
        AND m.delivery_count < q.max_delivery_count AND {_WORTH} AND {_SESSION} ORDER BY m.sequence + 0 LIMIT 1)
    UNION ALL
    (SELECT m.sequence FROM @.messages m WHERE m.queue = q.id AND m.state = 1 AND m.due <= (SELECT @.instant($2))
        AND {_WORTH} AND {_SESSION} ORDER BY m.due LIMIT 1)
    UNION ALL
    (SELECT m.sequence FROM @.messages m WHERE m.queue = q.id AND m.state IN (2, 4) AND m.state = 2
        AND m.due <= (SELECT @.instant($2)) AND m.delivery_count < q.max_delivery_count AND {_WORTH} AND {_SESSION}
        ORDER BY m.due LIMIT 1)) f
WHERE q.name = $1 LIMIT 1
"""
