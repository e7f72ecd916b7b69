# SPDX-License-Identifier: MIT
"""Cron expressions of every kind: each is refused with a reason, or has the slots it should."""

import json
from itertools import islice, pairwise

from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from redrive.errors import InvalidSetting
from redrive.pipeline.cadence import Cron, timing_of
from redrive.pipeline.zone_time import at_wall

DAY = 86_400
BEGIN_2001, END_2004 = 978_307_200, 1_104_537_600


def values(low: int, high: int) -> st.SearchStrategy[str]:
    """Return fields as people write them."""
    one = st.integers(low, high)
    span = st.tuples(one, one).map(lambda ends: f"{min(ends)}-{max(ends)}")
    step = st.tuples(st.just("*") | span, st.integers(1, 70)).map(lambda parts: f"{parts[0]}/{parts[1]}")
    item = one.map(str) | span | step
    return st.just("*") | item | st.lists(item, min_size=2, max_size=3).map(",".join)


DAYS = values(1, 31) | st.sampled_from(["L", "LW", "1,L"])
WEEKDAYS = values(0, 7) | st.sampled_from(["MON-FRI", "SUN", "FRI#1", "5L", "1#5"])
EXPRESSIONS = st.tuples(values(0, 59), values(0, 23), DAYS, values(1, 12), WEEKDAYS).map(" ".join)


def made(expression: str) -> Cron | None:
    try:
        return Cron(expression)
    except InvalidSetting as refused:
        assert "never fires" in str(refused)  # noqa: PT017 - the other outcome is as good
        return None


@given(EXPRESSIONS, st.integers(0, 4 * 10**9))
def test_what_cron_allows_has_the_slots_that_cronsim_finds(expression, instant):
    timing = made(expression)
    assume(timing is not None)
    theirs = [float(each.timestamp()) for each in islice(CronSim(expression, at_wall(instant)), 5)]
    assert timing.slots(instant, theirs[-1]) == theirs
    assert timing.previous(theirs[-1]) == theirs[-1]
    assert timing_of(json.loads(json.dumps(timing.to_table()))) == timing
    assert str(timing).endswith(f"({timing.expression}), UTC")


@given(EXPRESSIONS)
def test_the_period_is_the_longest_distance_of_four_years(expression):
    timing = made(expression)
    assume(timing is not None)
    slots: list[float] = []
    for each in islice(CronSim(expression, at_wall(BEGIN_2001 - 1)), 500):
        slots.append(each.timestamp())
        if slots[-1] >= END_2004 and slots[-1] // DAY > slots[0] // DAY:  # all were seen, and two days at least
            assert timing.period == max(later - earlier for earlier, later in pairwise(slots))
            break
    assert timing.period >= max(later - earlier for earlier, later in pairwise(slots))


@given(st.text() | st.text("0123456789*/-,#LW MONFEB@", max_size=40))
def test_any_text_is_a_timing_or_is_refused_with_a_reason(text):
    try:
        timing = Cron(text)
    except InvalidSetting as refused:
        assert "expression=" in str(refused)  # noqa: PT017 - the other outcome is as good
    else:
        assert timing.next_after(0.0) > 0.0
        assert str(timing)
