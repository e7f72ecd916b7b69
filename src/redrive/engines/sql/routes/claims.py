# SPDX-License-Identifier: MIT
"""Claims in SQL: a key that belongs to one event for a while."""

from hashlib import sha256

from redrive.engines.sql.script import Many, Script, Sql, now, plain

_LONGEST = 200
_HASHED = "sha256:"


def claim(owner: str, key: str, holder: str, seconds: float) -> Script[bool]:
    """Claim a key that is free, whose time is over, or that the same holder has; say whether it is this holder's."""
    time = yield from now()
    rows = yield Sql(
        "INSERT INTO @.route_claims AS c (owner, key, holder, expires) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (owner, key) DO UPDATE SET holder = excluded.holder,"
        " expires = CASE WHEN c.expires <= ? THEN excluded.expires ELSE c.expires END"
        " WHERE c.expires <= ? OR c.holder = excluded.holder RETURNING 1",
        [short(owner), short(key), short(holder), time + seconds, time, time],
    )
    return bool(rows)


def release(owner: str, key: str, holder: str) -> Script[None]:
    """Give a key back, if this holder has it."""
    yield Sql(
        "DELETE FROM @.route_claims WHERE owner = ? AND key = ? AND holder = ?",
        [short(owner), short(key), short(holder)],
    )


def forget_claims(limit: int = 1_000) -> Script[int]:
    """Forget claims whose time is over, and taps; return how many claims."""
    time = yield from now()
    yield Sql("DELETE FROM @.route_taps WHERE until <= ?", [time])
    # locked in one order, and looked at again when they are: another holder may be taking one of them
    over = yield Sql(
        "SELECT owner, key FROM @.route_claims WHERE expires <= ? ORDER BY expires, owner, key LIMIT ? @lock",
        [time, limit],
    )
    yield Many("DELETE FROM @.route_claims WHERE owner = ? AND key = ?", [(owner, key) for owner, key in over])
    return len(over)


def short(text: str) -> str:
    """Return a text that stands for a key: the key itself, or its hash if it is long or no database can store it."""
    if len(text) <= _LONGEST and plain(text) == text and not text.startswith(_HASHED):
        return text
    return _HASHED + sha256(text.encode(errors="surrogatepass")).hexdigest()
