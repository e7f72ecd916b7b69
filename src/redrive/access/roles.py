# SPDX-License-Identifier: MIT
"""Who may do what: the roles, and the one table of actions. Pure: no I/O, no clock.

Whatever is asked of the server is an action of this table, and nothing can be asked that is not in it. ``check`` says
whether a principal may; the server's desk is the only one that asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from redrive.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from redrive.access.principal import Principal


class Role(Enum):
    """What a principal may do; each role may do all that the one before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """Say whether this role may do what another one may."""
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER: Final = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


class Reach(Enum):
    """What an action is about, which decides whether a principal that is limited to some queues may do it."""

    QUEUES = "queues"
    """About queues or their messages: a principal that is limited may do it to its queues."""

    WHOLE = "whole"
    """About more than queues: a principal that is limited may not do it."""

    NOTHING = "nothing"
    """About no messages: a limit does not matter."""


class Trail(Enum):
    """Who writes an action to the audit trail."""

    NONE = "none"
    """It changes nothing; only a refusal is written."""

    DESK = "desk"
    """The desk: when it begins, and what came of it."""

    FACADE = "facade"
    """What is called writes it in the transaction of the change, and writes what it refuses, too."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be asked of the server.

    Attributes:
        name: its name: ``queues.delete``.
        role: the least role that may.
        reach: what it is about.
        trail: who writes it to the audit trail.
    """

    name: str
    role: Role
    reach: Reach = Reach.QUEUES
    trail: Trail = Trail.NONE

    @property
    def is_change(self) -> bool:
        """Whether it changes something."""
        return self.trail is not Trail.NONE


_ALL: Final = (
    # --- what every role may
    Action("own.read", Role.VIEWER, Reach.NOTHING),
    Action("own.change", Role.VIEWER, Reach.NOTHING, Trail.DESK),
    Action("own.sign-in", Role.VIEWER, Reach.NOTHING),
    Action("bodies.read", Role.VIEWER, Reach.NOTHING),
    Action("events.read", Role.VIEWER, Reach.NOTHING),
    Action("metrics.read", Role.VIEWER, Reach.WHOLE),
    # --- looking
    Action("attention.read", Role.VIEWER, Reach.WHOLE),
    Action("audit.read", Role.VIEWER, Reach.WHOLE),
    Action("failures.read", Role.VIEWER),
    Action("groups.read", Role.VIEWER),
    Action("journeys.read", Role.VIEWER, Reach.WHOLE),
    Action("messages.read", Role.VIEWER),
    Action("notes.read", Role.VIEWER),
    Action("operations.read", Role.VIEWER),
    Action("pipelines.read", Role.VIEWER, Reach.WHOLE),
    Action("queues.read", Role.VIEWER),
    Action("redirects.read", Role.VIEWER),
    Action("routes.read", Role.VIEWER, Reach.WHOLE),
    Action("search.read", Role.VIEWER),
    Action("series.read", Role.VIEWER),
    Action("topics.read", Role.VIEWER),
    Action("views.read", Role.VIEWER, Reach.NOTHING),
    Action("workers.read", Role.VIEWER),
    # --- putting things right
    Action("asides.read", Role.OPERATOR, Reach.WHOLE),
    Action("asides.reimport", Role.OPERATOR, Reach.WHOLE, Trail.FACADE),
    Action("failures.dry-run", Role.OPERATOR),
    Action("failures.edit", Role.OPERATOR, trail=Trail.FACADE),
    Action("failures.export", Role.OPERATOR),
    Action("failures.ingest", Role.OPERATOR, Reach.WHOLE, Trail.DESK),
    Action("failures.preview", Role.OPERATOR),
    Action("groups.change", Role.OPERATOR, trail=Trail.FACADE),
    Action("messages.cancel", Role.OPERATOR, trail=Trail.DESK),
    Action("messages.receive", Role.OPERATOR, trail=Trail.DESK),
    Action("messages.resubmit", Role.OPERATOR, trail=Trail.DESK),
    Action("messages.send", Role.OPERATOR, trail=Trail.DESK),
    Action("notes.delete", Role.OPERATOR, trail=Trail.FACADE),
    Action("notes.write", Role.OPERATOR, trail=Trail.FACADE),
    Action("operations.change", Role.OPERATOR, trail=Trail.FACADE),
    Action("operations.request", Role.OPERATOR, trail=Trail.FACADE),
    Action("pipelines.change", Role.OPERATOR, Reach.WHOLE, Trail.DESK),
    Action("redirects.change", Role.OPERATOR, trail=Trail.FACADE),
    Action("routes.change", Role.OPERATOR, Reach.WHOLE, Trail.DESK),
    Action("routes.tap", Role.OPERATOR, Reach.WHOLE),
    Action("routes.test", Role.OPERATOR, Reach.WHOLE, Trail.DESK),
    Action("views.change", Role.OPERATOR, Reach.NOTHING, Trail.DESK),
    # --- deciding what there is, and who may
    Action("failures.sweep", Role.ADMIN, Reach.WHOLE, Trail.FACADE),
    Action("messages.purge", Role.ADMIN, trail=Trail.DESK),
    Action("pipelines.write", Role.ADMIN, Reach.WHOLE, Trail.DESK),
    Action("queues.declare", Role.ADMIN, trail=Trail.DESK),
    Action("queues.delete", Role.ADMIN, trail=Trail.DESK),
    Action("queues.update", Role.ADMIN, trail=Trail.DESK),
    Action("redactions.read", Role.ADMIN, Reach.WHOLE),
    Action("redactions.write", Role.ADMIN, Reach.WHOLE, Trail.DESK),
    Action("routes.write", Role.ADMIN, Reach.WHOLE, Trail.DESK),
    Action("tokens.read", Role.ADMIN, Reach.WHOLE),
    Action("tokens.write", Role.ADMIN, Reach.WHOLE, Trail.DESK),
    Action("topics.write", Role.ADMIN, Reach.WHOLE, Trail.DESK),
    Action("users.read", Role.ADMIN, Reach.WHOLE),
    Action("users.write", Role.ADMIN, Reach.WHOLE, Trail.DESK),
    Action("webhooks.read", Role.ADMIN, Reach.WHOLE),
    Action("webhooks.write", Role.ADMIN, Reach.WHOLE, Trail.DESK),
)

ACTIONS: "Final[Mapping[str, Action]]" = MappingProxyType({each.name: each for each in _ALL})
"""Everything that can be asked of the server, by its name."""


def check_grant(principal: "Principal", action: Action, *, may_see_bodies: bool) -> None:
    """Refuse to let a principal give what they do not have: the right to see what redaction hides.

    Raises:
        Forbidden: they do not have it.
    """
    if may_see_bodies and not principal.may_see_bodies:
        problem = f"{principal.name} may not see what is hidden in messages, and cannot let others see it"
        raise Forbidden(action.name, problem, "ask an admin who may")


def check(principal: "Principal", action: Action, queues: Sequence[str] | None, *, narrowed: bool = False) -> None:
    """Refuse what a principal may not do.

    Args:
        principal: who asks.
        action: what for.
        queues: the queues that it is about; None: it is not about certain ones.
        narrowed: whether the answer is about the principal's own queues only, whichever there are.

    Raises:
        Forbidden: they may not; it says what is missing.
    """
    if not principal.role.includes(action.role):
        problem = f"{principal.name} is {principal.role.value}, and this needs {action.role.value}"
        raise Forbidden(
            action.name, problem, f"ask an admin for a token or an account with the role {action.role.value}"
        )
    if principal.queues is None or action.reach is Reach.NOTHING:
        return
    if action.reach is Reach.WHOLE or (queues is None and not narrowed):
        problem = f"{principal.name} is limited to some queues, and this is about more than queues"
        raise Forbidden(action.name, problem, "use a token without a limit")
    if beyond := [queue for queue in queues or () if not principal.has(queue)]:
        problem = f"{principal.name} is limited to {', '.join(principal.queues)}, and this is about {beyond[0]}"
        raise Forbidden(action.name, problem, "use a token for that queue")
