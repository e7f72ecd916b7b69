# SPDX-License-Identifier: MIT
"""The routes of a database: every change is checked as a whole, with all others, before anything is stored."""
# ruff: noqa: E501 - one wrong change after the other, so that they can be compared

import asyncio

import pytest

from redrive.errors import InvalidRoute, RouteConflict, RouteNotFound
from redrive.routes import from_queue, from_topic, http, kinds, match, route, to_log, to_queue, to_topic
from redrive.routes.removal import finish_removals
from redrive.routes.route_file import route_from_json
from tests.routes.route_bench import GateReceiver, PickySender, RouteBench, gate, line


@pytest.fixture
async def bench(tmp_path, monkeypatch):
    monkeypatch.setitem(kinds._receivers.added, "gate", GateReceiver)
    monkeypatch.setitem(kinds._senders.added, "picky", PickySender)
    made = RouteBench(tmp_path)
    async with made.broker, made.routes:
        yield made
        await made.stop()


@pytest.fixture
def routes(bench):
    return bench.routes


async def states(routes):
    return {each.route.name: (each.version, each.state) for each in await routes.find()}


async def everything(bench):
    """Return all that a refused change must leave as it is."""
    return (
        await bench.routes.ledger.revision(),
        await bench.routes.ledger.routes(with_removed=True),
        [queue.name for queue in await bench.broker.queues()],
        await bench.broker.topics(),
    )


# --- adding


async def test_a_route_that_is_added_has_its_queue_at_once(bench, routes):
    await routes.add(line("a"))
    info = await routes.show("a")
    assert (info.version, info.state, info.waiting, info.dead) == (1, "running", 0, 0)
    assert info.queue == "routes/default/gate/orders/a"
    assert info.queue in {queue.name for queue in await bench.broker.queues()}
    assert info.guarantee == "at_least_once"
    assert info.route == line("a")


async def test_a_route_that_is_there_cannot_be_added(routes):
    await routes.add(line("a"))
    with pytest.raises(RouteConflict, match="it exists already; update it, or choose another name"):
        await routes.add(line("b"), line("a", gate("others")))
    assert await states(routes) == {"a": (1, "running")}


WRONG = {
    "no queue": ([line("a", sender=to_queue("bik"))], ["there is no queue 'bik'", "did you mean 'big'?", "redrive queues declare bik"]),
    "no queue to read": ([line("a", from_queue("nowhere"))], ["there is no queue 'nowhere'", "redrive queues declare nowhere"]),
    "no topic": ([line("a", from_topic("nowhere"))], ["there is no topic 'nowhere'", "redrive topics declare nowhere"]),
    "a topic as a queue": ([line("a", sender=to_queue("news"))], ["'news' is a topic, not a queue; write kind = 'topic'"]),
    "a queue as a topic": ([line("a", sender=to_topic("big"))], ["'big' is a queue, not a topic; write kind = 'queue'"]),
    "two of one name": ([line("a"), line("a", gate("other"))], ["two routes of this name; rename one"]),
    "one that is good": ([line("a"), line("b", sender=to_queue("nowhere"))], ["there is no queue 'nowhere'"]),
    "two settings for a source": ([line("a", gate("held", max_waiting=5))], ["the same source as route", "max_waiting"]),
    "a circle with one that is there": ([line("a", from_queue("big"), to_queue("small"))], ["make a circle: ", "end one of them elsewhere"]),
    "the source of another application": ([line("a", gate("held"), application="bank")], ["application 'default' reads gate 'held' already"]),
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "words"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("verb", ["add", "apply", "check"])
async def test_what_does_not_fit_is_refused_and_nothing_changes(bench, routes, verb, wrong, words):
    await bench.broker.declare("big")
    await bench.broker.declare("small")
    await bench.broker.declare_topic("news")
    await routes.add(line("there", gate("held")), line("back", from_queue("small"), to_queue("big")))
    before = await everything(bench)
    with pytest.raises(InvalidRoute) as caught:
        await getattr(routes, verb)(*wrong)
    assert [word for word in words if word not in str(caught.value)] == []
    assert caught.value.route in {each.name for each in wrong}  # and not one that is there
    assert await everything(bench) == before


async def test_checking_changes_nothing(bench, routes):
    before = await everything(bench)
    await routes.check(line("a"), line("b"))
    assert await everything(bench) == before


# --- applying


async def test_applying_adds_changes_and_leaves_alone(routes):
    assert await routes.apply(line("a"), line("b")) == ["a is added", "b is added"]
    assert await routes.apply(line("a"), line("b", max_attempts=3)) == ["b is changed"]
    assert await routes.apply(line("a"), line("b", max_attempts=3)) == []
    assert await states(routes) == {"a": (1, "running"), "b": (2, "running")}
    assert [(each.version, each.state) for each in await routes.versions("b")] == [(2, "running"), (1, "running")]


async def test_applying_a_whole_file_drains_what_is_not_in_it_and_no_other_application(routes):
    await routes.apply(line("a"), line("b"), line("c", gate("bank"), application="bank"))
    assert await routes.apply(line("a"), remove_others_of="default") == ["b is drained and removed"]
    assert await states(routes) == {"a": (1, "running"), "b": (1, "draining"), "c": (1, "running")}
    assert await routes.apply(line("a"), remove_others_of="default") in ([], ["b is drained and removed"])


async def test_a_paused_route_stays_paused_when_it_is_changed(routes):
    await routes.apply(line("a"))
    await routes.pause("a", reason="holiday")
    await routes.apply(line("a", max_attempts=3))
    info = await routes.show("a")
    assert (info.version, info.state, info.reason) == (2, "paused", "holiday")


async def test_a_route_that_is_on_its_way_out_comes_back_when_it_is_applied(routes):
    await routes.apply(line("a"))
    await routes.drain("a", within=60)
    assert await routes.apply(line("a")) == ["a is changed"]
    assert await states(routes) == {"a": (2, "running")}
    assert (await routes.ledger.routes())[0].until is None


async def test_the_source_of_a_route_that_is_drained_is_free(routes):
    await routes.apply(line("a", gate("held")))
    await routes.drain("a")
    await routes.apply(line("b", gate("held"), application="bank"))


async def test_a_changed_source_keeps_the_queue_of_the_old_one(routes):
    await routes.apply(line("a", gate("one")))
    await routes.apply(line("a", gate("two")))
    assert (await routes.ledger.routes())[0].earlier_queues == ("routes/default/gate/one/a",)
    await routes.apply(line("a", gate("one")))  # and back
    assert (await routes.ledger.routes())[0].earlier_queues == ("routes/default/gate/two/a",)


@pytest.mark.parametrize("change", [{"source": gate("one", delivery="direct")}, {"ordering": "strict"}])
async def test_whatever_gives_a_route_another_queue_keeps_the_old_one(routes, change):
    await routes.apply(line("a", gate("one")))
    await routes.apply(line("a", **{"source": gate("one")} | change))
    assert (await routes.ledger.routes())[0].earlier_queues == ("routes/default/gate/one/a",)
    await routes.apply(line("a", gate("one")))
    assert "routes/default/gate/one/a" not in (await routes.ledger.routes())[0].earlier_queues


# --- states


async def test_pausing_resuming_draining_and_removing(routes):
    await routes.apply(line("a"))
    for verb, state in (
        ("pause", "paused"),
        ("pause", "paused"),
        ("resume", "running"),
        ("resume", "running"),
        ("drain", "draining"),
        ("resume", "running"),
        ("pause", "paused"),
        ("drain", "draining"),
        ("remove", "cancelling"),
        ("remove", "cancelling"),
    ):
        await getattr(routes, verb)("a")
        assert await states(routes) == {"a": (1, state)}, verb
    for verb in ("pause", "resume", "drain"):
        with pytest.raises(RouteConflict, match="it is cancelling; that needs a route that is"):
            await getattr(routes, verb)("a")


async def test_a_route_that_is_drained_cannot_be_paused(routes):
    await routes.apply(line("a"))
    await routes.drain("a")
    with pytest.raises(RouteConflict, match="it is draining"):
        await routes.pause("a")


@pytest.mark.parametrize("verb", ["show", "versions", "pause", "resume", "drain", "remove", "replay"])
async def test_an_unknown_route_is_refused_with_the_one_that_was_meant(routes, verb):
    await routes.apply(line("big-orders"))
    with pytest.raises(RouteNotFound, match="did you mean 'big-orders'"):
        await getattr(routes, verb)("big-order")
    with pytest.raises(RouteNotFound, match="application 'bank' has no route 'big-orders'"):
        await getattr(routes, verb)("big-orders", "bank")


async def test_one_application_is_shown_by_itself(routes):
    await routes.apply(line("a"), line("a", gate("bank"), application="bank"))
    assert [each.route.application for each in await routes.find()] == ["bank", "default"]
    assert [each.route.application for each in await routes.find("bank")] == ["bank"]


async def test_changes_at_the_same_time_are_all_made(routes):
    await asyncio.gather(*(routes.add(line(f"r{number}", gate(f"g{number}"))) for number in range(4)))
    assert sorted(await states(routes)) == ["r0", "r1", "r2", "r3"]


async def test_of_two_that_do_not_fit_together_one_is_refused(bench, routes):
    await bench.broker.declare("x")
    await bench.broker.declare("y")
    results = await asyncio.gather(
        routes.add(line("a", from_queue("x"), to_queue("y"))),
        routes.add(line("b", from_queue("y"), to_queue("x"))),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in results) == ["InvalidRoute", "NoneType"]
    assert len(await states(routes)) == 1


# --- the end of queues and routes


async def finish(routes, stale):
    await finish_removals(routes, {(stale.application, stale.name): (stale, route_from_json(stale.definition))})


async def test_who_looks_late_does_not_undo_that_a_route_is_drained(routes):
    await routes.apply(line("a", gate("one")))
    await routes.apply(line("a", gate("two")))
    (stale,) = await routes.ledger.routes()
    await routes.drain("a")
    await finish(routes, stale)
    assert await states(routes) == {"a": (2, "draining")}


async def test_who_looks_late_does_not_remove_a_route_that_was_resumed(routes):
    await routes.apply(line("a"))
    await routes.drain("a")
    (stale,) = await routes.ledger.routes()
    await routes.resume("a")
    await finish(routes, stale)
    assert await states(routes) == {"a": (1, "running")}


# --- dead letters and trials


async def test_a_route_whose_legs_are_not_stored_has_no_dead_letters(routes):
    await routes.apply(line("a", gate(delivery="direct")), line("b", gate("held")))
    info = await routes.show("a")
    assert (info.queue, info.guarantee) == (None, "best_effort")
    with pytest.raises(RouteConflict, match="stores nothing that could be replayed"):
        await routes.replay("a")
    assert (await routes.show("b")).queue == "routes/default/gate/held/b"


async def test_a_trial_changes_nothing(bench, routes):
    await bench.broker.declare("big")
    await routes.apply(route("a", source=http("/x")) | match("body.n > 1") >> to_queue("big"))
    before = await everything(bench)
    steps = await routes.test("a", {"n": 2})
    assert [(each.step, each.outcome) for each in steps] == [
        ("filter 1 (match)", "passed"),
        ("sender (queue)", "would send test:a"),
    ]
    assert await everything(bench) == before
    assert (await bench.broker.inspect("big")).ready == 0


async def test_a_route_to_a_log_needs_no_queue(routes):
    await routes.apply(line("a", sender=to_log()))
