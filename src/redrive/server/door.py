# SPDX-License-Identifier: MIT
"""The door: finds out who a request is from."""

import getpass
from typing import Protocol

from starlette.requests import HTTPConnection

from redrive.access import Principal, Role


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
        """Return an admin."""
        return Principal(name=self._name, role=Role.ADMIN, may_see_bodies=True, address=address_of(request))


def address_of(request: HTTPConnection) -> str:
    """Return the address that a request came from."""
    return request.client.host if request.client is not None else ""


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for its user
        return "local"
