# SPDX-License-Identifier: MIT
"""A step of an event on its way through a route, for people. Pure: no I/O, no clock."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from redrive.broker import Message


@dataclass(frozen=True, slots=True)
class LegStep:
    """What a filter or the sender did, for a person who follows the route.

    Attributes:
        step: which one.
        outcome: what it did: ``passed``, ``consumed``, ``delivered``, or why it failed.
        messages: what went on from there.
    """

    step: str
    outcome: str
    messages: tuple[Message, ...] = ()


Follower: TypeAlias = Callable[[str, list[LegStep]], Awaitable[None]]
"""Sends the steps of an event, given by its id, to people who follow its route."""

Follow: TypeAlias = Callable[[str, str], Follower | None]
"""Returns the follower of a route, given by application and name; None: no person follows it now."""
