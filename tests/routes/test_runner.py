# SPDX-License-Identifier: MIT
"""Routes that run, and are changed while they do."""

import asyncio
import json
import random

import pytest

from redrive.broker import Message, Send
from redrive.errors import Unavailable
from redrive.parts import only_folders, only_variables
from redrive.routes import (
    Delivered,
    DestinationChanged,
    DestinationDown,
    EventTaken,
    LegDelivered,
    LegFailed,
    ReceiverBroken,
    Rejected,
    RouteBroken,
    RouteChanged,
    RouteRunner,
    TryLater,
    from_queue,
    from_redis,
    from_topic,
    kinds,
    match,
    route,
    split,
    to_debug,
    to_file,
    to_queue,
    webhook,
)
from redrive.routes.receivers.source_events import SourceLost
from redrive.routes.senders.debug import DebugSender
from tests.routes.route_bench import GateReceiver, PickySender, RouteBench, gate, got, line


@pytest.fixture
async def bench(tmp_path, monkeypatch):
    monkeypatch.setitem(kinds._receivers.added, "gate", GateReceiver)
    monkeypatch.setitem(kinds._senders.added, "picky", PickySender)
    made = RouteBench(tmp_path)
    async with made.broker, made.routes:
        yield made
        await made.stop()


def picky(name, **settings):
    return line(name, sender=PickySender(name), **settings)


async def counts(bench, name, *, waiting, dead):
    info = await bench.routes.show(name)
    return (info.waiting, info.dead) == (waiting, dead)


QUEUE = "routes/default/gate/orders/{}".format


# --- delivering


async def test_each_route_gets_each_event_once(bench):
    await bench.apply(line("a"), line("b"))
    await bench.put("orders", "1", "2")
    await bench.delivered("a", ["1", "2"])
    await bench.delivered("b", ["1", "2"])
    assert {each.state for each in bench.reported(RouteChanged)} == {"running"}
    assert [(each.outcome, each.receiver) for each in bench.reported(EventTaken)] == [("acked", "gate orders")] * 2


async def test_an_event_that_comes_again_is_one_event(bench):
    await bench.apply(line("a"))
    await bench.put("orders", "1", "1", "2")
    await bench.delivered("a", ["1", "2"])


async def test_a_failing_route_touches_no_other(bench):
    await bench.apply(line("a", quiet_retries=0, max_attempts=2), line("b"))
    DebugSender.script("a", [TryLater("busy"), Rejected("no")])
    await bench.put("orders", "1", "2", "3")
    await bench.delivered("b", ["1", "2", "3"])
    await bench.until(lambda: len(DebugSender.attempts("a")) == 4, step=0.5)
    await bench.until(lambda: len(got("a")) == 2)
    await bench.until(lambda: counts(bench, "a", waiting=0, dead=1))
    assert len(bench.reported(LegDelivered)) == 5


async def test_a_replay_tries_dead_legs_again_on_their_route_alone(bench):
    await bench.apply(line("a"), line("b"))
    DebugSender.script("a", [Rejected("no")])
    await bench.put("orders", "1")
    await bench.delivered("b", ["1"])
    await bench.until(lambda: len(bench.reported(LegFailed)) == 1)

    async def replayed():
        return await bench.routes.replay("a") == 1

    await bench.until(replayed)
    await bench.delivered("a", ["1"])
    assert got("b") == ["1"]


async def test_only_missing_parts_of_a_split_event_are_sent_again(bench):
    DebugSender.reset("a")
    await bench.apply(route("a", source=gate(), quiet_retries=0) | split("body") >> to_debug("a"))
    DebugSender.script("a", [Delivered(), TryLater("busy")])
    await bench.put("orders", "1", body=b"[1, 2, 3]")
    await bench.until(lambda: len(DebugSender.delivered("a")) == 3, step=0.5)
    assert [each.key for each in DebugSender.attempts("a")] == ["1:a:0", "1:a:1", "1:a:1", "1:a:2"]


async def test_an_outage_kills_no_event(bench):
    await bench.apply(line("a", quiet_retries=0, max_attempts=2, breaker_failures=2, probe_after=5))
    DebugSender.script("a", [DestinationDown("gone")] * 8)
    await bench.put("orders", "1", "2", "3")
    await bench.until(lambda: len(got("a")) == 3, step=1.0)
    assert sorted(got("a")) == ["1", "2", "3"]
    assert (await bench.routes.show("a")).dead == 0
    assert [each.is_down for each in bench.reported(DestinationChanged)] == [True, False]


async def test_what_goes_to_a_queue_is_sent_once_with_its_delay(bench):
    await bench.broker.declare("big")
    await bench.apply(line("a", sender=to_queue("big")), line("b", sender=to_queue("big", delay=60)))
    await bench.put("orders", "1")

    async def sent():
        info = await bench.broker.inspect("big")
        return (info.ready, info.scheduled) == (1, 1)

    await bench.until(sent)
    assert sorted(each.message.id for each in await bench.broker.peek("big")) == ["1:a", "1:b"]


async def test_an_event_that_its_queue_never_takes_is_dead(bench):
    await bench.broker.declare("small", max_message_bytes=20)
    await bench.apply(line("a", sender=to_queue("small"), max_attempts=3, max_delay=1))
    await bench.put("orders", "1", body=b"x" * 100)
    await bench.until(lambda: counts(bench, "a", waiting=0, dead=1), step=1.0)
    await bench.put("orders", "2", body=b"x")

    async def is_sent():
        return (await bench.broker.inspect("small")).ready == 1

    await bench.until(is_sent, step=1.0)


async def test_events_come_out_of_a_queue_and_a_topic(bench):
    await bench.broker.declare("in")
    await bench.broker.declare_topic("news")
    await bench.apply(line("a", from_queue("in")), line("b", from_topic("news")))
    await bench.broker.send("in", Message(b"{}", id="1"))
    await bench.broker.apply(Send("news", Message(b"{}", id="2")))
    await bench.delivered("a", ["1"])
    await bench.delivered("b", ["2"])
    assert (await bench.broker.inspect("in")).ready == 0


# --- changing


async def test_a_route_gets_what_comes_after_it_was_added(bench):
    await bench.apply(line("a"))
    await bench.put("orders", "1")
    await bench.routes.add(line("b"))  # the process need not know yet
    await bench.put("orders", "2")
    await bench.follow()
    await bench.delivered("a", ["1", "2"])
    await bench.delivered("b", ["2"])


async def test_a_route_that_is_paused_keeps_its_events(bench):
    await bench.apply(line("a"), line("b"))
    await bench.routes.pause("a", reason="holiday")
    await bench.follow()
    await bench.put("orders", "1", "2")
    await bench.delivered("b", ["1", "2"])
    info = await bench.routes.show("a")
    assert (info.state, info.reason, info.waiting, got("a")) == ("paused", "holiday", 2, [])
    await bench.routes.resume("a")
    await bench.follow()
    await bench.delivered("a", ["1", "2"])


async def test_a_route_that_is_drained_delivers_what_it_has_and_is_gone(bench):
    PickySender.gates["a"] = asyncio.Event()
    await bench.apply(picky("a"), line("b"))
    await bench.put("orders", "1", "2")
    await bench.routes.drain("a")
    await bench.put("orders", "3")
    await bench.follow()
    assert (await bench.routes.show("a")).state == "draining"
    PickySender.gates["a"].set()
    await bench.gone("a")
    await bench.follow()
    assert sorted(got("a")) == ["1", "2"]
    assert PickySender.closed == ["a"]
    await bench.delivered("b", ["1", "2", "3"])
    assert QUEUE("a") not in {queue.name for queue in await bench.broker.queues()}
    assert [each.state for each in await bench.routes.versions("a")] == ["removed", "draining", "running"]


async def test_what_is_not_drained_in_time_becomes_dead_letters(bench):
    await bench.apply(line("a"), line("b"))
    await bench.routes.pause("a")
    await bench.follow()
    await bench.put("orders", "1", "2")
    DebugSender.script("a", [DestinationDown("gone")] * 50)
    await bench.routes.drain("a", within=60)
    await bench.follow()
    await bench.gone("a", step=10.0)  # a leg that waits for its next attempt is dead when that would begin
    assert await bench.dead(QUEUE("a")) == ["1", "2"]
    assert got("a") == []


async def test_what_waits_on_a_removed_route_becomes_dead_letters_that_can_be_found(bench):
    await bench.apply(line("a"), line("b"))
    await bench.routes.pause("a")
    await bench.follow()
    await bench.put("orders", "1", "2", "3")
    await bench.routes.remove("a")
    await bench.put("orders", "4")
    await bench.gone("a")
    assert await bench.dead(QUEUE("a")) == ["1", "2", "3"]
    assert {each.dead_letter_info.reason for each in await bench.broker.peek(f"{QUEUE('a')}/$dead")} == {"RouteRemoved"}
    await bench.delivered("b", ["1", "2", "3", "4"])
    assert got("a") == []


async def test_what_waits_for_a_replay_does_not_hold_up_the_removal_of_its_route(bench):
    await bench.apply(line("a", quiet_retries=0), line("b"))
    DebugSender.script("a", [TryLater("busy", after=600.0)] * 2)
    await bench.put("orders", "1", "2")
    await bench.delivered("b", ["1", "2"])
    await bench.until(lambda: len(DebugSender.attempts("a")) == 2)
    await bench.routes.remove("a")
    await bench.gone("a")  # no time passes
    assert await bench.dead(QUEUE("a")) == ["1", "2"]


async def test_a_removed_route_finishes_what_it_is_delivering(bench):
    PickySender.gates["a"] = asyncio.Event()
    await bench.apply(picky("a", concurrency=1))
    await bench.put("orders", "1", "2")
    await bench.until(lambda: PickySender.begun)
    await bench.routes.remove("a")
    following = asyncio.create_task(bench.follow())
    await bench.breathe(10)
    PickySender.gates["a"].set()
    await following
    await bench.gone("a")
    assert "1" in got("a")
    assert sorted([*got("a"), *await dead_of(bench, "a")]) == ["1", "2"]


@pytest.mark.parametrize("ordering", ["strict", "key"])
async def test_an_ordered_route_keeps_order_and_can_be_removed(bench, ordering):
    source = gate(order_key="body.k") if ordering == "key" else gate()
    await bench.apply(line("a", source, ordering=ordering))
    ids = [str(number) for number in range(10, 20)]
    await bench.put("orders", *ids, body=b'{"k": "x"}')
    await bench.until(lambda: len(got("a")) == 10)
    assert got("a") == ids
    await bench.routes.pause("a")
    await bench.follow()
    await bench.put("orders", "20", "21", body=b'{"k": "x"}')
    await bench.routes.remove("a")
    await bench.gone("a")
    assert await bench.dead(QUEUE("a.ordered")) == ["20", "21"]


async def test_an_ordered_route_that_must_halt_is_paused_when_a_leg_dies(bench):
    await bench.apply(line("a", ordering="strict", on_dead="halt"))
    DebugSender.script("a", [Delivered(), Rejected("no such order")])
    await bench.put("orders", "1", "2", "3")

    async def is_paused():
        return (await bench.routes.show("a")).state == "paused"

    await bench.until(is_paused)
    assert (await bench.routes.show("a")).reason == "a leg is dead: no such order"
    await bench.routes.resume("a")
    await bench.follow()
    await bench.until(lambda: "3" in got("a"))
    assert await bench.dead(QUEUE("a.ordered")) == ["2"]


async def test_a_process_that_stops_while_a_leg_dies_does_not_begin_again(bench):
    await bench.apply(picky("a", ordering="strict", on_dead="halt"))
    PickySender.gates["a"] = asyncio.Event()
    DebugSender.script("a", [Rejected("no")])
    await bench.put("orders", "1", "2")
    await bench.breathe(20)
    stopping = asyncio.create_task(bench.stop())
    await bench.breathe(5)
    PickySender.gates["a"].set()
    await stopping
    assert bench.runner._running == {}
    assert bench.runner._receivers == {}


async def test_what_it_runs_until_may_fail_and_its_error_is_not_lost(bench):
    async def fail():
        raise LookupError("the source is gone")

    await bench.routes.apply(line("a"))
    runner = RouteRunner(bench.routes, listen="127.0.0.1:0")
    with pytest.raises(LookupError, match="gone"):
        await runner.run(until=fail())


# --- versions


async def test_a_replay_uses_the_new_version(bench):
    await bench.apply(line("a", quiet_retries=0))
    DebugSender.script("a", [TryLater("busy")])
    await bench.put("orders", "1")
    await bench.until(lambda: len(bench.reported(LegFailed)) == 1)
    DebugSender.reset("other")
    await bench.apply(line("a", sender=to_debug("other")))
    await bench.until(lambda: got("other") == ["1"], step=0.5)


async def test_a_new_version_heals_events_that_the_old_one_failed(bench):
    DebugSender.reset("a")
    await bench.apply(route("a", source=gate()) | match("body.wrong > 1") >> to_debug("a"))
    await bench.put("orders", "1", body=b'{"total": 5}')
    await bench.until(lambda: counts(bench, "a", waiting=0, dead=1))
    await bench.apply(route("a", source=gate()) | match("body.total > 1") >> to_debug("a"))
    await bench.routes.replay("a")
    await bench.delivered("a", ["1"])


@pytest.mark.parametrize("error", [OSError("no such device"), RuntimeError("odd"), ImportError("acme")])
async def test_a_new_version_that_cannot_begin_leaves_the_old_one_running(bench, error):
    await bench.apply(line("a"), line("b"))
    PickySender.refusals["new"] = error
    DebugSender.reset("new")
    await bench.apply(line("a", sender=PickySender("new")))
    await bench.put("orders", "1")
    await bench.delivered("a", ["1"])
    await bench.delivered("b", ["1"])
    for _ in range(3):
        await bench.follow()
    (broken,) = bench.reported(RouteBroken)
    assert (broken.route, broken.version) == ("a", 2)
    assert str(error) in broken.problem
    PickySender.refusals.clear()
    await bench.follow()
    await bench.put("orders", "2")
    await bench.until(lambda: got("new") == ["2"])


async def test_a_new_version_for_another_source_that_cannot_begin_leaves_the_old_source_open(bench):
    await bench.apply(line("a"))
    PickySender.refusals["new"] = RuntimeError("odd")
    DebugSender.reset("new")
    await bench.apply(line("a", gate("others"), sender=PickySender("new")))
    assert bench.reported(RouteBroken)[-1].version == 2
    await bench.put("orders", "1")
    await bench.delivered("a", ["1"])
    PickySender.refusals.clear()
    await bench.follow()
    await bench.put("others", "2")
    await bench.until(lambda: got("new") == ["2"])
    await bench.until(lambda: "orders" not in GateReceiver.intakes)


async def test_a_stored_route_to_a_file_that_this_process_may_not_write_does_not_run(bench, tmp_path):
    with only_folders([str(tmp_path / "out")]):
        await bench.apply(line("a", sender=to_file(str(tmp_path / "other.jsonl"))), line("b"))
        assert "folders in redrive.toml" in bench.reported(RouteBroken)[-1].problem
        await bench.put("orders", "1")
        await bench.delivered("b", ["1"])
    assert not (tmp_path / "other.jsonl").exists()


async def test_a_stored_route_reads_no_variable_that_this_process_may_not_read_except_as_its_file_says(
    bench, monkeypatch
):
    monkeypatch.setenv("TOKEN", "geheim")
    own = line("own", sender=webhook("https://partner.example/hook", headers={"x": "env:TOKEN"}))
    other = line("other", sender=webhook("https://evil.example/hook", headers={"x": "env:TOKEN"}))
    with only_variables([]):
        bench.start(own=[own])
        await bench.apply(own, other, line("b"))
        assert [(each.route, "variables in redrive.toml" in each.problem) for each in bench.reported(RouteBroken)] == [
            ("other", True)
        ]
        changed = line("own", sender=webhook("https://evil.example/hook", headers={"x": "env:TOKEN"}))
        await bench.apply(changed)
        assert bench.reported(RouteBroken)[-1].route == "own"
        await bench.put("orders", "1")
        await bench.delivered("b", ["1"])
    with only_variables(["TOK*"]):
        await bench.follow()
        assert bench.runner._broken == {}


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_stored_receiver_reads_no_variable_that_this_process_may_not_read(bench, monkeypatch, is_own):
    monkeypatch.setenv("STREAMS", "redis://127.0.0.1:1/0")
    own = line("own", from_redis(url="env:STREAMS", stream="orders"))
    with only_variables([]):
        bench.start(own=[own] if is_own else [])
        await bench.apply(own)
        await bench.until(lambda: bench.reported(ReceiverBroken) or bench.reported(SourceLost))
    problem = bench.reported(SourceLost if is_own else ReceiverBroken)[0].problem
    assert ("variables in redrive.toml" in problem) is not is_own


async def test_a_route_that_cannot_begin_is_no_trouble_for_others_and_can_be_removed(bench):
    PickySender.refusals["a"] = RuntimeError("odd")
    await bench.apply(picky("a"), line("b"))
    await bench.put("orders", "1")
    await bench.delivered("b", ["1"])
    assert (await bench.routes.show("a")).waiting == 1
    await bench.routes.remove("a")
    await bench.gone("a")
    assert await bench.dead(QUEUE("a")) == ["1"]
    await bench.follow()
    assert bench.runner._broken == {}


async def test_a_kind_that_this_process_does_not_know_is_reported_once(bench, monkeypatch):
    await bench.apply(picky("a"), line("b"))
    await bench.stop()
    monkeypatch.delitem(kinds._senders.added, "picky")
    bench.start()
    await bench.follow()
    await bench.follow()
    await bench.put("orders", "1")
    await bench.delivered("b", ["1"])
    assert len(bench.broken) == 1
    assert "is no kind of senders" in bench.broken[0]


async def test_a_changed_source_drains_the_old_queue_with_the_new_version(bench):
    await bench.apply(line("a"), line("b"))
    await bench.routes.pause("a")
    await bench.follow()
    await bench.put("orders", "1", "2")
    await bench.apply(line("a", gate("others")))
    await bench.put("orders", "3")
    await bench.put("others", "4")
    assert (await bench.routes.show("a")).waiting == 3
    await bench.routes.resume("a")
    await bench.follow()
    await bench.delivered("a", ["1", "2", "4"])

    async def is_forgotten():
        await bench.follow()
        return not [each for each in await bench.routes.ledger.routes() if each.earlier_queues]

    await bench.until(is_forgotten)
    assert QUEUE("a") not in {queue.name for queue in await bench.broker.queues()}
    revision = (await bench.routes.ledger.revision()).number
    for _ in range(3):
        await bench.follow()
    await bench.put("others", "5")
    await bench.delivered("a", ["1", "2", "4", "5"])
    assert (await bench.routes.ledger.revision()).number == revision
    assert bench.broken == []  # the worker of the old queue has ended, and nobody misses it


async def test_what_is_stored_is_delivered_when_nothing_is_stored_any_more(bench):
    await bench.apply(line("a"), line("b", gate("others")))
    await bench.routes.pause("a")
    await bench.follow()
    await bench.put("orders", "1")
    await bench.apply(line("a", gate(delivery="direct")))
    assert (await bench.routes.show("a")).waiting == 1
    await bench.routes.resume("a")
    await bench.follow()
    await bench.delivered("a", ["1"])
    await bench.put("orders", "2")
    await bench.delivered("a", ["1", "2"])


async def test_dead_letters_of_an_earlier_queue_can_be_replayed(bench):
    await bench.apply(line("a"))
    DebugSender.script("a", [Rejected("no")])
    await bench.put("orders", "1")
    await bench.until(lambda: counts(bench, "a", waiting=0, dead=1))
    await bench.apply(line("a", gate("others")))
    assert (await bench.routes.show("a")).dead == 1
    assert await bench.routes.replay("a") == 1
    await bench.delivered("a", ["1"])


# --- applications


async def test_applications_never_see_each_others_events(bench):
    await bench.apply(
        line("a", gate("shop"), to_debug("shop-a"), application="shop"),
        line("a", gate("bank"), to_debug("bank-a"), application="bank"),
    )
    for name in ("shop-a", "bank-a"):
        DebugSender.reset(name)
    await bench.put("shop", "1")
    await bench.put("bank", "2")
    await bench.delivered("shop-a", ["1"])
    await bench.delivered("bank-a", ["2"])
    await bench.routes.remove("a", "shop")
    await bench.gone("a", "shop")
    await bench.put("bank", "3")
    await bench.delivered("bank-a", ["2", "3"])
    assert got("shop-a") == ["1"]


async def test_a_breaker_of_one_application_is_no_matter_for_another(bench):
    settings = {"quiet_retries": 0, "breaker_failures": 1}
    await bench.apply(
        line("a", gate("shop"), to_debug("same"), application="shop", **settings),
        line("a", gate("bank"), to_debug("same"), application="bank", **settings),
    )
    DebugSender.reset("same")
    DebugSender.script("same", [DestinationDown("gone")])
    await bench.put("shop", "1")
    await bench.until(lambda: len(bench.reported(LegFailed)) == 1)
    await bench.put("bank", "2")
    await bench.delivered("same", ["2"])


# --- trouble


async def test_a_queue_that_is_deleted_behind_its_back_is_made_again(bench):
    await bench.apply(line("a"), line("b"))
    await bench.put("orders", "1")
    await bench.delivered("a", ["1"])
    await bench.broker.unsubscribe("routes/default/gate/orders", "a")

    async def is_back():
        bench.clock.advance(1.0)
        await bench.follow()
        return QUEUE("a") in {queue.name for queue in await bench.broker.queues()}

    await bench.until(is_back)
    await bench.put("orders", "2")
    await bench.delivered("a", ["1", "2"], step=0.2)
    await bench.delivered("b", ["1", "2"])
    assert any("QueueNotFound" in problem for problem in bench.broken)


async def test_looking_twice_at_the_same_time_starts_nothing_twice(bench):
    bench.start()
    await bench.routes.apply(line("a"), picky("b"))
    await asyncio.gather(*(bench.runner.reload() for _ in range(5)))
    assert len([each for each in bench.reported(RouteChanged) if each.state == "running"]) == 2
    await bench.stop()
    assert PickySender.closed == ["b"]


async def test_a_linked_event_is_kept_while_a_route_of_it_does_not_run(bench):
    PickySender.refusals["a"] = RuntimeError("odd")
    await bench.apply(line("a", gate(delivery="linked"), PickySender("a")), line("b", gate(delivery="linked")))
    with pytest.raises(Unavailable):
        await bench.put("orders", "1")
    PickySender.refusals.clear()
    await bench.follow()
    await bench.put("orders", "1")
    assert "1" in got("a")
    assert "1" in got("b")


async def test_what_is_stopped_goes_on_where_it_was(bench):
    PickySender.gates["a"] = asyncio.Event()
    await bench.apply(picky("a", concurrency=1))
    await bench.put("orders", "1", "2")
    PickySender.gates.pop("a").set()
    await bench.stop()
    bench.start()
    await bench.follow()
    await bench.until(lambda: {"1", "2"} <= set(got("a")))


async def test_following_a_route_shows_every_step(bench):
    await bench.apply(line("a"))
    tap = aiter(bench.routes.tap("a"))
    first = asyncio.create_task(anext(tap))

    async def is_followed():
        return len((await bench.routes.ledger.revision()).taps) == 1

    await bench.until(is_followed)
    await bench.follow()
    await bench.put("orders", "1", body=b'{"n": 1}')
    await bench.until(first.done, step=0.5)
    seen = json.loads(json.dumps(first.result()))
    assert seen["event"] == "1"
    assert [(step["step"], step["outcome"]) for step in seen["steps"]] == [("sender (debug)", "delivered")]
    await tap.aclose()
    assert (await bench.routes.ledger.revision()).taps == ()


# --- everything at once (S7 to S9)


class Traffic:
    """Events and changes of routes in random order, and what must come of them."""

    CHANGES = {  # noqa: RUF012 - it is only read
        "none": ["add"],
        "running": ["pause", "update", "drain", "remove"],
        "paused": ["resume", "update", "remove"],
        "out": ["forget"],
    }
    BECOMES = {  # noqa: RUF012 - as above
        "add": "running",
        "resume": "running",
        "pause": "paused",
        "drain": "out",
        "remove": "out",
        "forget": "none",
    }

    def __init__(self, bench, seed):
        self.bench = bench
        self.chance = random.Random(seed)
        self.state = {f"s{seed}-{number}": "none" for number in range(3)} | {f"base{seed}": "base"}
        self.expected = {name: [] for name in self.state}
        for name in self.state:
            DebugSender.reset(name)

    async def play(self, steps):
        await self.bench.apply(*(self.version(name) for name, state in self.state.items() if state == "base"))
        for number in range(steps):
            if self.chance.random() < 0.5:
                await self.put(f"{number:02}")
            else:
                await self.change(self.chance.choice([name for name in self.state if self.state[name] != "base"]))
            if self.chance.random() < 0.5:
                await self.bench.follow()

    async def put(self, event):
        await self.bench.put("orders", event)
        for name, state in self.state.items():
            if state in ("base", "running", "paused"):
                self.expected[name].append(event)

    async def change(self, name):
        verb = self.chance.choice(self.CHANGES[self.state[name]])
        if verb == "forget":
            await self.bench.gone(name)
        elif verb in ("add", "update"):
            await self.bench.routes.apply(self.version(name))
        else:
            await getattr(self.bench.routes, verb)(name)
        self.state[name] = self.BECOMES.get(verb, self.state[name])

    def version(self, name):
        return route(name, source=gate(), max_attempts=self.chance.randint(2, 999)) >> to_debug(name)

    async def finish(self):
        """Deliver what can be delivered."""
        for name, state in self.state.items():
            if state == "paused":
                await self.bench.routes.resume(name)
            elif state == "out":
                await self.bench.gone(name)
        await self.bench.follow()


@pytest.mark.parametrize("seed", range(4))
async def test_each_event_is_settled_for_exactly_the_routes_that_were_there_when_it_came(bench, seed):
    traffic = Traffic(bench, seed)
    await traffic.play(steps=40)
    await traffic.finish()
    for name, events in traffic.expected.items():
        dead = await dead_of(bench, name)
        await bench.until(lambda name=name, events=events, dead=dead: len(got(name)) + len(dead) >= len(events))
        assert sorted([*got(name), *dead]) == events, name


async def dead_of(bench, name):
    there = {queue.name for queue in await bench.broker.queues()}
    return await bench.dead(QUEUE(name)) if QUEUE(name) in there else []
