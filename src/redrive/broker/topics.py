# SPDX-License-Identifier: MIT
"""Topics: a message that is sent to one goes to every subscription whose rule matches. Pure: no I/O, no clock.

A subscription is a queue, with the name of its topic before its own: ``orders/billing``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final, TypeAlias

from redrive.broker.message import HeaderValue, Message
from redrive.broker.rules import check_queue_name
from redrive.broker.settings import TopicSettings
from redrive.errors import InvalidSetting
from redrive.expression import Expression, MessageValues

PROPERTIES: Final = ("id", "subject", "content_type", "correlation_id", "reply_to", "to", "session_id")
"""The properties of a message that a rule can name; every other name is that of a header."""

_OF_HEADERS = "headers."


@dataclass(frozen=True, slots=True)
class Rule:
    """Which messages a subscription gets. A rule without conditions matches every message.

    Attributes:
        equals: the values that properties and headers must have, by their names. A header that has the name of a
            property is written ``headers.subject``.
        expression: an expression over ``body``, ``headers`` and the properties that must be true.
    """

    equals: Mapping[str, HeaderValue] = field(default_factory=dict[str, HeaderValue])
    expression: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.equals, Mapping):
            raise InvalidSetting("rule", self.equals, "must be names of properties or headers, and their values")
        for name, value in self.equals.items():
            if not isinstance(name, str) or not isinstance(value, str | int | float | bool | None):
                raise InvalidSetting("rule", {name: value}, "must be a name, and a text, a number, a boolean or None")
        if self.expression is not None:
            compiled(self.expression)

    @classmethod
    def of(cls, given: "RuleLike") -> "Rule":
        """Return a rule as a caller may give it: None for everything, a mapping, or the text of an expression."""
        if isinstance(given, Rule):
            return given
        if given is None:
            return cls()
        if isinstance(given, str):
            return cls(expression=given)
        return cls(equals=dict(given) if isinstance(given, Mapping) else given)

    @property
    def matches_everything(self) -> bool:
        """Whether it has no condition."""
        return not self.equals and self.expression is None

    def matches(self, message: Message, values: Callable[[], MessageValues]) -> bool:
        """Say whether a message satisfies it.

        Args:
            message: the message.
            values: returns the message as expressions see it; it is made once for all rules of a topic.

        Raises:
            ExpressionFailed: it cannot be said of this message.
        """
        for name, value in self.equals.items():
            found = _value(message, name)
            if found != value or isinstance(found, bool) != isinstance(value, bool):
                return False
        return self.expression is None or compiled(self.expression).matches(values())

    def to_json(self) -> str:
        """Return it as a text, as engines store it."""
        return json.dumps({"equals": dict(self.equals), "expression": self.expression})

    @classmethod
    def from_json(cls, text: str) -> "Rule":
        """Return a rule that was stored."""
        return _read_rule(text)

    def __str__(self) -> str:
        equal = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in self.equals.items()]
        return " and ".join([*equal, *([] if self.expression is None else [self.expression])]) or "everything"


RuleLike: TypeAlias = "Rule | Mapping[str, HeaderValue] | str | None"
"""What a caller may give as a rule."""


@lru_cache(maxsize=1_000)
def compiled(text: str) -> Expression:
    """Return an expression; it is compiled once."""
    return Expression(text)


@lru_cache(maxsize=1_000)
def _read_rule(text: str) -> Rule:
    return Rule(**json.loads(text))


def _value(message: Message, name: str) -> HeaderValue:
    if name in PROPERTIES:
        found: HeaderValue = getattr(message, name)
        return found
    return message.headers.get(name.removeprefix(_OF_HEADERS))


def values_of(message: Message) -> MessageValues:
    """Return a message as expressions see it."""
    return MessageValues(message.body, {name: getattr(message, name) for name in PROPERTIES}, message.headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionInfo:
    """A subscription.

    Attributes:
        name: its own name.
        queue: the name of its queue.
        rule: which messages it gets.
    """

    name: str
    queue: str
    rule: Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic and its subscriptions.

    Attributes:
        name: its name.
        settings: how it behaves.
        subscriptions: who gets what is sent to it, in order of their names.
        unmatched: how many messages no subscription got.
        created_at: when it was declared.
    """

    name: str
    settings: TopicSettings
    subscriptions: tuple[SubscriptionInfo, ...]
    unmatched: int
    created_at: datetime


def subscription_queue(topic: str, name: str) -> str:
    """Return the name of a subscription's queue."""
    return f"{topic}/{name}"


def check_subscription(topic: str, name: str) -> str:
    """Return the name of a subscription's queue, if a subscription may have that name."""
    if not isinstance(name, str) or not name or "/" in name:
        raise InvalidSetting("subscription", name, "must be a name without '/': its queue is called topic/subscription")
    return check_queue_name(subscription_queue(check_queue_name(topic), name))


def name_is_taken(queue: str) -> InvalidSetting:
    """Return the error for a subscription whose queue would have the name of a queue that is none."""
    allowed = f"must be another name: there is a queue {queue!r} that is no subscription; or delete that queue first"
    return InvalidSetting("subscription", queue.rpartition("/")[2], allowed)
