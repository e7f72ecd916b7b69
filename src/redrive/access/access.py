# SPDX-License-Identifier: MIT
"""Tokens, users and sessions as the command line and the server use them."""

import asyncio
from datetime import timedelta
from typing import Final, NamedTuple

from redrive import duration
from redrive.access.credentials import (
    NO_PASSWORD,
    check_password,
    hash_of,
    hashed_password,
    is_password,
    new_secret,
    new_token,
)
from redrive.access.principal import Principal, PrincipalKind
from redrive.access.records import Rights, SessionInfo, TokenInfo, UserInfo, check_name
from redrive.access.redactions import Redactions
from redrive.access.store import AccessStore
from redrive.clock import Clock, utc
from redrive.errors import InvalidSetting, SignInRequired, TokenNotFound, TooManyAttempts, UserConflict, UserNotFound

_NOTE_USE_S: Final = 60.0
_WINDOW_S: Final = 900.0
_OF_ACCOUNT: Final = 10
_OF_ADDRESS: Final = 50
_WRONG: Final = "name or password is wrong"


class NewToken(NamedTuple):
    """A token that was just made: the only moment at which it can be seen.

    Attributes:
        info: what is stored of it.
        secret: the token.
    """

    info: TokenInfo
    secret: str


class NewSession(NamedTuple):
    """A session that has just begun.

    Attributes:
        info: what is stored of it.
        secret: what the cookie holds.
    """

    info: SessionInfo
    secret: str


class Access:
    """Who may sign in, and who has.

    Args:
        store: where they are kept.
        clock: where time comes from.

    Attributes:
        IDLE_S: how long a session lasts without use, in seconds.
        PROVIDER_S: how long a session of a person from a provider lasts, in use or not: then they sign in again, and
            the provider says what they may.
        redactions: what is hidden in messages, beside what a file says.
    """

    IDLE_S: Final = 12 * 3_600.0
    PROVIDER_S: Final = 8 * 3_600.0

    def __init__(self, store: AccessStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._attempting = asyncio.Lock()
        self.redactions = Redactions(store, clock)

    @property
    def store(self) -> AccessStore:
        """The port, for code that uses it directly."""
        return self._store

    # --- tokens

    async def create_token(
        self, name: str, rights: Rights, *, expires_in: duration.Duration | None = None, actor: str = ""
    ) -> NewToken:
        """Make a token for a program; it is shown this once.

        Args:
            name: what it is for.
            rights: what it may do.
            expires_in: how long it lasts; None: until it is revoked.
            actor: who makes it.
        """
        token_id, secret = new_token()
        lasts = None if expires_in is None else duration.seconds("expires_in", expires_in)
        expires_at = None if lasts is None else utc(self._clock.time()) + timedelta(seconds=lasts)
        name = check_name("name", name)
        info = await self._store.add_token(token_id, hash_of(secret), name, rights, actor=actor, expires_at=expires_at)
        return NewToken(info, secret)

    async def tokens(self) -> list[TokenInfo]:
        """Return all tokens, the newest first."""
        return await self._store.tokens()

    async def revoke_token(self, token_id: str, *, even_last: bool = False) -> TokenInfo:
        """End a token at once.

        Args:
            token_id: its id.
            even_last: whether it is meant even if no admin is left then.

        Raises:
            TokenNotFound: there is none with this id.
            LastAdmin: it is the last admin.
        """
        found = await self._store.revoke_token(token_id, even_last=even_last)
        if found is None:
            raise TokenNotFound(token_id)
        return found

    async def token_principal(self, secret: str, address: str) -> Principal | None:
        """Return who a token belongs to; None: it is none, has ended or was revoked."""
        found = await self._store.token_of(hash_of(secret))
        if found is None:
            return None
        if self._is_stale(None if found.used_at is None else found.used_at.timestamp()):
            await self._store.use_token(found.id)
        return _principal(f"token:{found.name}", found.rights, address, PrincipalKind.TOKEN, found.id)

    # --- users

    async def add_user(self, name: str, password: str, rights: Rights, *, actor: str = "") -> UserInfo:
        """Add a person who signs in with a password.

        Raises:
            UserConflict: there is one of this name.
        """
        if ":" in check_name("name", name):
            raise InvalidSetting("name", name, "must be a name without a colon: token:ci is the name of a token")
        hashed = await asyncio.to_thread(hashed_password, check_password(password))
        added = await self._store.add_user(name, hashed, rights, actor)
        if added is None:
            raise UserConflict(name)
        return added

    async def users(self) -> list[UserInfo]:
        """Return all users, in order of their names."""
        return await self._store.users()

    async def set_password(self, name: str, password: str) -> None:
        """Change a password; the user's sessions end.

        Raises:
            UserNotFound: there is none of this name.
        """
        hashed = await asyncio.to_thread(hashed_password, check_password(password))
        if not await self._store.set_password(name, hashed):
            raise UserNotFound(name)

    async def set_rights(self, name: str, rights: Rights, *, even_last: bool = False) -> UserInfo:
        """Change what a user may; it counts for their sessions at once.

        Args:
            name: their name.
            rights: what they may from now on.
            even_last: whether it is meant even if no admin is left then.

        Raises:
            UserNotFound: there is none of this name.
            LastAdmin: it is the last admin.
        """
        changed = await self._store.set_rights(name, rights, even_last=even_last)
        if changed is None:
            raise UserNotFound(name)
        return changed

    async def remove_user(self, name: str, *, even_last: bool = False) -> None:
        """Remove a user; their sessions end.

        Args:
            name: their name.
            even_last: whether it is meant even if no admin is left then.

        Raises:
            UserNotFound: there is none of this name.
            LastAdmin: it is the last admin.
        """
        if not await self._store.remove_user(name, even_last=even_last):
            raise UserNotFound(name)

    # --- sessions

    async def sign_in(self, name: str, password: str, address: str) -> NewSession:
        """Begin a session. Whatever is wrong, the answer is the same, and takes as long.

        Raises:
            TooManyAttempts: there were too many for this account, or from this address.
            SignInRequired: name or password is wrong.
        """
        limits = {f"user:{hash_of(name)}": _OF_ACCOUNT, f"address:{address}": _OF_ADDRESS}
        async with self._attempting:  # of many at once, no more than allowed are looked at
            wait = await self._store.attempt(limits, _WINDOW_S)
        if wait:
            raise TooManyAttempts(wait)
        found = await self._store.user_and_password(name)
        stored = NO_PASSWORD if found is None else found[1]
        if not await asyncio.to_thread(is_password, password, stored) or found is None:
            raise SignInRequired(_WRONG)
        await self._store.forgive(f"user:{hash_of(name)}")
        return await self.begin_session(found[0].name, found[0].rights, address)

    async def begin_session(self, user: str, rights: Rights, address: str) -> NewSession:
        """Begin a session of a user whose identity is certain; it has a new secret each time."""
        secret = new_secret()
        info = await self._store.add_session(new_secret()[:16], hash_of(secret), user, rights, address)
        return NewSession(info, secret)

    async def session_principal(self, secret: str, address: str) -> Principal | None:
        """Return who a session belongs to; None: it is none, has ended, or was not used for too long."""
        found = await self._store.session_of(hash_of(secret), self.IDLE_S)
        if found is None or (found.is_from_provider and self._has_lasted(found) > self.PROVIDER_S):
            return None
        if self._is_stale(found.used_at.timestamp()):
            await self._store.use_session(found.id)
        return _principal(found.user, found.rights, address, PrincipalKind.SESSION, found.id)

    async def begin_provider_session(self, user: str, rights: Rights | None, address: str) -> NewSession | None:
        """Begin a session of a person whom a provider has signed in; what they may counts for their other sessions.

        Args:
            user: their name.
            rights: what they may; None: nothing, so that all their sessions end and none begins.
            address: where they are.
        """
        await self._store.set_session_rights(user, rights)
        return None if rights is None else await self.begin_session(user, rights, address)

    async def sign_out(self, session_id: str) -> None:
        """End a session."""
        await self._store.end_session(session_id)

    def _has_lasted(self, session: SessionInfo) -> float:
        return self._clock.time() - session.created_at.timestamp()

    def _is_stale(self, used_at: float | None) -> bool:
        """Say whether a use must be noted: not with every request, which would make each of them a write."""
        return used_at is None or abs(self._clock.time() - used_at) >= _NOTE_USE_S


def _principal(name: str, rights: Rights, address: str, kind: PrincipalKind, key: str) -> Principal:
    return Principal(
        name=name,
        role=rights.role,
        queues=rights.queues,
        may_see_bodies=rights.may_see_bodies,
        address=address,
        kind=kind,
        key=key,
    )
