# SPDX-License-Identifier: MIT
"""What upkeep does for the history: depths once a minute by one process, and old rows rolled up."""

import asyncio

from redrive.broker import tallies
from redrive.engines.sql.history import rounds
from redrive.history import Retention, SeriesQuestion
from redrive.history.buckets import DAY, HOUR, MINUTE
from tests.history.conftest import rows

GAUGES = "metric IN ('ready', 'scheduled', 'locked', 'dead_letters', 'oldest_age', 'lag')"


async def upkeep(*brokers):
    for broker in brokers:
        await broker.engine.upkeep()


async def store(broker, place, counts, at):
    """Store numbers as if they had been counted at another time."""
    here = place.clock.time()
    place.clock.jump(at - here)
    broker.engine.tally({("queue", name, metric): n for (name, metric), n in counts.items()})
    await broker.engine.flush_tallies()
    place.clock.jump(here - at)


async def roll_up(broker, limit=2_000):
    while not await broker.engine.run(lambda: rounds.roll_up(limit)):
        pass


async def test_depths_are_noted_in_the_second_round_and_not_in_the_first(broker, place):
    await broker.send_many("orders", [b"1", b"2"])
    await broker.receive("orders")
    place.clock.advance(30)
    engine = place.home.engine(place.clock)
    await engine.open()
    await engine.upkeep()
    assert await rows(broker, GAUGES) == []
    await engine.upkeep()
    await engine.close()
    noted = {metric: n for _, metric, _, _, n in await rows(broker, GAUGES)}
    assert noted == {"ready": 1, "locked": 1, "oldest_age": 30}


async def test_depths_are_noted_by_one_process_a_minute(broker, place):
    others = [await place.broker() for _ in range(3)]
    await broker.send("orders", b"1")
    for _ in range(3):
        await upkeep(broker, *others)
    seen = "topic = 'store'"
    assert [n for *_, n in await rows(broker, seen)] == [1]
    place.clock.advance(60)
    await asyncio.gather(*[upkeep(each) for each in (broker, *others)])
    assert [n for *_, n in await rows(broker, seen)] == [1, 1]
    assert [n for *_, n in await rows(broker, "metric = 'ready'")] == [1, 1]


async def test_depths_are_noted_again_after_the_clock_was_set_back(broker, place):
    await broker.send("orders", b"1")
    await upkeep(broker, broker)
    place.clock.jump(-86_400)
    await upkeep(broker)
    assert len(await rows(broker, "topic = 'store'")) == 2


async def test_the_lag_of_a_route_is_noted(broker, place):
    from redrive import open_routes
    from redrive.routes import from_topic, route, to_queue

    await broker.declare_topic("events")
    async with open_routes(broker) as routes:
        await routes.add(route("copy", source=from_topic("events")) >> to_queue("orders"))
    await broker.send_many("events", [b"1", b"2", b"3"])
    place.clock.advance(7)
    await upkeep(broker, broker)
    noted = {(name, metric): n for name, metric, n in await rows(broker, "topic = 'route'", "name, metric, n")}
    assert noted == {("copy", "lag"): 3, ("copy", "oldest_age"): 7}


async def test_minutes_become_hours_and_hours_become_days_and_days_end(broker, place):
    now = place.clock.time()
    ages = [0, 47 * HOUR, 50 * HOUR, 50 * HOUR - 60, 34 * DAY, 37 * DAY, 37 * DAY - HOUR, 399 * DAY, 402 * DAY]
    for age in ages:
        await store(broker, place, {("orders", "sent"): 1}, now - age)
    await roll_up(broker)
    found = [(step, n) for _, _, step, _, n in await rows(broker)]
    assert sorted(found) == sorted([(60, 1), (60, 1), (3600, 2), (3600, 1), (86400, 2), (86400, 1)])


async def test_rolling_up_a_few_at_a_time_is_the_same(broker, place):
    now = place.clock.time()
    for age in range(50 * HOUR, 54 * HOUR, 20 * MINUTE):
        await store(broker, place, {("orders", "sent"): 3, ("bills", "sent"): 4, ("bills", "dead"): 1}, now - age)
    await roll_up(broker, 5)
    found = await rows(broker)
    assert {step for _, _, step, _, _ in found} == {HOUR}
    assert sum(n for _, metric, _, _, n in found if metric == "sent") == 12 * 7
    assert sum(n for _, metric, _, _, n in found if metric == "dead") == 12


async def test_many_processes_that_roll_up_at_once_lose_nothing_and_count_nothing_twice(broker, place):
    now = place.clock.time()
    for age in range(50 * HOUR, 53 * HOUR, 20 * MINUTE):
        await store(broker, place, {(f"q{n}", "sent"): 2 for n in range(10)}, now - age)
    others = [await place.broker() for _ in range(3)]
    await asyncio.gather(*[roll_up(each, 7) for each in (broker, *others)])
    found = await rows(broker)
    assert {step for _, _, step, _, _ in found} == {HOUR}
    assert sum(n for *_, n in found) == 9 * 10 * 2


async def test_of_depths_the_highest_stays(broker, place):
    await broker.send_many("orders", [b"1", b"2", b"3"])
    await upkeep(broker, broker)
    place.clock.advance(60)
    for delivery in await broker.receive("orders", max_messages=2):
        await delivery.complete()
    await upkeep(broker)
    assert [n for *_, n in await rows(broker, "metric = 'ready'")] == [3, 1]
    place.clock.advance(60 * HOUR)
    await roll_up(broker)
    assert [(step, n) for _, _, step, _, n in await rows(broker, "metric = 'ready'")] == [(HOUR, 3)]


async def test_what_is_kept_can_be_changed_for_all_processes(broker, history, place):
    await store(broker, place, {("orders", "sent"): 1}, place.clock.time() - 3 * HOUR)
    assert await history.retention() == Retention()
    await history.keep(Retention(minutes=2 * HOUR, hours=5 * HOUR, days=10 * HOUR))
    other = await place.broker()
    await roll_up(other)
    assert [step for _, _, step, _, _ in await rows(broker)] == [HOUR]
    assert await (await place.history(other)).retention() == Retention(minutes=7200, hours=18_000, days=36_000)


async def test_upkeep_rolls_up_once_a_minute(broker, place):
    await store(broker, place, {("orders", "sent"): 1}, place.clock.time() - 60 * HOUR)
    await upkeep(broker, broker)
    assert [step for _, _, step, _, _ in await rows(broker, "metric = 'sent'")] == [HOUR]


async def test_a_series_is_the_same_before_and_after_rolling_up(broker, history, place):
    now = place.clock.time()
    for age in (HOUR, 20 * HOUR, 47 * HOUR):
        await store(broker, place, {("orders", "sent"): 5}, now - age)
    before = await history.series("sent", name="orders", span=3 * DAY, step=HOUR)
    assert before.total == 15
    place.clock.advance(10 * HOUR)
    after = await history.series("sent", name="orders", span=3 * DAY, step=HOUR)
    await roll_up(broker)
    assert await history.series("sent", name="orders", span=3 * DAY, step=HOUR) == after
    assert [point.value for point in after.points if point.value] == [5, 5, 5]


async def test_several_lines_are_read_at_once(broker, history, place):
    now = place.clock.time()
    await store(broker, place, {("orders", "sent"): 5, ("bills", "sent"): 2}, now - 120)
    found = await history.series_by_name("sent", span=HOUR)
    assert {name: series.total for name, series in found.items()} == {"bills": 2, "orders": 5}
    some = await history.series_by_name("sent", names=["bills", "none"], span=HOUR)
    assert {name: series.total for name, series in some.items()} == {"bills": 2, "none": 0}
    assert (await history.series("sent", span=HOUR)).total == 7


async def test_what_was_counted_lately_is_added_up_by_name(broker, history, place):
    now = place.clock.time()
    for age, n in ((30 * HOUR, 1), (2 * HOUR, 10), (120, 100)):
        await store(broker, place, {("orders", "sent"): n, ("bills", "dead"): n}, now - age)
    assert await history.counted("sent", names=["orders", "bills"]) == {"orders": 110, "bills": 0}
    assert await history.counted("sent", names=["orders"], span=HOUR) == {"orders": 100}


async def test_what_was_counted_lately_is_added_up_by_topic_and_metric(broker, history, place):
    now = place.clock.time()
    for age, n in ((30 * HOUR, 1), (2 * HOUR, 10), (120, 100)):
        await store(broker, place, {("orders", "sent"): n, ("bills", "sent"): n, ("bills", "dead"): n}, now - age)
    asked = [("queue", "sent"), ("queue", "dead"), ("lane", "sent")]
    assert await history.counted_of_all(asked) == {asked[0]: 220, asked[1]: 110, asked[2]: 0}
    assert await history.counted_of_all(asked[:1], span=HOUR) == {asked[0]: 200}


async def test_several_questions_are_answered_as_each_by_itself(broker, history, place):
    """Of different spans and steps, what is counted and what is noted, which has gaps."""
    await broker.send_many("orders", [b"1", b"2"])
    await upkeep(broker, broker)
    place.clock.advance(180)
    await broker.send("orders", b"3")
    await upkeep(broker, broker)
    whole = [
        {"metric": "sent", "span": HOUR},
        {"metric": "ready", "names": ["orders", "none"], "span": 4 * MINUTE},
        {"metric": "ready", "names": ["orders"], "span": 3 * HOUR, "step": HOUR},
        {"metric": "failed", "topic": "lane", "span": HOUR},
    ]
    together = await history.series_of_all([SeriesQuestion(**each) for each in whole])
    assert together == [await history.series_by_name(**each) for each in whole]
    assert [point.value for point in together[1]["orders"].points] == [2, None, None, 3]
    assert together[3] == {}


async def test_a_line_is_the_same_whether_minutes_are_added_up_by_the_store_or_not(broker, history, place):
    now = place.clock.time()
    for age in range(0, 3 * HOUR, 7 * MINUTE):
        await store(broker, place, {("orders", "sent"): age + 1}, now - age)
    (whole,) = (await history.series_by_name("sent", span=3 * HOUR, step=HOUR)).values()
    assert whole == await history.series("sent", name="orders", span=3 * HOUR, step=HOUR)


async def test_the_depth_of_all_queues_is_their_sum_and_the_age_is_that_of_the_oldest(broker, history, place):
    await broker.declare("bills")
    await broker.send("orders", b"1")
    place.clock.advance(10)
    await broker.send_many("bills", [b"2", b"3"])
    await upkeep(broker, broker)
    assert (await history.series("ready", span=MINUTE)).highest == 3
    assert (await history.series("oldest_age", span=MINUTE)).highest == 10


async def test_a_minute_in_which_no_process_ran_is_a_gap(broker, history, place):
    await broker.send("orders", b"1")
    await upkeep(broker, broker)
    place.clock.advance(180)
    await upkeep(broker)
    points = (await history.series("ready", name="orders", span=4 * MINUTE)).points
    assert [point.value for point in points] == [1, None, None, 1]


async def test_rates_are_by_the_minute(broker, history, place):
    place.clock.advance(-place.clock.time() % 60)
    await store(broker, place, {("orders", "sent"): 50}, place.clock.time() - 120)
    (found,) = await history.rates(tallies.QUEUE, span=5 * MINUTE)
    assert (found.name, found.per_minute) == ("orders", {"sent": 10.0})
