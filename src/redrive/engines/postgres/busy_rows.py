# SPDX-License-Identifier: MIT
"""Checks, before a receive reports an empty queue, whether another transaction holds a message for the moment.

A receive skips rows that another transaction has locked. Mostly that transaction is another receiver, which takes the
messages. But it may only make due messages ready, or end expired locks, or be rolled back: then every receiver can get
the messages a moment later. So a receive that finds no message looks once more, at the rows as of the last commit; if
there is a message, the engine waits until the other transaction ends, and then the receive looks again.
"""

import asyncio
from enum import Enum

import asyncpg

from redrive.engines.postgres.connections import Connections
from redrive.engines.postgres.driver import Connection
from redrive.engines.postgres.session_settings import as_needed


class There(Enum):
    """What a queue has for a receiver that has found no message."""

    NOTHING = "nothing"
    SOMETHING = "a message that no transaction holds any more"
    HELD = "a message that another transaction holds for long"


class Holders:
    """The transactions that hold rows of messages which other receivers could get.

    Args:
        database: where.
    """

    def __init__(self, database: Connections) -> None:
        self._database = database
        self._waiting: dict[int, asyncio.Task[There]] = {}

    async def let_go(self, queue: str, *, start: int = 0, session: str | None = None) -> There:
        """Return whether there is a message to receive after all; if a transaction holds it, wait until it lets go.

        Args:
            queue: where.
            start: the number from which on to look for what is ready.
            session: the session of which it must be; None: of any session that is not locked, or of none.
        """
        found = await self._database.read(_HELD, queue, self._database.now, start, session)
        return await self._released(found[0]["sequence"]) if found else There.NOTHING

    async def close(self) -> None:
        """Wait until no call waits any more."""
        while self._waiting:
            await asyncio.gather(*self._waiting.values(), return_exceptions=True)

    async def _released(self, sequence: int) -> There:
        """Wait until no transaction holds a row; all callers that wait for the same row share one connection."""
        waiting = self._waiting.get(sequence)
        if waiting is None:
            waiting = asyncio.create_task(self._wait(sequence), name="redrive-postgres-holders")
            self._waiting[sequence] = waiting
            waiting.add_done_callback(lambda done: self._forget(sequence, done))
        return await asyncio.shield(waiting)

    def _forget(self, sequence: int, waiting: "asyncio.Task[There]") -> None:
        del self._waiting[sequence]
        if not waiting.cancelled():
            waiting.exception()  # the callers that still wait get it

    async def _wait(self, sequence: int) -> There:
        async def wait(connection: Connection) -> There:
            try:
                async with as_needed(connection):
                    await connection.execute(self._database.sql(_RELEASED), sequence)
            except asyncpg.LockNotAvailableError:
                return There.HELD
            return There.SOMETHING

        return await self._database.until_done(lambda: self._database.lent(wait))


# One statement, so that the row is locked no longer than the statement takes: other receives skip it meanwhile.
# Transactions of the broker take milliseconds; a user's own transaction, in which a message is being settled, may take
# longer, and is waited for no longer than this.
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
