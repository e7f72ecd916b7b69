# SPDX-License-Identifier: MIT
"""Tokens, users and rules of redaction behind a server, as a command uses them: the methods of ``Access``."""

from typing import Any, NoReturn

from redrive import duration
from redrive.access import NewToken, RedactionInfo, RedactionKind, Rights, TokenInfo, UserInfo
from redrive.broker.views import View
from redrive.errors import NotSupported
from redrive.remote.broker import WITHOUT_DATABASE
from redrive.remote.connection import ServerConnection, quoted
from redrive.remote.records import record, records


class RemoteAccess:
    """Who may use a server, through the server. It knows who asks by the token.

    Args:
        server: the server.

    Attributes:
        redactions: what is hidden in messages.
    """

    def __init__(self, server: ServerConnection) -> None:
        self._server = server
        self.redactions = RemoteRedactions(server)

    def __getattr__(self, name: str) -> NoReturn:
        raise NotSupported(WITHOUT_DATABASE, f"this command ({name}); give the URL of the database: --url")

    async def tokens(self) -> list[TokenInfo]:
        """Return all tokens."""
        return [_token(each) for each in await self._server.get("/tokens")]

    async def create_token(
        self, name: str, rights: Rights, *, expires_in: duration.Duration | None = None, actor: str = ""
    ) -> NewToken:
        """Make a token."""
        lasts = None if expires_in is None else duration.seconds("expires_in", expires_in)
        made = await self._server.send("POST", "/tokens", {"name": name, **rights.view(), "expires_in": lasts})
        return NewToken(_token(made), made["token"])

    async def revoke_token(self, token_id: str, *, even_last: bool = False) -> TokenInfo:
        """End a token."""
        return _token(await self._server.send("DELETE", f"/tokens/{quoted(token_id)}{_meant(even_last)}"))

    async def users(self) -> list[UserInfo]:
        """Return all users."""
        return [_user(each) for each in await self._server.get("/users")]

    async def add_user(self, name: str, password: str, rights: Rights, *, actor: str = "") -> UserInfo:
        """Add a user."""
        return _user(await self._server.send("POST", "/users", {"name": name, "password": password, **rights.view()}))

    async def set_password(self, name: str, password: str) -> None:
        """Change a password."""
        await self._server.send("PUT", f"/users/{quoted(name)}/password", {"password": password})

    async def set_rights(self, name: str, rights: Rights, *, even_last: bool = False) -> UserInfo:
        """Change what a user may."""
        address = f"/users/{quoted(name)}/rights{_meant(even_last)}"
        return _user(await self._server.send("PUT", address, rights.view()))

    async def remove_user(self, name: str, *, even_last: bool = False) -> None:
        """Remove a user."""
        await self._server.send("DELETE", f"/users/{quoted(name)}{_meant(even_last)}")


class RemoteRedactions:
    """What a server hides in messages.

    Args:
        server: the server.
    """

    def __init__(self, server: ServerConnection) -> None:
        self._server = server

    async def rules(self) -> list[RedactionInfo]:
        """Return the rules, also those of the server's file."""
        return records(RedactionInfo, await self._server.get("/redactions"))

    async def add(self, kind: str | RedactionKind, value: str, *, actor: str = "") -> RedactionInfo:
        """Hide something."""
        word = kind.value if isinstance(kind, RedactionKind) else kind
        return record(RedactionInfo, await self._server.send("POST", "/redactions", {"kind": word, "value": value}))

    async def remove(self, number: int) -> RedactionInfo:
        """Hide something no longer."""
        return record(RedactionInfo, await self._server.send("DELETE", f"/redactions/{number}"))


def _meant(even_last: bool) -> str:  # noqa: FBT001 - as the method has it
    return "?even_last=true" if even_last else ""


def _token(view: View) -> TokenInfo:
    return record(TokenInfo, _with_rights(view))


def _user(view: View) -> UserInfo:
    return record(UserInfo, _with_rights(view))


def _with_rights(view: View) -> dict[str, Any]:
    """Return a view whose rights are one value, as in the record."""
    return {**view, "rights": {name: view[name] for name in ("role", "queues", "may_see_bodies")}}
