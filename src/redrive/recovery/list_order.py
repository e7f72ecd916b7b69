# SPDX-License-Identifier: MIT
"""In which order failed messages are listed, and where the next page of a list begins. Pure: no I/O, no clock.

A place names the last message of a page by what the order compares, so that it stays where it is when that message
fails again. Messages that fail while a list by last failure is read come to its beginning: they are missed on the pages
after it, and never there twice.
"""

import re
from datetime import datetime
from enum import Enum
from typing import Final, NamedTuple

from redrive.errors import InvalidSetting

_PLACE = re.compile(r"(?:(?P<failed_at>[0-9T:.+Z-]{10,40})/)?(?P<number>[0-9]{1,18})")


class Order(Enum):
    """The order of a list of failed messages; the value is its word."""

    OLDEST = "oldest"
    """As they were first seen."""

    NEWEST = "newest"
    """The other way round."""

    LAST_FAILED = "last-failed"
    """The one whose last failure is the newest comes first."""

    @classmethod
    def of(cls, order: "Order | str") -> "Order":
        """Return an order by its word."""
        try:
            return cls(order)
        except ValueError:
            allowed = f"must be one of {', '.join(each.value for each in cls)}"
            raise InvalidSetting("order", order, allowed) from None


class Place(NamedTuple):
    """Where a failed message is in a list.

    As a text: ``17``, or ``2026-11-01T10:00:00Z/17`` with its time.

    Attributes:
        number: its number.
        failed_at: when it failed for the last time; the order by last failure compares that first.
    """

    number: int
    failed_at: datetime | None = None

    def __str__(self) -> str:
        if self.failed_at is None:
            return str(self.number)
        return f"{self.failed_at.isoformat().replace('+00:00', 'Z')}/{self.number}"

    @classmethod
    def of(cls, place: "Place | str | int", order: Order) -> "Place":
        """Return a place in a list of an order.

        Args:
            place: the place, its text, or a number; 0: before the first.
            order: the order of the list.

        Raises:
            InvalidSetting: it is no place in such a list.
        """
        read = place if isinstance(place, Place) else _read(place)
        if order is Order.LAST_FAILED and read.failed_at is None and read.number:
            allowed = "must have the time of its last failure in this order, as page[-1].place has"
            raise InvalidSetting("after", str(place), allowed)
        return read


START: Final = Place(0)
"""Before the first message of a list."""


def _read(place: str | int) -> Place:
    found = _PLACE.fullmatch(str(place))
    try:
        if found is not None and found["failed_at"] is None:
            return Place(int(found["number"]))
        if found is not None and (at := datetime.fromisoformat(found["failed_at"])).utcoffset() is not None:
            return Place(int(found["number"]), at)
    except ValueError:  # it looks like a time, and is none
        pass
    allowed = "must be a number, or a time and a number such as 2026-11-01T10:00:00Z/17"
    raise InvalidSetting("after", str(place)[:60], allowed)
