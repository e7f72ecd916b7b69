# SPDX-License-Identifier: MIT
"""The filter that lets a share of the events through. Pure: no I/O, no clock, no randomness."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar

from redrive.broker import Message
from redrive.errors import InvalidSetting
from redrive.routes.parts import EventFilter, LegFacts, setting


@dataclass(frozen=True, slots=True)
class ShareSetting:
    """A share of a whole, from 0 to 1."""

    def checked(self, name: str, value: object) -> float:
        """Return it."""
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value)
        raise InvalidSetting(name, value, "must be a number from 0 to 1, such as 0.05 for one event in twenty")


@dataclass(frozen=True, slots=True)
class SampleFilter(EventFilter):
    """Passes a share of the events, and consumes the others.

    A hash of the event's id decides, so a replay decides the same, all parts of an event share its fate, and so do the
    same event's legs in all routes: a smaller rate passes some of what a larger one passes, and nothing else.
    """

    kind: ClassVar[str] = "sample"

    rate: float = setting(ShareSetting(), "the share of the events that pass, from 0 to 1")

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Return the event if it belongs to the sample."""
        digest = blake2b(leg.event_id.encode(errors="surrogatepass"), digest_size=8).digest()
        return (message,) if int.from_bytes(digest, "big") < self.rate * 2**64 else ()
