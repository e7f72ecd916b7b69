# SPDX-License-Identifier: MIT
"""Tokens, users and sessions as they are stored and listed. Pure: no I/O, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from redrive.access.roles import Role
from redrive.broker.views import View
from redrive.errors import InvalidSetting

_LONGEST_NAME: Final = 100
PROVIDER_PREFIX: Final = "oidc:"
"""What the name of a person from a provider begins with, so that none can have the name of another user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a token or a user may do.

    Attributes:
        role: the role.
        queues: the queues that it is limited to; None: no limit.
        may_see_bodies: whether it may see what the rules of redaction hide.
    """

    role: Role
    queues: tuple[str, ...] | None = None
    may_see_bodies: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.role, Role):
            raise InvalidSetting("role", self.role, "must be viewer, operator or admin")
        for each in self.queues or ():
            if not each or "*" in each[:-1]:
                raise InvalidSetting(
                    "queues", each, "must be the name of a queue, or its beginning and a star: orders.*"
                )

    def view(self) -> View:
        """Return them as JSON."""
        queues = None if self.queues is None else list(self.queues)
        return {"role": self.role.value, "queues": queues, "may_see_bodies": self.may_see_bodies}


def rights_of(role: str | Role, queues: Sequence[str] | None = None, *, may_see_bodies: bool = False) -> Rights:
    """Return rights, from words.

    Raises:
        InvalidSetting: there is no such role, or a queue is none.
    """
    known = {each.value: each for each in Role}
    found = known.get(role, role) if isinstance(role, str) else role
    return Rights(role=found, queues=None if queues is None else tuple(queues), may_see_bodies=may_see_bodies)  # type: ignore[arg-type]  # it checks the role


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenInfo:
    """A token of a program; its secret is not kept.

    Attributes:
        id: the beginning of the token, by which people recognise it.
        name: what it is for.
        rights: what it may do.
        created_at: when it was made.
        created_by: who made it.
        expires_at: when it ends; None: never.
        used_at: when it was last used, to a minute; None: never.
        revoked_at: when it was revoked; None: it was not.
    """

    id: str
    name: str
    rights: Rights
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    used_at: datetime | None = None
    revoked_at: datetime | None = None

    def view(self) -> View:
        """Return it as JSON."""
        times = {name: _time(getattr(self, name)) for name in ("created_at", "expires_at", "used_at", "revoked_at")}
        return {"id": self.id, "name": self.name, **self.rights.view(), "created_by": self.created_by, **times}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo:
    """A person who signs in with a password.

    Attributes:
        name: their name.
        rights: what they may do.
        created_at: when they were added.
        created_by: who added them.
    """

    name: str
    rights: Rights
    created_at: datetime
    created_by: str

    def view(self) -> View:
        """Return them as JSON."""
        created = {"created_by": self.created_by, "created_at": self.created_at.isoformat()}
        return {"name": self.name, **self.rights.view(), **created}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A person who has signed in.

    Attributes:
        id: names it in lists; it is no secret.
        user: who.
        rights: what they may do.
        created_at: when they signed in.
        used_at: when they last asked for something, to a minute.
        address: where they signed in from.
    """

    id: str
    user: str
    rights: Rights
    created_at: datetime
    used_at: datetime
    address: str

    @property
    def is_from_provider(self) -> bool:
        """Whether a provider of OpenID Connect has signed them in."""
        return self.user.startswith(PROVIDER_PREFIX)


class RedactionKind(Enum):
    """What a rule of redaction goes by."""

    HEADER = "header"
    POINTER = "pointer"
    PATTERN = "pattern"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionInfo:
    """A rule of redaction.

    Attributes:
        number: names it; None: it is in a file, and can be changed there only.
        kind: what it goes by.
        value: the name of a header, a place in a body, or a pattern.
        created_at: when it was added; None: it is in a file.
        created_by: who added it.
    """

    number: int | None
    kind: RedactionKind
    value: str
    created_at: datetime | None
    created_by: str

    def view(self) -> View:
        """Return it as JSON."""
        created = {"created_by": self.created_by, "created_at": _time(self.created_at)}
        return {"number": self.number, "kind": self.kind.value, "value": self.value, **created}


def check_name(setting: str, name: object) -> str:
    """Return the name of a token or a user, if it can be one."""
    if isinstance(name, str) and name.isprintable() and name.strip() == name and 0 < len(name) <= _LONGEST_NAME:
        return name
    raise InvalidSetting(setting, name, f"must be 1 to {_LONGEST_NAME} letters that can be printed")


def _time(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
