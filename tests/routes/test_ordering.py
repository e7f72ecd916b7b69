# SPDX-License-Identifier: MIT
"""Order on a route: none, by a key, or strict; and what it is during an outage."""

import asyncio

import pytest

from redrive.broker import Message
from redrive.errors import ReceiverFull
from redrive.routes import DestinationDown, Rejected, TryLater, kinds
from redrive.routes.senders.debug import DebugSender
from tests.patience import PATIENCE_S
from tests.routes.route_bench import GateReceiver, RouteBench, gate, got, line

QUICK = {"quiet_retries": 0, "min_delay": 0.5, "max_delay": 1.0, "probe_after": 1.0, "max_attempts": 8}
STEP_S = 0.1
"""Short: whatever runs meanwhile must not think that its time is over."""


@pytest.fixture
async def bench(tmp_path, monkeypatch):
    monkeypatch.setitem(kinds._receivers.added, "gate", GateReceiver)
    made = RouteBench(tmp_path)
    async with made.broker, made.routes:
        yield made
        await made.stop()


async def put(bench, name, *events):
    """Put events of customers into a source: ``a1`` is the first of customer a."""
    await bench.until(lambda: name in GateReceiver.intakes)
    for event in events:
        await GateReceiver.intakes[name].accept(Message(b'{"customer": "%s"}' % event[:1].encode(), id=event))


def of(customer, events):
    return [event for event in events if event.startswith(customer)]


async def test_events_with_one_key_keep_their_order_through_failures_and_an_outage(bench):
    ordered = line("ordered", gate(order_key="body.customer"), ordering="key", **QUICK)
    await bench.apply(ordered)
    events = [f"{customer}{number}" for number in range(1, 6) for customer in "abc"]
    down = [DestinationDown("connection refused")] * 12  # longer than all attempts of one event
    DebugSender.script("ordered", [TryLater("busy"), *down, TryLater("busy")])
    await put(bench, "orders", *events)
    await bench.until(lambda: len(got("ordered")) == len(events), step=STEP_S)
    for customer in "abc":
        assert of(customer, got("ordered")) == of(customer, events)
    await bench.settled("ordered")
    assert (await bench.routes.show("ordered")).dead == 0


async def test_a_failing_key_does_not_hold_up_the_others(bench):
    ordered = line("ordered", gate(order_key="body.customer"), ordering="key", concurrency=1, **QUICK)
    await bench.apply(ordered)
    DebugSender.script("ordered", [TryLater("busy")])
    await put(bench, "orders", "a1", "a2", "b1")
    await bench.until(lambda: got("ordered") == ["b1"])
    await bench.until(lambda: len(got("ordered")) == 3, step=STEP_S)
    assert got("ordered") == ["b1", "a1", "a2"]


async def test_a_strict_route_delivers_everything_in_the_order_of_its_receiver(bench):
    await bench.apply(line("strict", ordering="strict", concurrency=8, **QUICK))
    DebugSender.script("strict", [TryLater("busy")] * 3)
    events = [f"{customer}{number}" for number in range(1, 6) for customer in "abc"]
    await put(bench, "orders", *events)
    await bench.until(lambda: len(got("strict")) == len(events), step=STEP_S)
    assert got("strict") == events


async def test_a_dead_leg_of_an_ordered_route_lets_the_next_one_pass(bench):
    await bench.apply(line("strict", ordering="strict"))
    DebugSender.script("strict", [Rejected("no such customer")])
    await put(bench, "orders", "a1", "a2")
    await bench.until(lambda: got("strict") == ["a2"])
    assert await bench.dead((await bench.routes.show("strict")).queue) == ["a1"]


async def test_an_event_without_a_key_is_a_dead_letter_of_the_ordered_route_alone(bench):
    source = gate(order_key="body.customer")
    await bench.apply(line("ordered", source, ordering="key"), line("free", source))
    await bench.until(lambda: "orders" in GateReceiver.intakes)
    await GateReceiver.intakes["orders"].accept(Message(b"{}", id="nameless"))
    await bench.delivered("free", ["nameless"])
    assert await bench.dead((await bench.routes.show("ordered")).queue) == ["nameless"]


async def test_a_receiver_takes_no_more_events_than_may_wait(bench):
    await bench.apply(line("slow", gate(max_waiting=2)))
    await bench.routes.pause("slow")
    await bench.follow()
    await put(bench, "orders", "a1", "a2")
    bench.clock.advance(1)
    with pytest.raises(ReceiverFull, match="2 events"):
        await put(bench, "orders", "a3")
    await bench.routes.resume("slow")
    await bench.follow()
    await bench.delivered("slow", ["a1", "a2"])
    await bench.settled("slow")
    bench.clock.advance(1)
    await put(bench, "orders", "a3")
    await bench.delivered("slow", ["a1", "a2", "a3"])


async def test_direct_delivery_takes_no_more_than_it_can_carry(bench):
    held = asyncio.Event()
    DebugSender.reset("direct")
    route = line("direct", gate(delivery="direct"), concurrency=2)
    await bench.apply(route)
    runner = bench.runner._runners.by_name["default", "direct"]
    send = runner._sender.send

    async def wait_and_send(message, key):
        await held.wait()
        return await send(message, key)

    runner._sender.send = wait_and_send
    await put(bench, "orders", "a1", "a2")
    with pytest.raises(ReceiverFull, match="2 events"):
        await put(bench, "orders", "a3")
    held.set()
    async with asyncio.timeout(PATIENCE_S):
        await bench.delivered("direct", ["a1", "a2"])
