# SPDX-License-Identifier: MIT
"""The port of the server's own store: who may sign in, who has, and what has changed. Each verb is one transaction."""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple, Protocol

from redrive.access.records import RedactionInfo, RedactionKind, Rights, SessionInfo, TokenInfo, UserInfo
from redrive.access.saved_views import ViewStore


class LastChanges(NamedTuple):
    """The numbers of the last changes, in one row: another number than before means that something has changed.

    Attributes:
        failures: of failed messages, and of operations' work on them.
        audit: of what people did.
        routes: of routes.
        pipelines: of tasks of pipelines.
        is_sending: whether messages of operations are being sent: to send one changes no number.
    """

    failures: int
    audit: int
    routes: int
    pipelines: int
    is_sending: bool = False


class RequestState(Enum):
    """What is known about a request with a key."""

    BEGUN = "begun"
    """It was not known, and is now the caller's to work on."""

    UNDER_WAY = "under way"
    """Another request with its key is being worked on."""

    DONE = "done"


class RequestStore(Protocol):
    """Requests that are made once for a key."""

    async def begin_request(self, name: str, working_s: float, kept_s: float) -> RequestState:
        """Write down that a request is being worked on, unless it is already, or is done.

        Args:
            name: the request.
            working_s: after so long a request that was begun is taken for one whose server has ended.
            kept_s: how long requests are remembered.
        """
        ...

    async def finish_request(self, name: str) -> None:
        """Write down that a request is done."""
        ...

    async def forget_request(self, name: str) -> None:
        """Forget a request that came to nothing."""
        ...

    def doing_request(self, name: str, key: str, kept_s: float) -> Callable[[Any], object]:
        """Return the part of a transaction that writes down that a request is done by it.

        It raises RequestRepeated, so that nothing is done, if it was done before.
        """
        ...


class SignInState(NamedTuple):
    """What is kept while a person is at a provider of OpenID Connect.

    Attributes:
        browser: the hash of a secret that the browser has, so that no other browser can end what it began.
        nonce: what the provider must repeat in the identity.
        verifier: proves to the provider that this server has asked.
        goes_to: the page that the person wanted.
    """

    browser: str
    nonce: str
    verifier: str
    goes_to: str


class TokenStore(Protocol):
    """Tokens of programs."""

    async def add_token(
        self, token_id: str, secret_hash: str, name: str, rights: Rights, *, actor: str, expires_at: datetime | None
    ) -> TokenInfo:
        """Store a token."""
        ...

    async def tokens(self) -> list[TokenInfo]:
        """Return all tokens, the newest first, also those that have ended."""
        ...

    async def token_of(self, secret_hash: str) -> TokenInfo | None:
        """Return the token with a secret, if it has neither ended nor been revoked."""
        ...

    async def use_token(self, token_id: str) -> None:
        """Note that a token was used."""
        ...

    async def revoke_token(self, token_id: str, *, even_last: bool = False) -> TokenInfo | None:
        """End a token; None: there is none with this id.

        Raises:
            LastAdmin: it is the last admin, and ``even_last`` does not say that it is meant.
        """
        ...


class UserStore(Protocol):
    """People who sign in, and their sessions."""

    async def add_user(self, name: str, password: str, rights: Rights, actor: str) -> UserInfo | None:
        """Store a user; None: there is one of this name."""
        ...

    async def users(self) -> list[UserInfo]:
        """Return all users, in order of their names."""
        ...

    async def user_and_password(self, name: str) -> tuple[UserInfo, str] | None:
        """Return a user and what is stored of the password."""
        ...

    async def set_password(self, name: str, password: str) -> bool:
        """Change a password, and end the sessions of the user; False: there is none."""
        ...

    async def set_rights(self, name: str, rights: Rights, *, even_last: bool = False) -> UserInfo | None:
        """Change what a user and their sessions may; None: there is none.

        Raises:
            LastAdmin: it is the last admin, and ``even_last`` does not say that it is meant.
        """
        ...

    async def remove_user(self, name: str, *, even_last: bool = False) -> bool:
        """Remove a user and their sessions; False: there is none.

        Raises:
            LastAdmin: it is the last admin, and ``even_last`` does not say that it is meant.
        """
        ...

    async def add_session(
        self, session_id: str, secret_hash: str, user: str, rights: Rights, address: str
    ) -> SessionInfo:
        """Store a session."""
        ...

    async def session_of(self, secret_hash: str, idle_s: float) -> SessionInfo | None:
        """Return the session with a secret, if it was used within that time."""
        ...

    async def use_session(self, session_id: str) -> None:
        """Note that a session was used."""
        ...

    async def end_session(self, session_id: str) -> bool:
        """End a session; False: there is none."""
        ...

    async def set_session_rights(self, user: str, rights: Rights | None) -> None:
        """Change what all sessions of a user may; None: they end."""
        ...

    async def keep_sign_in(self, state_hash: str, state: SignInState) -> None:
        """Keep something until a person comes back from a provider."""
        ...

    async def take_sign_in(self, state_hash: str, within_s: float) -> SignInState | None:
        """Return what was kept, once, if that is not too long ago."""
        ...

    async def attempt(self, limits: Mapping[str, int], window_s: float) -> float:
        """Note an attempt to sign in under some keys; return how long to wait, 0 if it may be made.

        Args:
            limits: how many attempts each key may have within the window.
            window_s: how long an attempt counts.
        """
        ...

    async def forgive(self, key: str) -> None:
        """Forget the attempts under a key."""
        ...


class RedactionStore(Protocol):
    """Rules of redaction, beside those in files."""

    async def add_redaction(self, kind: RedactionKind, value: str, actor: str) -> RedactionInfo:
        """Store a rule; one that is there is returned as it is."""
        ...

    async def redactions(self) -> list[RedactionInfo]:
        """Return all rules, the oldest first."""
        ...

    async def remove_redaction(self, number: int) -> RedactionInfo | None:
        """Remove a rule; None: there is none of this number."""
        ...


class AccessStore(RequestStore, TokenStore, UserStore, RedactionStore, ViewStore, Protocol):
    """What the server keeps for itself."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def changes(self) -> LastChanges:
        """Return the numbers of the last changes."""
        ...
