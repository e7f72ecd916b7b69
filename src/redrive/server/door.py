# SPDX-License-Identifier: MIT
"""The door: finds out who a request is from.

A token counts first, then what a trusted proxy says, then a session. Without any of them, a server that only this
machine can reach takes the request for its user's, unless the settings require sign-in.
"""

import getpass
import ipaddress
from collections.abc import Sequence
from typing import Final, Protocol

from starlette.requests import HTTPConnection

from redrive.access import Access, Principal, PrincipalKind, Role, rights_of
from redrive.access.credentials import csrf_token, is_equal
from redrive.errors import Forbidden, SignInRequired
from redrive.server.settings import ServerSettings

CSRF_HEADER: Final = "x-redrive-csrf"
"""The header with the token that a page sends with every change in a session."""

_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
_LONGEST_TOKEN: Final = 200


class Door(Protocol):
    """Finds out who a request is from."""

    async def admit(self, request: HTTPConnection) -> Principal:
        """Return who it is from.

        Raises:
            SignInRequired: it does not say so, or in a way that does not count.
        """
        ...


class OpenDoor:
    """Every request is from an admin: for a server that only this machine can reach.

    Args:
        name: the name in the audit trail; empty: that of the user who runs the server.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name or _user_name()

    async def admit(self, request: HTTPConnection) -> Principal:
        """Return an admin, unless the request was passed on from another machine.

        Raises:
            SignInRequired: it was.
        """
        if any(name in request.headers for name in _FORWARDED):
            raise SignInRequired("a proxy passed this on from another machine, and this server knows no one there")
        return Principal(name=self._name, role=Role.ADMIN, may_see_bodies=True, address=address_of(request))


class GuardedDoor:
    """Knows tokens, sessions, and trusted proxies.

    Args:
        access: the tokens and sessions.
        settings: which proxies are trusted, and whether sign-in is required.
    """

    def __init__(self, access: Access, settings: ServerSettings) -> None:
        self._access = access
        self._settings = settings
        self._networks = [ipaddress.ip_network(each) for each in settings.trusted_proxies]
        self._open = None if settings.require_sign_in else OpenDoor()
        self._proxied = rights_of(settings.proxy_role)

    async def admit(self, request: HTTPConnection) -> Principal:
        """Return who a request is from.

        Raises:
            SignInRequired: it does not say so, or in a way that does not count.
            Forbidden: it is a change in a session, and does not come from a page of this server.
        """
        address = address_of(request, self._networks)
        if (given := request.headers.get("authorization")) is not None:
            return await self._of_token(given, address)
        if (principal := self._of_proxy(request, address)) is not None:
            return principal
        if (secret := request.cookies.get(cookie_name(self._settings))) is not None:
            return await self._of_session(request, secret, address)
        if self._open is not None:
            return await self._open.admit(request)
        raise SignInRequired

    async def _of_token(self, given: str, address: str) -> Principal:
        scheme, _, secret = given.partition(" ")
        if scheme.lower() == "bearer" and len(secret) <= _LONGEST_TOKEN:
            principal = await self._access.token_principal(secret.strip(), address)
            if principal is not None:
                return principal
        raise SignInRequired("this token is not valid: it is none, has ended, or was revoked")

    def _of_proxy(self, request: HTTPConnection, address: str) -> Principal | None:
        """Return whom a trusted proxy has signed in; that header from elsewhere counts for nothing."""
        header = self._settings.proxy_user_header
        name = request.headers.get(header, "") if header and _is_in(address_of(request), self._networks) else ""
        if not name:
            return None
        rights = self._proxied
        return Principal(name=name, role=rights.role, queues=rights.queues, address=address, kind=PrincipalKind.PROXY)

    async def _of_session(self, request: HTTPConnection, secret: str, address: str) -> Principal:
        principal = await self._access.session_principal(secret, address)
        if principal is None:
            raise SignInRequired("this session has ended")
        given = request.headers.get(CSRF_HEADER, "")
        if request.scope.get("method", "GET") not in _SAFE and not is_equal(given, csrf_token(secret)):
            fix = f"send the session's csrf token in the header {CSRF_HEADER}"
            raise Forbidden("session", "this change does not come from a page of this server", fix)
        return principal


def cookie_name(settings: ServerSettings) -> str:
    """Return the name of the session's cookie: with TLS, one that no other host and no page without TLS can set."""
    return "__Host-redrive" if settings.public_url.startswith("https://") else "redrive"


def address_of(request: HTTPConnection, proxies: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()) -> str:
    """Return the address that a request came from: what trusted proxies say, or else the nearest one."""
    address = request.client.host if request.client is not None else ""
    passed = [each.strip() for each in request.headers.get("x-forwarded-for", "").split(",") if each.strip()]
    while passed and _is_in(address, proxies):
        address = passed.pop()
    return address


def _is_in(address: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in networks)


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for its user
        return "local"
