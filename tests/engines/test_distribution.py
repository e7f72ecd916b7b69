# SPDX-License-Identifier: MIT
"""What was found together is shared out fairly."""

from hypothesis import given
from hypothesis import strategies as st

from redrive.engines.distribution import deal


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.data())
def test_everybody_gets_one_before_anybody_gets_another(limits, data):
    found = list(range(data.draw(st.integers(0, sum(limits)))))
    hands = deal(found, limits)
    assert sorted(one for hand in hands for one in hand) == found
    assert all(hand == sorted(hand) for hand in hands), "the older come first"
    assert all(len(hand) <= limit for hand, limit in zip(hands, limits, strict=True))
    hungry = [len(hand) for hand, limit in zip(hands, limits, strict=True) if len(hand) < limit]
    most = max(len(hand) for hand in hands)
    assert all(count >= most - 1 for count in hungry)
