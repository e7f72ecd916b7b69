# SPDX-License-Identifier: MIT
"""Slots where clocks change: in every zone, at every change of ten years."""

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from redrive.pipeline.cadence import Cron, Every, PerDay, Timing
from tests.pipeline.clock_changes import DAY, ClockChange, changes, different_changes, zone_names

NEW_YORK = "America/New_York"
HOURS = 3_600
APIA_SKIPS_A_DAY = ClockChange(1_325_239_200, -10 * HOURS, 14 * HOURS)


def instant(zone: str, *when: int, fold: int = 0) -> float:
    """Return the instant of a wall time that exists."""
    return datetime(*when, tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def shown(slots: list[float], zone: str) -> list[str]:
    return [f"{datetime.fromtimestamp(slot, ZoneInfo(zone)):%d %H:%M %Z}" for slot in slots]


def walls(timing: PerDay, change: ClockChange, around: int) -> list[int]:
    """Return the wall times of a rule on the days around a change, from its definition."""
    hours, minutes = map(int, timing.start.split(":"))
    days = range((change.at - around) // DAY - 2, (change.at + around) // DAY + 3)
    distances = [hours * HOURS + minutes * 60 + each * DAY // timing.times for each in range(timing.times)]
    return [day * DAY + distance for day in days for distance in distances]


def starts(change: ClockChange) -> list[str]:
    """Return times of day that matter at a change: around it, on both clocks."""
    near = [change.at + offset + late for offset in (change.before, change.after) for late in (-1_800, -60, 0, 60)]
    return sorted({f"{wall % DAY // HOURS:02}:{wall % HOURS // 60:02}" for wall in near})


def check(timing: PerDay, change: ClockChange, around: int) -> None:
    """Compare the slots around a change with what the rule means; look from the other end, too."""
    after, until = change.at - around, change.at + around
    expected = change.slots(walls(timing, change, around), after, until)
    assert timing.slots(after, until) == expected
    assert timing.previous(until) == expected[-1]


def check_daily(zone: str, change: ClockChange) -> None:
    for start in starts(change):
        check(PerDay(1, start, zone), change, 3 * DAY)


def check_often(zone: str, change: ClockChange) -> None:
    check(PerDay(24, "00:07", zone), change, DAY)
    check(PerDay(7, "02:30", zone), change, 2 * DAY)
    check(PerDay(1_000, "02:07", zone), change, 5 * HOURS)


def check_cron(zone: str, change: ClockChange) -> None:
    after, until = change.at - 2 * DAY, change.at + 2 * DAY
    minute = starts(change)[0][3:]
    assert Cron(f"{minute} * * * *", zone).slots(after, until) == change.sights(int(minute), after, until)
    for start in starts(change)[::2]:
        expression = f"{start[3:]} {start[:2]} * * *"
        assert Cron(expression, zone).slots(after, until) == PerDay(1, start, zone).slots(after, until)
        theirs = CronSim(expression, datetime.fromtimestamp(after, ZoneInfo(zone)))
        assert next(theirs).timestamp() == Cron(expression, zone).next_after(after)


def test_at_every_change_of_ten_years_a_daily_time_is_one_slot_a_day():
    for change, zone in different_changes().items():
        check_daily(zone, change)


@pytest.mark.parametrize("look", [check_often, check_cron])
def test_at_every_kind_of_change_each_wall_time_is_one_slot(look):
    kinds = {
        (change.at % DAY, change.before, change.after): (zone, change) for change, zone in different_changes().items()
    }
    for zone, change in kinds.values():
        look(zone, change)


@pytest.mark.torture
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(16))
def test_in_every_zone_each_wall_time_of_ten_years_is_one_slot(part):
    for zone in zone_names()[part::16]:
        found = list(changes(zone, DAY))
        for change in found:
            for look in (check_daily, check_often, check_cron):
                look(zone, change)
        check_ten_years(zone, found)


def check_ten_years(zone: str, found: list[ClockChange]) -> None:
    """Count the slots of ten years: as many as days, but for those that are merged because they are skipped."""
    span = [datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (2020, 2030)]
    for times, start in ((1, "02:30"), (1, "00:00"), (7, "23:59")):
        slots = PerDay(times, start, zone).slots(*span)
        assert sorted(set(slots)) == slots
        merged = sum(max(0, change.after - change.before) for change in found) * times / DAY
        assert 3_653 * times - merged - 2 <= len(slots) <= 3_653 * times + 1


# --- defects of others, which must not be ours -----------------------------------------------------------------------


def test_0230_in_new_york_has_a_slot_on_the_day_without_0230():
    slots = PerDay(1, "02:30", NEW_YORK).slots(instant(NEW_YORK, 2026, 3, 6), instant(NEW_YORK, 2026, 3, 11))
    assert shown(slots, NEW_YORK) == ["06 02:30 EST", "07 02:30 EST", "08 03:00 EDT", "09 02:30 EDT", "10 02:30 EDT"]


def test_0130_in_new_york_has_one_slot_on_the_day_with_two_of_them():
    slots = PerDay(1, "01:30", NEW_YORK).slots(instant(NEW_YORK, 2026, 10, 31), instant(NEW_YORK, 2026, 11, 3))
    assert shown(slots, NEW_YORK) == ["31 01:30 EDT", "01 01:30 EDT", "02 01:30 EST"]


def test_0900_stays_0900_when_clocks_go_forward():
    slots = PerDay(1, "09:00", NEW_YORK).slots(instant(NEW_YORK, 2026, 3, 7), instant(NEW_YORK, 2026, 3, 10))
    assert shown(slots, NEW_YORK) == ["07 09:00 EST", "08 09:00 EDT", "09 09:00 EDT"]


@pytest.mark.parametrize("times", [1, 7, 24, 1_000, 1_439, 1_440])
def test_a_number_per_day_is_that_number_on_every_day_of_24_hours(times):
    for day in range(20_000, 20_003):
        assert len(PerDay(times, "02:07").slots(day * DAY - 1, (day + 1) * DAY - 1)) == times


@pytest.mark.parametrize(("times", "spring", "autumn"), [(1, 1, 1), (24, 23, 24), (48, 46, 48), (1_000, 959, 1_000)])
def test_a_day_of_25_hours_has_no_more_slots_and_one_of_23_hours_merges_those_it_skips(times, spring, autumn):
    timing = PerDay(times, "00:00", NEW_YORK)
    assert len(timing.slots(instant(NEW_YORK, 2026, 3, 8) - 1, instant(NEW_YORK, 2026, 3, 9) - 1)) == spring
    assert len(timing.slots(instant(NEW_YORK, 2026, 11, 1) - 1, instant(NEW_YORK, 2026, 11, 2) - 1)) == autumn


@pytest.mark.parametrize(("expression", "spring", "autumn"), [("0 * * * *", 23, 25), ("*/5 0-23 * * *", 276, 300)])
def test_a_cron_rule_for_every_hour_has_slots_in_every_hour_that_passes(expression, spring, autumn):
    timing = Cron(expression, NEW_YORK)
    assert len(timing.slots(instant(NEW_YORK, 2026, 3, 8) - 1, instant(NEW_YORK, 2026, 3, 9) - 1)) == spring
    assert len(timing.slots(instant(NEW_YORK, 2026, 11, 1) - 1, instant(NEW_YORK, 2026, 11, 2) - 1)) == autumn


def test_a_cron_rule_for_some_minutes_of_a_skipped_hour_loses_no_day():
    slots = Cron("*/15 2 * * *", NEW_YORK).slots(instant(NEW_YORK, 2026, 3, 8), instant(NEW_YORK, 2026, 3, 9))
    assert shown(slots, NEW_YORK) == ["08 03:00 EDT"]
    slots = Cron("*/30 1 * * *", NEW_YORK).slots(instant(NEW_YORK, 2026, 11, 1), instant(NEW_YORK, 2026, 11, 2))
    assert shown(slots, NEW_YORK) == ["01 01:00 EDT", "01 01:30 EDT"]


def test_a_cron_rule_for_every_second_hour_keeps_the_hour_that_is_skipped():
    timing = Cron("0 */2 * * *", NEW_YORK)
    slots = timing.slots(instant(NEW_YORK, 2026, 3, 8) - 1, instant(NEW_YORK, 2026, 3, 8, 6))
    assert shown(slots, NEW_YORK) == ["08 00:00 EST", "08 03:00 EDT", "08 04:00 EDT", "08 06:00 EDT"]


def test_a_rare_cron_rule_sees_the_first_of_two_hours_from_months_before():
    zone = "America/Havana"  # where the hour after midnight comes twice
    timing = Cron("30 * 1 11 *", zone)
    first = timing.next_after(instant(zone, 2026, 1, 1))
    assert shown([first, timing.next_after(first)], zone) == ["01 00:30 CDT", "01 00:30 CST"]


def test_elapsed_time_does_not_know_of_clocks():
    slots = Every(HOURS).slots(instant(NEW_YORK, 2026, 11, 1), instant(NEW_YORK, 2026, 11, 2))
    assert len(slots) == 25
    assert {later - earlier for earlier, later in pairwise(slots)} == {HOURS}


def test_from_within_the_repeated_hour_the_next_slot_is_never_one_that_is_over():
    again = instant(NEW_YORK, 2026, 11, 1, 1, 15, fold=1)  # 01:30 was three quarters of an hour ago
    for timing in (PerDay(1, "01:30", NEW_YORK), Cron("30 1 * * *", NEW_YORK)):
        assert shown([timing.next_after(again)], NEW_YORK) == ["02 01:30 EST"]
        assert shown([timing.previous(again)], NEW_YORK) == ["01 01:30 EDT"]


@pytest.mark.parametrize("start", ["00:00", "02:30", "23:59"])
def test_a_day_that_a_country_skips_has_its_slot_at_the_start_of_the_next(start):
    check(PerDay(1, start, "Pacific/Apia"), APIA_SKIPS_A_DAY, 3 * DAY)
    check(PerDay(24, start, "Pacific/Apia"), APIA_SKIPS_A_DAY, 3 * DAY)


@pytest.mark.parametrize("zone", [NEW_YORK, "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"])
def test_rules_hold_beyond_the_last_change_that_a_zone_file_lists(zone):
    years = datetime(2095, 1, 1, tzinfo=UTC), datetime(2097, 1, 1, tzinfo=UTC)
    found = list(changes(zone, DAY, years))
    assert len(found) == 4
    for change in found:
        check_daily(zone, change)
        check_often(zone, change)


# --- wherever one begins ---------------------------------------------------------------------------------------------

RULES = (
    lambda zone, start: PerDay(1, start, zone),
    lambda zone, start: PerDay(24, start, zone),
    lambda zone, start: PerDay(37, start, zone),
    lambda zone, start: Cron(f"{start[3:]} {start[:2]} * * *", zone),
    lambda zone, start: Cron(f"{start[3:]} * * * *", zone),
    lambda zone, start: Cron(f"{start[3:]}-59/20 */2 * * *", zone),
    lambda _, start: Every(1_000 + int(start[3:]) / 7),
)


@st.composite
def timings_and_instants(draw) -> tuple[Timing, list[float]]:
    places = [*different_changes().items(), (APIA_SKIPS_A_DAY, "Pacific/Apia")]
    change, zone = draw(st.sampled_from(places))
    timing = draw(st.sampled_from(RULES))(zone, draw(st.sampled_from(starts(change))))
    some = st.floats(-DAY, DAY) | st.integers(-DAY, DAY) | st.sampled_from([-HOURS, -1, 0, 1, HOURS])
    return timing, sorted(change.at + each for each in draw(st.lists(some, min_size=3, max_size=5)))


@given(timings_and_instants())
def test_slots_are_the_same_wherever_one_begins_to_count(drawn):
    timing, instants = drawn
    whole = timing.slots(instants[0], instants[-1])
    assert [slot for cut in pairwise(instants) for slot in timing.slots(*cut)] == whole
    assert whole == sorted(set(whole))


@given(timings_and_instants())
def test_the_next_and_the_previous_slot_are_those_around_an_instant(drawn):
    timing, (first, *_, last) = drawn
    before, after = timing.previous(first), timing.next_after(first)
    assert before <= first < after
    assert timing.next_after(before) == after
    assert timing.slots(before, last)[:1] == [after][: after <= last]
