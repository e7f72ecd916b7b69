# SPDX-License-Identifier: MIT
"""Text search in failed messages: part by part, so that it can end after each, and be continued.

No index knows what is inside a message, so every message that matches the other terms is read.
"""

from typing import Final

from redrive.clock import Clock
from redrive.errors import QuestionTooSlow
from redrive.recovery.filter import Filter
from redrive.recovery.ledger import Ledger
from redrive.recovery.list_order import Order, Place
from redrive.recovery.records import FailedMessage, Found

_FIRST_PART: Final = 200
_LARGEST_PART: Final = 50_000
_SMALLEST_PART: Final = 10
_QUICK_S: Final = 0.2


class Search:
    """A search.

    Args:
        ledger: where to look.
        clock: what the time limit goes by.
        chosen: which messages.
        order: in which order.
    """

    def __init__(self, ledger: Ledger, clock: Clock, chosen: Filter, order: Order = Order.OLDEST) -> None:
        self._ledger = ledger
        self._clock = clock
        self._chosen = chosen
        self._order = order
        self._part = _FIRST_PART

    async def page(self, after: Place, limit: int, within: float) -> Found:
        """Return the next messages: so many, or as many as are found in some time.

        Args:
            after: the place of the page before.
            limit: how many at most.
            within: how many seconds it may take, about; one part is looked through in any case.

        Raises:
            QuestionTooSlow: not even that could be done in the time that the ledger allows.
        """
        until, messages, place = self._clock.monotonic() + within, list[FailedMessage](), after
        while True:
            try:
                found = await self._look(place, limit - len(messages))
            except QuestionTooSlow:
                if place == after:
                    raise
                return Found(messages, place, is_over=False)
            messages += found.messages
            place = found.place
            if found.is_over or len(messages) == limit or self._clock.monotonic() >= until:
                return Found(messages, place, found.is_over)

    async def _look(self, after: Place, limit: int) -> Found:
        """Look through the next part. One that takes long makes the next ones smaller."""
        began, part = self._clock.monotonic(), self._part
        self._part = max(_SMALLEST_PART, part // 10)  # if it takes too long
        found = await self._ledger.search(self._chosen, after=after, limit=limit, order=self._order, part=part)
        is_quick = self._clock.monotonic() - began < _QUICK_S
        self._part = min(_LARGEST_PART, part * 2) if is_quick else max(_SMALLEST_PART, part // 2)
        return found
