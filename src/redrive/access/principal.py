# SPDX-License-Identifier: MIT
"""Who asks: a program with a token, a person with a session, or a person at this machine. Pure: no I/O."""

from dataclasses import dataclass
from enum import Enum

from redrive.access.roles import Role
from redrive.broker import source_queue


class PrincipalKind(Enum):
    """How it is known who asks."""

    LOCAL = "local"
    """They reach a server at this machine that asks for nothing."""

    TOKEN = "token"  # noqa: S105 - a word, not a secret
    SESSION = "session"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks.

    Attributes:
        name: the name in the audit trail: a user, or ``token:ci``.
        role: what they may do.
        queues: the queues they are limited to; ``orders.*`` is every queue whose name begins with ``orders.``. None: no
            limit. The dead letters of a queue belong to it.
        may_see_bodies: whether they may see what the rules of redaction hide.
        address: where they asked from.
        kind: how it is known who they are.
        key: which token or session it is; empty: neither.
    """

    name: str
    role: Role
    queues: tuple[str, ...] | None = None
    may_see_bodies: bool = False
    address: str = ""
    kind: PrincipalKind = PrincipalKind.LOCAL
    key: str = ""

    @property
    def actor(self) -> str:
        """Who they are in the audit trail: the name and the address."""
        return f"{self.name} ({self.address})" if self.address else self.name

    def has(self, queue: str) -> bool:
        """Say whether a queue is within their limit."""
        if self.queues is None:
            return True
        name = source_queue(queue)
        return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in self.queues)
