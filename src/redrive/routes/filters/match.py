# SPDX-License-Identifier: MIT
"""The filter that lets through what an expression is true of. Pure: no I/O, no clock, no randomness."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from redrive.broker import Message, topics
from redrive.routes.parts import EventFilter, LegFacts, TextSetting, setting


@dataclass(frozen=True, slots=True)
class MatchFilter(EventFilter):
    """Passes the events that an expression is true of, and consumes the others.

    An expression that fails, because something is missing for instance, is a permanent error.
    """

    kind: ClassVar[str] = "match"

    expression: str = setting(
        TextSetting("must be an expression, such as 'body.total > 100'"),
        "an expression (CEL) over body, headers and the properties: body.total > 100 && headers.region == 'eu'",
    )

    def check(self) -> None:
        """See that the expression can be read."""
        topics.compiled(self.expression)

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Return the event if the expression is true of it."""
        return (message,) if topics.compiled(self.expression).matches(topics.values_of(message)) else ()
