# SPDX-License-Identifier: MIT
"""Timings, what was missed, and when work is given up or sent early."""

import json
import pickle
import sys
import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidSetting, MissingExtra, UnknownSetting
from redrive.pipeline.cadence import Backstop, Cron, Every, Limits, PerDay, catch_up, sends_empty, timing_of
from redrive.pipeline.cron_walls import _read

HOUR, DAY = 3_600.0, 86_400.0
NEW_YORK = "America/New_York"
MONDAY = datetime(2026, 11, 16, tzinfo=UTC).timestamp()

TIMINGS = [
    PerDay(1),
    PerDay(24, "02:07", NEW_YORK),
    PerDay(1_440, "23:59", "Europe/Berlin"),
    Cron("30 2 * * MON-FRI", NEW_YORK),
    Cron("0 0 L * *"),
    Every(900),
    Every(timedelta(days=7), start=3.5),
]


# --- PerDay, Cron, Every ---------------------------------------------------------------------------------------------


def test_slots_per_day_have_equal_distances_from_the_start():
    assert PerDay(4, "02:07").slots(MONDAY, MONDAY + DAY) == [MONDAY + 127 * 60 + each * 6 * HOUR for each in range(4)]
    assert PerDay(4, "23:00").slots(MONDAY, MONDAY + DAY) == [MONDAY + each * HOUR for each in (5, 11, 17, 23)]


def test_distances_that_are_no_whole_seconds_end_at_the_second_below():
    slots = PerDay(7).slots(MONDAY - 1, MONDAY + DAY)
    assert [slot - MONDAY for slot in slots] == [0, 12_342, 24_685, 37_028, 49_371, 61_714, 74_057, 86_400]


def test_the_next_slot_is_later_than_the_instant_even_if_that_is_a_slot():
    for timing in (PerDay(24), Cron("0 * * * *"), Every(3_600)):
        assert timing.next_after(MONDAY) == MONDAY + HOUR
        assert timing.next_after(MONDAY - 0.000_1) == MONDAY
        assert timing.previous(MONDAY) == MONDAY
        assert timing.previous(MONDAY - 0.000_1) == MONDAY - HOUR


def test_a_span_has_the_slot_at_its_end_and_not_the_one_at_its_beginning():
    assert PerDay(24).slots(MONDAY, MONDAY + 2 * HOUR) == [MONDAY + HOUR, MONDAY + 2 * HOUR]
    assert PerDay(24).slots(MONDAY, MONDAY) == PerDay(24).slots(MONDAY, MONDAY - DAY) == []


def test_cron_may_name_weekdays():
    slots = Cron("30 2 * * MON-FRI").slots(MONDAY, MONDAY + 8 * DAY)
    assert [(slot - MONDAY - 2.5 * HOUR) / DAY for slot in slots] == [0, 1, 2, 3, 4, 7]


def test_elapsed_time_counts_from_its_start_in_both_directions():
    assert Every(600, start=MONDAY + 7).slots(MONDAY - 600, MONDAY + 600) == [MONDAY - 593, MONDAY + 7]


@given(st.floats(1, 1e6), st.floats(0, 2e9), st.floats(0, 4e9))
def test_elapsed_time_is_exact_for_intervals_that_are_no_whole_seconds(interval, start, instant):
    timing = Every(interval, start)
    slot = timing.next_after(instant)
    assert slot > instant
    assert timing.previous(instant) <= instant < timing.next_after(timing.previous(instant)) == slot


@pytest.mark.parametrize(
    ("timing", "period"),
    [
        (PerDay(1), DAY),
        (PerDay(24, zone=NEW_YORK), HOUR),
        (PerDay(1_000), 87),  # most are 86 seconds; the backstop needs the longest
        (Cron("30 2 * * *"), DAY),
        (Cron("30 2 * * MON-FRI"), 3 * DAY),
        (Cron("*/5 9-17 * * *"), 15 * HOUR + 300),
        (Cron("0 * * * *"), HOUR),
        (Cron("0 0 1 * *"), 31 * DAY),
        (Cron("0 0 31 * *"), 61 * DAY),
        (Cron("0 0 29 2 *"), 1_461 * DAY),
        (Every(900), 900),
    ],
    ids=str,
)
def test_the_period_is_the_longest_usual_distance(timing, period):
    assert timing.period == period


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        (PerDay(24, "02:07", NEW_YORK), "24 times a day from 02:07 America/New_York"),
        (PerDay(1, "02:30"), "once a day at 02:30 UTC"),
        (Cron("30  2 * * MON-FRI", NEW_YORK), "At 02:30 on Monday through Friday (30 2 * * MON-FRI), America/New_York"),
        (Every(900), "every 15 minutes"),
        (Every(3_600), "every hour"),
        (Every(172_800), "every 2 days"),
        (Every(1), "every second"),
        (Every(90.5), "every 90.5 seconds"),
    ],
)
def test_a_timing_says_in_words_when_its_slots_are(timing, words):
    assert str(timing) == words


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timing", TIMINGS, ids=str)
def test_a_timing_comes_back_from_json(timing):
    assert timing_of(json.loads(json.dumps(timing.to_table()))) == timing
    assert pickle.loads(pickle.dumps(timing)) == timing  # noqa: S301 - our own


def test_a_file_describes_a_timing():
    assert timing_of({"per_day": 24}) == PerDay(24)
    assert timing_of({"per_day": 24, "start": "02:07", "zone": NEW_YORK}) == PerDay(24, "02:07", NEW_YORK)
    assert timing_of({"cron": "30 2 * * MON-FRI", "zone": NEW_YORK}) == Cron("30 2 * * MON-FRI", NEW_YORK)
    assert timing_of({"every": "15m"}) == timing_of({"every": 900}) == Every(900)


@pytest.mark.parametrize("table", [{}, {"zone": "UTC"}, {"per_day": 1, "every": "1d"}, None, "1d", [("per_day", 1)]])
def test_a_table_without_exactly_one_kind_of_timing_is_refused(table):
    with pytest.raises(InvalidSetting, match="must have one of per_day, cron and every"):
        timing_of(table)


def test_a_setting_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(UnknownSetting, match=r"no setting 'tz'; it has: per_day, start, zone"):
        timing_of({"per_day": 1, "tz": "UTC"})
    with pytest.raises(UnknownSetting, match="Did you mean 'padding'"):
        Backstop.from_table({"paddin": "1h"})


@pytest.mark.parametrize(
    ("table", "setting"),
    [
        ({"per_day": 0}, "per_day"),
        ({"cron": "* *"}, "cron"),
        ({"every": "0s"}, "every"),
        ({"every": None}, "every"),
        ({"per_day": 1, "zone": "x"}, "zone"),
    ],
)
def test_an_error_calls_a_setting_what_the_file_calls_it(table, setting):
    with pytest.raises(InvalidSetting) as refused:
        timing_of(table)
    assert refused.value.setting == setting


def test_backstops_and_limits_come_back_from_json():
    for value in (Backstop(), Backstop(0, 0.0), Limits(), Limits(100, 10**9, timedelta(hours=1))):
        assert type(value).from_table(json.loads(json.dumps(value.to_table()))) == value
    assert Backstop.from_table({"retries": 5, "padding": "30m"}) == Backstop(5, 1_800.0)
    assert Limits.from_table({"max_items": 100, "max_wait": "1h"}) == Limits(100, None, HOUR)
    with pytest.raises(InvalidSetting, match="must be a table"):
        Limits.from_table(["max_items"])


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [0, -1, 1_441, 1.0, True, "24", None])
def test_a_number_per_day_that_is_out_of_range_is_refused(times):
    with pytest.raises(InvalidSetting, match="whole number from 1 to 1,440"):
        PerDay(times)


@pytest.mark.parametrize(
    "start", ["2:07", "24:00", "12:60", "02:07:00", "noon", "", " 02:07", "\u0660\u0662:07", 207, None]
)
def test_a_start_that_is_no_time_of_day_is_refused(start):
    with pytest.raises(InvalidSetting, match='such as "02:07"'):
        PerDay(1, start)


@pytest.mark.parametrize(
    ("zone", "instead"),
    [
        ("America/New York", "America/New_York"),
        ("america/new_york", "America/New_York"),
        ("New York", "America/New_York"),
        ("Europe/Berln", "Europe/Berlin"),
        ("Kolkata", "Asia/Kolkata"),
        ("Eastern", "US/Eastern"),
        ("utc", "UTC"),
    ],
)
@pytest.mark.parametrize("made", [partial(PerDay, 1, "00:00"), partial(Cron, "0 0 * * *")], ids=["per day", "cron"])
def test_an_unknown_zone_is_refused_with_those_that_are_spelled_like_it(made, zone, instead):
    with pytest.raises(InvalidSetting, match=f"zone=.*'{instead}'"):
        made(zone)


@pytest.mark.parametrize(
    "zone", ["", "America", "../UTC", "/etc/passwd", "right/UTC", "localtime", "\0", "\ud800", 5, []]
)
def test_what_is_no_zone_or_another_on_every_machine_is_refused(zone):
    with pytest.raises(InvalidSetting, match="must be a zone"):
        PerDay(1, zone=zone)


def test_a_machine_without_zone_files_has_utc_and_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.reset_tzpath(to=[])
    try:
        assert PerDay(1, "00:00").next_after(MONDAY) == MONDAY + DAY
        with pytest.raises(InvalidSetting, match="pip install tzdata"):
            PerDay(1, zone="Mars/Olympus")
    finally:
        zoneinfo.reset_tzpath()


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("61 * * * *", "its minute cannot be read"),
        ("* * * * MOO", "its day of week cannot be read"),
        ("0 0 32 * *", "its day of month cannot be read"),
        ("@daily", "has five fields"),
        ("", "has five fields"),
        ("*/30 * * * * *", r"within a minute write Every\(30\)"),
        ("0 0 * * *" + " " * 300, "at most 256 characters"),
        (None, "has five fields"),
        (["0 0 * * *"], "has five fields"),
    ],
)
def test_a_cron_expression_that_cannot_be_read_or_never_fires_is_refused(expression, reason):
    with pytest.raises(InvalidSetting, match=reason):
        Cron(expression)


def test_cron_without_its_library_names_the_extra(monkeypatch):
    _read.cache_clear()
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(MissingExtra, match="pipeline"):
        Cron("1 2 3 4 5")


@pytest.mark.parametrize("interval", [0, -1, 0.5, float("nan"), float("inf"), "15m", None, timedelta(0)])
def test_an_interval_that_is_no_second_long_is_refused(interval):
    with pytest.raises(InvalidSetting, match="interval="):
        Every(interval)


@pytest.mark.parametrize("instant", [float("nan"), float("inf"), -1e12, 1e12, None, "now", True])
def test_an_instant_that_no_calendar_has_is_refused(instant):
    for timing in (PerDay(1), Cron("0 0 * * *"), Every(60)):
        with pytest.raises(InvalidSetting, match="seconds since 1970"):
            timing.next_after(instant)
    with pytest.raises(InvalidSetting, match="start="):
        Every(60, start=instant)


# --- what was missed -------------------------------------------------------------------------------------------------

HOURLY = PerDay(24)


@pytest.mark.parametrize(
    ("how", "missed"),
    [("latest", [MONDAY + 3 * HOUR]), ("all", [MONDAY + each * HOUR for each in (1, 2, 3)]), ("none", [])],
)
def test_missed_slots_are_caught_up_with_as_asked(how, missed):
    assert catch_up(HOURLY, MONDAY, MONDAY + 3.5 * HOUR, how, window=DAY) == missed


def test_a_slot_older_than_the_window_is_not_served_any_more():
    now = MONDAY + 3.5 * HOUR
    assert catch_up(HOURLY, MONDAY, now, "all", window=2 * HOUR) == [MONDAY + 2 * HOUR, MONDAY + 3 * HOUR]
    assert catch_up(HOURLY, MONDAY, now, "all", window=0.5 * HOUR) == []
    assert catch_up(HOURLY, MONDAY, now, "latest", window=0.5 * HOUR) == []
    assert catch_up(HOURLY, MONDAY, now, "all", window=0) == []


def test_who_has_served_the_last_slot_or_is_new_has_missed_none():
    for how in ("latest", "all", "none"):
        assert catch_up(HOURLY, MONDAY, MONDAY + 0.9 * HOUR, how, window=DAY) == []
        assert catch_up(HOURLY, MONDAY + DAY, MONDAY, how, window=DAY) == []  # the clock went back
        assert catch_up(HOURLY, None, MONDAY, how, window=DAY) == []


def test_a_slot_is_missed_from_its_instant_on():
    assert catch_up(HOURLY, MONDAY, MONDAY + HOUR - 0.001, "latest", window=DAY) == []
    assert catch_up(HOURLY, MONDAY, MONDAY + HOUR, "latest", window=DAY) == [MONDAY + HOUR]


@given(st.sampled_from(TIMINGS), st.floats(0, 3 * DAY), st.floats(0, 3 * DAY), st.floats(0, 3 * DAY))
def test_the_latest_missed_slot_is_the_last_of_all(timing, served, late, window):
    last, now = MONDAY + served, MONDAY + late
    every = catch_up(timing, last, now, "all", window)
    assert catch_up(timing, last, now, "latest", window) == every[-1:]
    assert every == [slot for slot in timing.slots(MONDAY - 1, now) if slot > max(last, now - window)]


def test_a_way_to_catch_up_that_does_not_exist_is_refused():
    with pytest.raises(InvalidSetting, match='"latest", "all" or "none"'):
        catch_up(HOURLY, MONDAY, MONDAY, "some", DAY)
    with pytest.raises(InvalidSetting, match="window="):
        catch_up(HOURLY, MONDAY, MONDAY, "all", -1)


# --- empty batches, backstop, limits ---------------------------------------------------------------------------------


def test_an_empty_slot_is_skipped_or_sent_as_asked():
    assert not sends_empty("skip", MONDAY, [])
    assert sends_empty("send", MONDAY, [MONDAY - HOUR])


def test_once_per_day_counts_the_days_of_the_destination():
    late = datetime(2026, 11, 16, 23, 30, tzinfo=zoneinfo.ZoneInfo(NEW_YORK)).timestamp()  # the 17th in UTC
    assert sends_empty("send_once_per_day", late, [], NEW_YORK)
    assert not sends_empty("send_once_per_day", late, [late - 23 * HOUR], NEW_YORK)
    assert sends_empty("send_once_per_day", late, [late - 24 * HOUR, late + HOUR], NEW_YORK)
    assert not sends_empty("send_once_per_day", late, [late + HOUR], "UTC")


def test_once_per_day_is_once_on_a_day_of_25_hours():
    timing = Cron("0 * * * *", NEW_YORK)
    first = datetime(2026, 11, 1, tzinfo=zoneinfo.ZoneInfo(NEW_YORK)).timestamp()
    served: list[float] = []
    for slot in timing.slots(first - 1, first + 49 * HOUR - 1):
        if sends_empty("send_once_per_day", slot, served, NEW_YORK):
            served.append(slot)
    assert served == [first, first + 25 * HOUR]


def test_what_to_do_with_an_empty_slot_must_exist():
    with pytest.raises(InvalidSetting, match='"skip", "send" or "send_once_per_day"'):
        sends_empty("once", MONDAY, [])


@pytest.mark.parametrize(
    ("per_day", "minutes"), [(1, 4_500), (2, 2_340), (12, 540), (24, 360), (288, 195), (1_440, 183)]
)
def test_the_backstop_is_three_periods_and_three_hours(per_day, minutes):
    assert Backstop().not_after(MONDAY, PerDay(per_day).period) == MONDAY + minutes * 60


def test_a_backstop_may_have_other_figures():
    assert Backstop(retries=0, padding=timedelta(0)).not_after(MONDAY, DAY) == MONDAY + DAY
    for wrong in ({"retries": -1}, {"retries": 1.5}, {"padding": -1}, {"padding": "3h"}):
        with pytest.raises(InvalidSetting, match=f"{next(iter(wrong))}="):
            Backstop(**wrong)


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        ((99, 999, 59.9), None),
        ((100, 0, 0.0), "size"),
        ((1, 1_000, 0.0), "bytes"),
        ((1, 0, 60.0), "age"),
        ((100, 1_000, 60.0), "size"),
        ((0, 0, 1e9), None),
    ],
)
def test_a_batch_is_closed_early_when_a_limit_is_reached(waiting, reason):
    assert Limits(max_items=100, max_bytes=1_000, max_wait=60).reason(*waiting) == reason
    assert Limits().reason(*waiting) is None


@pytest.mark.parametrize("wrong", [{"max_items": 0}, {"max_bytes": -1}, {"max_wait": 0}, {"max_wait": "1h"}])
def test_a_limit_of_nothing_is_refused(wrong):
    with pytest.raises(InvalidSetting, match=f"{next(iter(wrong))}="):
        Limits(**wrong)
