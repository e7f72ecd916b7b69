# SPDX-License-Identifier: MIT
"""Engines that are broken on purpose, to see that the checker of the storms notices.

Each breaks one promise, now and then. What an engine cannot be asked for is done behind its back, in its tables.
"""

import asyncio
import sqlite3
from contextlib import closing
from itertools import count
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from redrive.broker import Complete, Message, Send
from redrive.errors import LockLost

EVERY = 9
"""How often a promise is broken: each so many calls."""


class Sound:
    """Passes everything on to an engine, and keeps every promise."""

    def __init__(self, engine, url):
        self._engine = engine
        self._url = url
        self._turns = count(1)

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def is_time(self):
        """Say whether a promise is broken now."""
        return next(self._turns) % EVERY == 0

    async def run_sql(self, statement, sequence=None):
        """Do something behind the engine's back, to one message if there is a number."""
        if sequence is not None:
            statement = f"{statement} WHERE sequence = {int(sequence)}"
        parts = urlsplit(self._url)
        if parts.scheme == "sqlite":
            await asyncio.to_thread(_run_sqlite, parts.path[1:], statement)
            return
        options = dict(parse_qsl(parts.query))
        connection = await asyncpg.connect(f"postgresql://{parts.path}?host={options['host']}&user={options['user']}")
        try:
            await connection.execute(f'SET search_path = "{options["schema"]}"; {statement.replace("@.", "")}')
        finally:
            await connection.close()


def _run_sqlite(path, statement):
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
        connection.execute(statement.replace("@.", "redrive_"))


def sends(effects):
    return bool(effects) and all(isinstance(effect, Send) for effect in effects)


class LosesSends(Sound):
    """Acknowledges before the commit, which does not come about."""

    async def apply(self, effects, *more):
        numbers = await self._engine.apply(effects, *more)
        if sends(effects) and self.is_time():
            await self.run_sql("DELETE FROM @.messages", numbers[0] or 0)
        return numbers


class SendsTwice(Sound):
    """Does a send again that was done."""

    async def apply(self, effects, *more):
        if sends(effects) and self.is_time():
            await self._engine.apply([Send(effects[0].queue, effects[0].message, even_if_seen=True)])
        return await self._engine.apply(effects, *more)


class Invents(Sound):
    """Has messages that nobody sent."""

    async def apply(self, effects, *more):
        if sends(effects) and self.is_time():
            other = Message(b"nobody sent this", id="nobody's", session_id=effects[0].message.session_id)
            await self._engine.apply([Send(effects[0].queue, other, even_if_seen=True)])
        return await self._engine.apply(effects, *more)


class ChangesBodies(Sound):
    """Stores something else than what was sent."""

    async def apply(self, effects, *more):
        numbers = await self._engine.apply(effects, *more)
        if sends(effects) and self.is_time():
            kind = "blob" if self._url.startswith("sqlite") else "bytea"
            change = f"UPDATE @.messages SET body = CAST('changed' AS {kind})"  # noqa: S608 - both kinds are ours
            await self.run_sql(change, numbers[0] or 0)
        return numbers


class DropsCompletions(Sound):
    """Says that a message is completed, and does nothing."""

    async def apply(self, effects, *more):
        if len(effects) == 1 and isinstance(effects[0], Complete) and self.is_time():
            return [None]
        return await self._engine.apply(effects, *more)


class EndsLocks(Sound):
    """Hands out messages that others have locked."""

    async def lock_next(self, *asked, **how):
        await self.run_sql("UPDATE @.messages SET due = 1 WHERE state = 2 AND session IS NULL")
        return await self._engine.lock_next(*asked, **how)


class IgnoresTokens(EndsLocks):
    """Lets anybody complete what somebody else has received; locks end early, so that there is somebody else."""

    async def apply(self, effects, *more):
        try:
            return await self._engine.apply(effects, *more)
        except LockLost:
            for effect in effects:
                await self.run_sql("DELETE FROM @.messages", effect.lock.sequence)
            return [None] * len(effects)


class EndsSessions(Sound):
    """Hands out sessions that others have locked."""

    async def lock_session(self, queue, session_id):
        await self.run_sql("UPDATE @.sessions SET locked_until = 1 WHERE token IS NOT NULL")
        return await self._engine.lock_session(queue, session_id or f"session-{next(self._turns) % 2}")


class KeepsLocks(Sound):
    """Locks messages for ever."""

    async def lock_next(self, *asked, **how):
        found = await self._engine.lock_next(*asked, **how)
        if found and self.is_time():
            await self.run_sql("UPDATE @.messages SET due = due + 1e6", found[0].sequence)
            return found[1:]
        return found


class PassesOver(Sound):
    """Delivers a session's messages in another order."""

    async def lock_in_session(self, session, limit, *, delete=False):
        found = await self._engine.lock_in_session(session, limit, delete=delete)
        if len(found) > 1:
            await self.run_sql(
                "UPDATE @.messages SET state = 0, due = NULL, token = NULL, delivery_count = delivery_count - 1",
                found[0].sequence,
            )
            return found[1:]
        return found


class ForgetsIds(Sound):
    """Does not remember which ids were sent."""

    async def apply(self, effects, *more):
        if sends(effects):
            await self.run_sql("DELETE FROM @.seen_ids")
        return await self._engine.apply(effects, *more)


class Swallows(Sound):
    """Takes a first copy for a duplicate."""

    async def apply(self, effects, *more):
        if sends(effects) and self.is_time():
            return [None] * len(effects)
        return await self._engine.apply(effects, *more)


class Miscounts(Sound):
    """Forgets a delivery."""

    async def lock_next(self, *asked, **how):
        found = await self._engine.lock_next(*asked, **how)
        if found:
            await self.run_sql("UPDATE @.messages SET delivery_count = 0", found[0].sequence)
        return found


SABOTAGES = {
    each.__name__: each
    for each in (
        *(LosesSends, SendsTwice, Invents, ChangesBodies, DropsCompletions, IgnoresTokens, EndsLocks, EndsSessions),
        *(KeepsLocks, PassesOver, ForgetsIds, Swallows, Miscounts),
    )
}
