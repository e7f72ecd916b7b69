# SPDX-License-Identifier: MIT
"""The filter that builds a new body. Pure: no I/O, no clock, no randomness."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from redrive.broker import Message
from redrive.errors import InvalidSetting
from redrive.routes.event_values import EventValues, PathSetting, with_json
from redrive.routes.parts import EventFilter, LegFacts, TableSetting, setting


@dataclass(frozen=True, slots=True)
class TransformFilter(EventFilter):
    """Gives an event a new JSON body; id, headers and the other properties stay.

    What is missing in the event is null in the new body. Decimals are read as floating-point numbers, so digits after
    the 17th are lost; whole numbers keep all their digits.
    """

    kind: ClassVar[str] = "transform"

    to: str | None = setting(
        PathSetting(), "a JMESPath that gives the new body: {order: body.id, region: headers.region}", None
    )
    fields: tuple[tuple[str, str], ...] = setting(
        TableSetting(PathSetting()), "instead of it, a JMESPath for each name of the object that is the new body", ()
    )

    def check(self) -> None:
        """See that one of the two is given."""
        if (self.to is None) == (not self.fields):
            raise InvalidSetting("to", self.to, "must be given, or else fields, and not both")

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Return the event with its new body."""
        values = EventValues(message)
        made = {name: values.at(path) for name, path in self.fields} if self.to is None else values.at(self.to)
        return (with_json(message, made),)
