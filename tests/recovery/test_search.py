# SPDX-License-Identifier: MIT
"""Search in parts: how large they are, and what becomes of one that takes too long."""

import pytest

from redrive.errors import QuestionTooSlow
from redrive.recovery.filter import Filter
from redrive.recovery.list_order import START, Place
from redrive.recovery.records import Found
from redrive.recovery.search import Search
from redrive.testing import ManualClock


class Shelf:
    """A ledger with so many messages, of which none has the text, and a second for every thousand."""

    def __init__(self, clock, many, slowest=float("inf")):
        self.parts = []
        self._clock, self._many, self._slowest = clock, many, slowest

    async def search(self, _chosen, *, after, limit, order, part):
        self.parts.append(part)
        if part / 1_000 > self._slowest:
            raise QuestionTooSlow(self._slowest)
        self._clock.advance(part / 1_000)
        last = after.number + part
        return Found([], Place(min(last, self._many)), is_over=last >= self._many)


@pytest.fixture
def clock():
    return ManualClock()


async def test_parts_grow_while_they_are_quick_and_a_page_ends_in_time(clock):
    shelf = Shelf(clock, 1_000_000)
    search = Search(shelf, clock, Filter(text="x"))
    found = await search.page(START, 100, within=2.0)
    assert not found.is_over
    assert found.place.number == sum(shelf.parts)
    assert max(shelf.parts) <= 400  # a part that takes longer than a fifth of a second is halved
    assert (await search.page(found.place, 100, within=2.0)).place.number > found.place.number


async def test_a_part_that_takes_too_long_ends_the_page_and_the_next_one_is_smaller(clock):
    shelf = Shelf(clock, 1_000, slowest=0.1)
    search = Search(shelf, clock, Filter(text="x"))
    with pytest.raises(QuestionTooSlow):
        await search.page(START, 100, within=5.0)  # not even one part
    found = await search.page(START, 100, within=5.0)
    assert (found.is_over, found.place.number) == (False, 20 + 40 + 80)  # 160 take too long
    while not found.is_over:
        found = await search.page(found.place, 100, within=5.0)
    assert found.place.number == 1_000
