# SPDX-License-Identifier: MIT
"""The filter that makes several events of one. Pure: no I/O, no clock, no randomness."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from redrive.broker import Message
from redrive.errors import ExpressionFailed
from redrive.routes.event_values import PathSetting, kind_word, numbered, value_at, with_json
from redrive.routes.parts import EventFilter, LegFacts, setting


@dataclass(frozen=True, slots=True)
class SplitFilter(EventFilter):
    """Makes an event of each element of a list: the element is its JSON body.

    Each has the headers and properties of the whole event, and an id of its own, such as ``o-1:0`` for the first. An
    empty list makes no events: the whole event is consumed. What is no list is a permanent error.
    """

    kind: ClassVar[str] = "split"

    path: str = setting(PathSetting(), "a JMESPath to the list: body.items; body, if that is the list", "body")

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Return an event for each element."""
        found = value_at(message, self.path)
        if not isinstance(found, list):
            raise ExpressionFailed(self.path, f"its result is {kind_word(found)}, and split needs a list")
        return numbered(message, (with_json(message, element) for element in found))
