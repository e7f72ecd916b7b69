# SPDX-License-Identifier: MIT
"""Decides which queues get a message that is sent to a topic. Pure: no I/O, no clock."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Generic, NamedTuple, TypeVar

from redrive.broker import rules
from redrive.broker.port import Message, Rule, TopicSettings
from redrive.broker.topics import values_of
from redrive.errors import ExpressionFailed, RedriveError

Q = TypeVar("Q")
"""A queue, as an engine knows it."""


@dataclass(slots=True)
class Topic(Generic[Q]):
    """A topic as an engine needs it.

    Attributes:
        settings: how it behaves.
        subscriptions: the queues of its subscriptions and their rules, by the numbers of the queues.
    """

    settings: TopicSettings
    subscriptions: dict[int, tuple[Rule, Q]] = field(default_factory=dict[int, tuple[Rule, Q]])


class Recipient(NamedTuple, Generic[Q]):
    """A queue that gets a message.

    Attributes:
        queue: the queue.
        reason: why it becomes a dead letter of that queue at once; None: it is an ordinary message.
        description: the same for people.
    """

    queue: Q
    reason: str | None = None
    description: str = ""


def recipients_of(
    subscriptions: Iterable[tuple[Rule, Q]], message: Message, check: Callable[[Q], None]
) -> list[Recipient[Q]]:
    """Return the queues that get a message. One that cannot take it, or say whether it wants it, gets a dead letter.

    So a subscription never decides what happens to the others, or whether a message can be sent at all.

    Args:
        subscriptions: the rules and the queues.
        message: the message.
        check: raises if a queue does not take it.
    """
    values = cache(lambda: values_of(message))
    found: list[Recipient[Q]] = []
    for rule, queue in subscriptions:
        try:
            if not rule.matches_everything and not rule.matches(message, values):
                continue
        except ExpressionFailed as error:
            found.append(Recipient(queue, rules.RULE_FAILED, str(error)))
            continue
        try:
            check(queue)
        except RedriveError as error:
            found.append(Recipient(queue, rules.REFUSED, str(error)))
        else:
            found.append(Recipient(queue))
    return found
