# SPDX-License-Identifier: MIT
"""People who sign in, their sessions, and their attempts, in SQL."""

from collections.abc import Mapping

from redrive.access import Role
from redrive.access.records import Rights, SessionInfo, UserInfo
from redrive.access.store import SignInState
from redrive.clock import utc
from redrive.engines.sql.access.last_admin import keep_an_admin
from redrive.engines.sql.access.rights import rights_columns, rights_of_row
from redrive.engines.sql.script import Row, Script, Sql, now, plain

_USER = "name, role, queues, may_see_bodies, created_at, created_by"
_RIGHTS = "role = ?, queues = ?, may_see_bodies = ?"
_SESSION = "id, user_name, role, queues, may_see_bodies, created_at, used_at, address"


def add_user(name: str, password: str, rights: Rights, actor: str) -> Script[UserInfo | None]:
    """Store a user; None: there is one of this name."""
    time = yield from now()
    rows = yield Sql(
        "INSERT INTO @.access_users (name, password, role, queues, may_see_bodies, created_at, created_by)"
        f" VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING RETURNING {_USER}",
        [plain(name), password, *rights_columns(rights), time, plain(actor)],
    )
    return _user(rows[0]) if rows else None


def users() -> Script[list[UserInfo]]:
    """Return all users, in order of their names."""
    rows = yield Sql(f"SELECT {_USER} FROM @.access_users")
    return sorted((_user(row) for row in rows), key=lambda user: user.name)


def user_and_password(name: str) -> Script[tuple[UserInfo, str] | None]:
    """Return a user and what is stored of the password."""
    rows = yield Sql(f"SELECT {_USER}, password FROM @.access_users WHERE name = ?", [plain(name)])
    return (_user(rows[0]), rows[0]["password"]) if rows else None


def set_password(name: str, password: str) -> Script[bool]:
    """Change a password, and end the user's sessions."""
    rows = yield Sql("UPDATE @.access_users SET password = ? WHERE name = ? RETURNING 1", [password, plain(name)])
    yield Sql("DELETE FROM @.access_sessions WHERE user_name = ?", [plain(name)])
    return bool(rows)


def set_rights(name: str, rights: Rights, *, even_last: bool = False) -> Script[UserInfo | None]:
    """Change what a user may, and what their sessions may; None: there is none of this name."""
    if not even_last and (rights.role is not Role.ADMIN or rights.queues is not None):
        time = yield from now()
        yield from keep_an_admin(time, user=plain(name))
    rows = yield Sql(
        f"UPDATE @.access_users SET {_RIGHTS} WHERE name = ? RETURNING {_USER}", [*rights_columns(rights), plain(name)]
    )
    if not rows:
        return None
    yield from set_session_rights(name, rights)
    return _user(rows[0])


def remove_user(name: str, *, even_last: bool = False) -> Script[bool]:
    """Remove a user and their sessions."""
    if not even_last:
        time = yield from now()
        yield from keep_an_admin(time, user=plain(name))
    rows = yield Sql("DELETE FROM @.access_users WHERE name = ? RETURNING 1", [plain(name)])
    yield Sql("DELETE FROM @.access_sessions WHERE user_name = ?", [plain(name)])
    return bool(rows)


# --- sessions


def add_session(session_id: str, secret_hash: str, user: str, rights: Rights, address: str) -> Script[SessionInfo]:
    """Store a session, and forget those that were not used for a month."""
    time = yield from now()
    yield Sql("DELETE FROM @.access_sessions WHERE used_at < ?", [time - 30 * 86_400.0])
    (row,) = yield Sql(
        "INSERT INTO @.access_sessions"
        " (id, hash, user_name, role, queues, may_see_bodies, created_at, used_at, address)"
        f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING {_SESSION}",
        [session_id, secret_hash, plain(user), *rights_columns(rights), time, time, plain(address)],
    )
    return _session(row)


def session_of(secret_hash: str, idle_s: float) -> Script[SessionInfo | None]:
    """Return the session with a secret, if it was used within that time."""
    time = yield from now()
    rows = yield Sql(
        f"SELECT {_SESSION} FROM @.access_sessions WHERE hash = ? AND used_at > ?", [secret_hash, time - idle_s]
    )
    return _session(rows[0]) if rows else None


def use_session(session_id: str) -> Script[None]:
    """Note that a session was used."""
    time = yield from now()
    yield Sql("UPDATE @.access_sessions SET used_at = ? WHERE id = ?", [time, session_id])


def end_session(session_id: str) -> Script[bool]:
    """End a session."""
    return bool((yield Sql("DELETE FROM @.access_sessions WHERE id = ? RETURNING 1", [plain(session_id)])))


def set_session_rights(user: str, rights: Rights | None) -> Script[None]:
    """Change what all sessions of a user may; None: they end."""
    if rights is None:
        yield Sql("DELETE FROM @.access_sessions WHERE user_name = ?", [plain(user)])
    else:
        yield Sql(f"UPDATE @.access_sessions SET {_RIGHTS} WHERE user_name = ?", [*rights_columns(rights), plain(user)])


# --- OpenID Connect


def keep_sign_in(state_hash: str, state: SignInState) -> Script[None]:
    """Keep something until a person comes back from a provider; forget what was kept for an hour."""
    time = yield from now()
    yield Sql("DELETE FROM @.access_sign_ins WHERE at < ?", [time - 3_600.0])
    yield Sql(
        "INSERT INTO @.access_sign_ins (hash, browser, nonce, verifier, goes_to, at) VALUES (?, ?, ?, ?, ?, ?)",
        [state_hash, *state[:3], plain(state.goes_to), time],
    )


def take_sign_in(state_hash: str, within_s: float) -> Script[SignInState | None]:
    """Return what was kept, once, if that is not too long ago."""
    time = yield from now()
    rows = yield Sql(
        "DELETE FROM @.access_sign_ins WHERE hash = ? RETURNING browser, nonce, verifier, goes_to, at", [state_hash]
    )
    return SignInState(*tuple(rows[0])[:4]) if rows and rows[0]["at"] > time - within_s else None


# --- attempts


def attempt(limits: Mapping[str, int], window_s: float) -> Script[float]:
    """Note an attempt under all keys, or return how long to wait if one of them has had too many.

    The attempt is noted before it is made, so that those that come at once are counted, too.
    """
    time = yield from now()
    yield Sql("DELETE FROM @.access_attempts WHERE at <= ?", [time - window_s])
    for key, most in limits.items():
        yield Sql("INSERT INTO @.access_attempts (key, at) VALUES (?, ?)", [plain(key), time])
        rows = yield Sql(
            "SELECT at FROM @.access_attempts WHERE key = ? ORDER BY at DESC LIMIT ?", [plain(key), most + 1]
        )
        if len(rows) > most:
            wait: float = rows[most]["at"] + window_s - time
            return max(1.0, wait)
    return 0.0


def forgive(key: str) -> Script[None]:
    """Forget the attempts under a key."""
    yield Sql("DELETE FROM @.access_attempts WHERE key = ?", [plain(key)])


def _user(row: Row) -> UserInfo:
    return UserInfo(
        name=row["name"],
        rights=rights_of_row(row),
        created_at=utc(row["created_at"]),
        created_by=row["created_by"],
    )


def _session(row: Row) -> SessionInfo:
    return SessionInfo(
        id=row["id"],
        user=row["user_name"],
        rights=rights_of_row(row),
        created_at=utc(row["created_at"]),
        used_at=utc(row["used_at"]),
        address=row["address"],
    )
