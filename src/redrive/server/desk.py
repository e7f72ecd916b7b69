# SPDX-License-Identifier: MIT
"""The desk: where everything that is asked of the server arrives, from the API and from the console alike.

The API and the console ask the desk, never a facade. It sees whether the principal may, does it, and writes to the
audit trail what was changed and what was refused. So there is one place in which a role is checked.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from redrive.access import ACTIONS, Access, Action, Principal, Redaction, RedactionRules, Role, SavedViews, Trail, check
from redrive.attention import Attention
from redrive.broker import Broker
from redrive.errors import Forbidden
from redrive.history import History
from redrive.journey import Journeys
from redrive.notifications import Notifications
from redrive.pipeline import Pipelines
from redrive.printable import one_line
from redrive.recovery import Filter, Reader, Recovery, audited
from redrive.routes import Routes
from redrive.wiring import (
    open_access,
    open_history,
    open_journeys,
    open_notifications,
    open_pipelines,
    open_routes,
    open_slow_reader,
)

T = TypeVar("T")

_LONGEST: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The open facades of this process, and who may ask what of them. Made by ``open_desk``.

    Attributes:
        broker: queues, topics and messages.
        recovery: failures and operations; also the audit trail.
        routes: the stored routes.
        pipelines: all pipelines.
        history: what happened, minute by minute.
        journeys: finds out what happened to a message.
        slow: answers slow questions about failures, beside everything else and for a limited time.
        attention: says what needs a person; it looks at the other facades.
        access: tokens, users and sessions.
        saved_views: filters that people keep under a name.
        notifications: webhooks, which are called when something needs a person.
        question_limit: how many seconds a slow question may take.
        redaction: hides what is not to be shown of messages, by the rules of the server's file.
    """

    broker: Broker
    recovery: Recovery
    routes: Routes
    pipelines: Pipelines
    history: History
    journeys: Journeys
    slow: Reader
    attention: Attention
    access: Access
    saved_views: SavedViews
    notifications: Notifications
    question_limit: float = 5.0
    redaction: Redaction = field(default_factory=lambda: Redaction(RedactionRules()))

    def reader(self, chosen: Filter) -> Reader:
        """Return what answers a question about failures: what takes long is not asked where pages are read."""
        return self.slow if chosen.is_slow else self.recovery

    async def look(
        self,
        principal: Principal,
        action: str,
        call: Callable[[], Awaitable[T]],
        *,
        queues: Sequence[str] | None = None,
        narrowed: bool = False,
    ) -> T:
        """Answer a question that changes nothing.

        Args:
            principal: who asks.
            action: what for: a name in ``redrive.access.ACTIONS``.
            call: finds the answer.
            queues: the queues that it is about; None: it is not about certain ones.
            narrowed: whether ``call`` answers with what the principal may see, whichever queues there are.

        Raises:
            Forbidden: they may not.
        """
        await self._check(principal, ACTIONS[action], ", ".join(queues or ()), "", queues, narrowed=narrowed)
        return await call()

    async def change(
        self,
        principal: Principal,
        action: str,
        subject: str,
        call: Callable[[], Awaitable[T]],
        *,
        reason: str = "",
        queues: Sequence[str] | None = None,
        narrowed: bool = False,
    ) -> T:
        """Change something, and write it to the audit trail.

        ``audited`` writes an entry before the change, and one after it. Where the facade writes its own entry, in one
        transaction with the change, that one is enough: ``Trail`` says which.

        Args:
            principal: who asks.
            action: what for.
            subject: what it is about: ``queue:orders``.
            call: does it.
            reason: why, in the words of the principal.
            queues: as for ``look``.
            narrowed: as for ``look``.

        Raises:
            Forbidden: they may not.
        """
        wanted = ACTIONS[action]
        await self._check(principal, wanted, subject, reason, queues, narrowed=narrowed)
        if wanted.trail is not Trail.DESK:
            return await call()
        about, why = one_line(subject, _LONGEST), one_line(reason, _LONGEST)
        actor = one_line(principal.actor, _LONGEST)
        return await audited(self.recovery, wanted.name, about, call, actor=actor, reason=why)

    async def hides(self) -> Redaction:
        """Return what hides, by the rules of the server's file and by those that are stored."""
        return await self.access.redactions.current(self.redaction)

    async def uncover(self, principal: Principal, subject: str) -> None:
        """Note that a principal sees what is hidden from others.

        Raises:
            Forbidden: they may not.
        """
        action = ACTIONS["bodies.read"]
        if not principal.may_see_bodies:
            problem = f"{principal.name} may not see what is hidden in messages"
            await self._write(principal, action, subject, "", f"forbidden: {problem}")
            raise Forbidden(action.name, problem, "ask an admin for a token that may")
        await self._write(principal, action, subject, "", "done")

    async def note_sign_in(self, name: str, address: str, outcome: str) -> None:
        """Write to the audit trail who signed in, or tried to."""
        principal = Principal(name=name, role=Role.VIEWER, address=address)
        await self._write(principal, ACTIONS["own.sign-in"], f"user:{name}", "", outcome)

    async def _check(
        self,
        principal: Principal,
        action: Action,
        subject: str,
        reason: str,
        queues: Sequence[str] | None,
        *,
        narrowed: bool,
    ) -> None:
        try:
            check(principal, action, queues, narrowed=narrowed)
        except Forbidden as error:
            await self._write(principal, action, subject, reason, f"forbidden: {error.problem}")
            raise

    async def _write(self, principal: Principal, action: Action, subject: str, reason: str, outcome: str) -> None:
        await self.recovery.audit(
            action.name,
            one_line(subject, _LONGEST),
            actor=one_line(principal.actor, _LONGEST),
            reason=one_line(reason, _LONGEST),
            outcome=one_line(outcome, _LONGEST),
        )


@asynccontextmanager
async def open_desk(
    broker: Broker,
    recovery: Recovery,
    redaction: Redaction | None = None,
    networks: Sequence[str] = (),
    *,
    question_limit: float = 5.0,
) -> AsyncGenerator[Desk]:
    """Open the facades of a broker for as long as a server runs.

    Args:
        broker: the queues; it must be open, and stays so.
        recovery: the failures; it is opened.
        redaction: hides what is not to be shown of messages; None: nothing is.
        networks: private networks that webhooks may be in.
        question_limit: how many seconds a slow question may take.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(recovery)
        routes = await stack.enter_async_context(open_routes(broker))
        pipelines = await stack.enter_async_context(open_pipelines(broker))
        history = await stack.enter_async_context(open_history(broker))
        access = open_access(broker)
        attention = Attention(history, recovery, routes, pipelines)  # which are open
        yield Desk(
            broker=broker,
            recovery=recovery,
            routes=routes,
            pipelines=pipelines,
            history=history,
            journeys=await stack.enter_async_context(open_journeys(broker)),
            slow=open_slow_reader(broker, limit=question_limit, transforms=recovery.transforms),
            attention=attention,
            access=access,
            saved_views=SavedViews(access.store),
            notifications=open_notifications(broker, attention, networks),
            question_limit=question_limit,
            redaction=redaction or Redaction(RedactionRules()),
        )
