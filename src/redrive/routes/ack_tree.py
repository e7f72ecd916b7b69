# SPDX-License-Identifier: MIT
"""The ack tree: one event, many legs, one answer to the source. Pure: no I/O, no clock.

This is ``linked`` delivery: the source keeps the event until its legs are settled. Each route gets a leg. A filter may
split a leg, and then the children settle instead of it. With ``wait_all`` the source gets its answer when every leg is
settled: an ack if all of them were acknowledged, otherwise a nack with all reasons. With ``fail_fast`` the first leg
that is not acknowledged answers, and the other legs are cancelled.

Every call returns ``Instructions``: what the caller must do now. What a call does depends on the state of its leg:

============== ================================= ==========================================
the leg is     ack, nack, cancel                 split
============== ================================= ==========================================
unsettled      settle it                         children settle instead; none: it is acked
acked, nacked  ignored: repeated                 UsageError: split first, settle last
cancelled      ignored: late; cancel: repeated   ignored: late
split          UsageError: settle the children   UsageError: split the children
============== ================================= ==========================================

So the first report of a leg counts, and the source gets one answer. A cancelled leg may report late without being
wrong, because its code may have been running. To settle or split a leg that was split is always a mistake in the code.
"""

# A leg is read-only for its users, and its tree changes it: the rule knows classes and not that both are in this file.
# pyright: reportPrivateUsage=false

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from redrive import number
from redrive.errors import InvalidSetting, UsageError

OnNack: TypeAlias = Literal["wait_all", "fail_fast"]
"""``wait_all``: answer when every leg is settled; ``fail_fast``: answer the first nack at once, cancel the others."""

Ignored: TypeAlias = Literal["late", "repeated"]
"""``late``: the leg was cancelled before; ``repeated``: it was settled before."""


class LegState(Enum):
    """Where a leg stands. A leg leaves ``UNSETTLED`` once and never changes again."""

    UNSETTLED = "unsettled"
    ACKED = "acked"
    """It was delivered, or consumed by a filter."""
    NACKED = "nacked"
    CANCELLED = "cancelled"
    SPLIT = "split"
    """Its children settle instead of it."""


class Leg:
    """One way that the event takes: the leg of a route, or a child that a filter split off. Made by a tree.

    Route and path name the same leg in the tree of every replay. Two legs are equal if they are the same object.
    """

    __slots__ = ("_group", "_index", "_route", "_state")

    def __init__(self, route: str, group: "_Group", index: int) -> None:
        self._route = route
        self._group = group
        self._index = index
        self._state = LegState.UNSETTLED

    @property
    def route(self) -> str:
        """The name of its route."""
        return self._route

    @property
    def state(self) -> LegState:
        """Where it stands. Code that is about to send can see here that its leg was cancelled."""
        return self._state

    @property
    def path(self) -> tuple[int, ...]:
        """Which child it is, counted from 0, at each split from its route downwards; empty for the route's own leg."""
        indexes: list[int] = []
        leg = self
        while (parent := leg._group.parent) is not None:  # a loop: a recursion would end at 1,000 levels
            indexes.append(leg._index)
            leg = parent
        return tuple(reversed(indexes))

    def __str__(self) -> str:
        return ":".join((self._route, *map(str, self.path)))

    def __repr__(self) -> str:
        return f"<Leg {self}, {self._state.value}>"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a leg was not acknowledged.

    Attributes:
        leg: the leg, nacked or cancelled.
        text: why.
    """

    leg: Leg
    text: str


@dataclass(frozen=True, slots=True)
class Ack:
    """The source may forget the event: every leg was acknowledged."""


@dataclass(frozen=True, slots=True)
class Nack:
    """The source keeps the event, and its receiver decides on a replay.

    Attributes:
        reasons: why, for each leg that was nacked or cancelled by the caller, in the order of the calls.
    """

    reasons: tuple[Reason, ...]


Answer: TypeAlias = Ack | Nack


@dataclass(frozen=True, slots=True)
class Instructions:
    """What the caller must do now. Empty: nothing.

    Attributes:
        run: new legs. Filter and send their part of the event.
        cancel: legs that this call has cancelled. Stop the code that runs for them.
        answer: the answer for the source. A tree returns it once.
        ignored: why the call changed nothing, if it was ignored.
    """

    run: tuple[Leg, ...] = ()
    cancel: tuple[Leg, ...] = ()
    answer: Answer | None = None
    ignored: Ignored | None = None


_NOTHING: Final = Instructions()


class AckTree:
    """The legs of one event, and the answer to its source.

    Give ``legs`` to their routes, report what becomes of each leg, and follow the instructions that each call returns::

        tree = AckTree(["billing", "audit"])
        tree.ack(tree.legs["billing"])  # Instructions(): nothing to do yet
        first, second = tree.split(tree.legs["audit"], 2).run
        tree.nack(first, "connection refused")  # still nothing: wait_all
        tree.ack(second).answer  # Nack(reasons=(Reason(leg=<Leg audit:0, nacked>, text='connection refused'),))
        tree.delivered()  # (<Leg audit:1, acked>, <Leg billing, acked>): a replay sends audit:0 only

    A tree has no locks: use it from one thread at a time. It remembers unsettled legs, reasons and what was delivered,
    and of a leg whose children were all acknowledged only the leg itself. How long a call takes depends on the legs
    that it makes, ends or cancels, not on the size of the tree.

    Args:
        routes: the names of the routes that get the event; at least one, all different.
        on_nack: when the source gets a nack: ``"wait_all"`` or ``"fail_fast"``.

    Attributes:
        answer: the answer that the source got; None: not yet.
        late: how many reports came from legs that were cancelled before.
        repeated: how many reports came from legs that were settled before.

    Raises:
        InvalidSetting: an argument has a value that is not allowed, such as a leg of another tree.
        UsageError: a leg that was split or settled is split, a leg that was split is settled, or a leg is added after
            the answer. Neither error changes anything.
    """

    def __init__(self, routes: Iterable[str], *, on_nack: OnNack = "wait_all") -> None:
        if on_nack not in ("wait_all", "fail_fast"):
            raise InvalidSetting("on_nack", on_nack, "must be 'wait_all' or 'fail_fast'")
        self.answer: Answer | None = None
        self.late = 0
        self.repeated = 0
        self._fails_fast = on_nack == "fail_fast"
        self._identity = object()  # what legs know of their tree
        self._top = _Group(self._identity, None)
        self._unsettled: dict[Leg, None] = {}
        self._legs: dict[str, Leg] = {}
        self._reasons: list[Reason] = []
        # Not in the groups themselves: legs refer to their group, and a cycle would keep every tree from being freed.
        self._acknowledged: dict[_Group, list[Leg]] = {self._top: []}  # in each group with an unsettled leg
        self._delivered: list[Leg] = []  # in the others, unless that is all of the group
        for route in () if isinstance(routes, str) else routes:  # a text is no list, although it has letters
            self.add(route)
        if not self._legs:  # no call would ever return the answer
            raise InvalidSetting("routes", routes, "must be a list of names, at least one")

    @property
    def legs(self) -> Mapping[str, Leg]:
        """The leg of each route, by the route's name."""
        return MappingProxyType(self._legs)

    def unsettled(self) -> tuple[Leg, ...]:
        """Return the legs that the answer waits for, the oldest first. Legs that were split are not among them."""
        return tuple(self._unsettled)

    def delivered(self) -> tuple[Leg, ...]:
        """Return the legs that a replay of the event must leave out, because they were acknowledged.

        A leg that was split is one of them when all its children were acknowledged; its children are not listed then.
        The order means nothing. For a replay, take the legs by route and path, as long as the route has not changed:
        another filter may split an event into other children.
        """
        return (*self._delivered, *(leg for legs in self._acknowledged.values() for leg in legs))

    def add(self, route: str) -> Instructions:
        """Add a leg for another route. This is an error when the source has its answer: the leg would be lost."""
        if not isinstance(route, str) or not route:
            raise InvalidSetting("route", route, "must be the name of a route")
        if route in self._legs:
            raise InvalidSetting("route", route, "must be a route that has no leg in this tree")
        if self.answer is not None:
            raise UsageError(f"the source has its answer; add route {route!r} before the last leg is settled")
        self._legs[route] = leg = Leg(route, self._top, len(self._legs))
        return self._begin(self._top, (leg,))

    def ack(self, leg: Leg) -> Instructions:
        """Acknowledge a leg: it was delivered, or consumed by a filter."""
        return self._settle(leg, LegState.ACKED)

    def nack(self, leg: Leg, reason: str) -> Instructions:
        """Report that a leg was not delivered and that a replay may help; ``reason`` says why, for people."""
        return self._settle(leg, LegState.NACKED, _check_reason(reason))

    def cancel(self, leg: Leg, reason: str) -> Instructions:
        """Give up on a leg whose code may still run: its time is over, or its route was removed.

        A cancelled leg was not acknowledged, so the answer is a nack. Ack the leg instead if its event need not be
        delivered any more. What the leg reports afterwards is ignored and counted as late.
        """
        return self._settle(leg, LegState.CANCELLED, _check_reason(reason))

    def split(self, leg: Leg, parts: int) -> Instructions:
        """Let so many children settle instead of a leg, and return them in ``run``.

        Without children there is nothing to deliver: then the leg is acknowledged.
        """
        number.whole("parts", parts, 0)
        if not self._is_unsettled(leg):
            if leg._state is LegState.CANCELLED:
                return self._ignore("late")
            raise UsageError(f"leg {leg} was {leg._state.value} before; split a leg once, and settle it last")
        if parts == 0:
            return self.ack(leg)
        leg._state = LegState.SPLIT
        del self._unsettled[leg]
        group = _Group(self._identity, leg)
        self._acknowledged[group] = []
        return self._begin(group, tuple(Leg(leg._route, group, index) for index in range(parts)))

    def _begin(self, group: "_Group", legs: tuple[Leg, ...]) -> Instructions:
        group.size += len(legs)
        group.unsettled += len(legs)
        self._unsettled.update(dict.fromkeys(legs))
        return Instructions(run=legs)

    def _is_unsettled(self, leg: Leg) -> bool:
        if not isinstance(leg, Leg) or leg._group.tree is not self._identity:
            raise InvalidSetting("leg", leg, "must be a leg of this tree")
        return leg._state is LegState.UNSETTLED

    def _settle(self, leg: Leg, state: LegState, reason: str = "") -> Instructions:
        if not self._is_unsettled(leg):
            return self._ignore_report(leg, state)
        leg._state = state
        del self._unsettled[leg]
        self._close(leg)
        if state is not LegState.ACKED:
            self._reasons.append(Reason(leg, reason))
        given_up: tuple[Leg, ...] = (leg,) if state is LegState.CANCELLED else ()
        if self._reasons and self._fails_fast:
            given_up += self._cancel_the_rest()
        if not self._unsettled:
            self.answer = Nack(tuple(self._reasons)) if self._reasons else Ack()
        return Instructions(cancel=given_up, answer=self.answer) if given_up or self.answer else _NOTHING

    def _close(self, leg: Leg) -> None:
        """Count a settled leg in its group, and every leg above it whose last child it was."""
        is_acknowledged = leg._state is LegState.ACKED
        while True:
            group = leg._group
            group.unsettled -= 1
            if is_acknowledged:
                self._acknowledged[group].append(leg)
            if group.unsettled or group.parent is None:
                return
            acknowledged = self._acknowledged.pop(group)
            is_acknowledged = len(acknowledged) == group.size
            if not is_acknowledged:
                self._delivered += acknowledged
            leg = group.parent

    def _cancel_the_rest(self) -> tuple[Leg, ...]:
        cancelled = tuple(self._unsettled)
        for leg in cancelled:
            leg._state = LegState.CANCELLED
        self._unsettled.clear()
        return cancelled

    def _ignore_report(self, leg: Leg, report: LegState) -> Instructions:
        if leg._state is LegState.SPLIT:
            raise UsageError(f"leg {leg} was split; settle its children")
        is_late = leg._state is LegState.CANCELLED and report is not LegState.CANCELLED
        return self._ignore("late" if is_late else "repeated")

    def _ignore(self, why: Ignored) -> Instructions:
        if why == "late":
            self.late += 1
        else:
            self.repeated += 1
        return Instructions(ignored=why)


class _Group:
    """The children of one leg, or the legs of all routes.

    Attributes:
        tree: the identity of the tree.
        parent: the leg that was split; None: these are the legs of the routes.
        size: how many legs it has.
        unsettled: how many of them are unsettled, or were split and have an unsettled child.
    """

    __slots__ = ("parent", "size", "tree", "unsettled")

    def __init__(self, tree: object, parent: Leg | None) -> None:
        self.tree = tree
        self.parent = parent
        self.size = 0
        self.unsettled = 0


def _check_reason(reason: str) -> str:
    if not isinstance(reason, str) or not reason:
        raise InvalidSetting("reason", reason, "must be a text that says why")
    return reason
