# SPDX-License-Identifier: MIT
"""The queues of routes: made before their events come, and removed when nothing is in them."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from redrive.broker import Broker, Cancel, Delivery, QueueInfo, Rule, Send, State
from redrive.errors import LockLost, MessageNotFound, QueueNotFound, SubscriptionNotFound, TopicNotFound
from redrive.routes.plan import queue_options, subscription_of, topic_of, topic_options
from redrive.routes.route import Route

ROUTE_REMOVED: Final = "RouteRemoved"
"""Why a leg is dead whose route was removed before it was delivered."""

_NOTHING: Final = Rule({"id": None})
"""A rule that no message satisfies: each has an id."""

_AT_ONCE: Final = 100


async def subscribe(broker: Broker, route: Route, *, takes_events: bool) -> None:
    """Make sure that a route has its queue.

    Args:
        broker: where.
        route: the route.
        takes_events: whether it gets the events that are stored from now on.
    """
    if route.source.delivery == "direct":
        return
    topic = topic_of(route.application, route.source)
    if route.source.kind != "topic":
        await broker.declare_topic(topic, **topic_options(route.source))
    rule = None if takes_events and route.source.delivery == "durable" else _NOTHING
    await broker.subscribe(topic, subscription_of(route), rule, **queue_options(route))


async def close_queue(broker: Broker, queue: str) -> None:
    """Let a queue that a route had before get no more events."""
    topic, _, name = queue.rpartition("/")
    found = {each.name: each for each in await broker.topics()}
    if topic in found and any(each.name == name for each in found[topic].subscriptions):
        await broker.subscribe(topic, name, _NOTHING)


async def look_at(broker: Broker, queue: str) -> QueueInfo | None:
    """Return what is in a queue; None if there is no such queue."""
    try:
        return await broker.inspect(queue)
    except QueueNotFound:
        return None


async def remove_empty(broker: Broker, queue: str) -> bool:
    """Remove the queue of a route if it gets no events and holds none, not even dead ones; say whether it is gone."""
    found = await look_at(broker, queue)
    if found is None:
        return True
    if found.ready or found.scheduled or found.locked or found.deferred or found.dead:
        return False
    topic, _, name = queue.rpartition("/")
    with suppress(SubscriptionNotFound, TopicNotFound):  # another process has removed it meanwhile
        await broker.unsubscribe(topic, name)
    return True


async def bury_all(broker: Broker, queue: str, *, has_sessions: bool) -> None:
    """Move what waits in a queue to its dead letters; what others have locked, or hold back in a session, stays."""
    await _make_ready(broker, queue)
    while True:
        if has_sessions:
            session = await broker.accept_session(queue)
            if session is None:
                return
            async with session:
                await _bury(await session.receive(max_messages=_AT_ONCE))
        elif deliveries := await broker.receive(queue, max_messages=_AT_ONCE):
            await _bury(deliveries)
        else:
            return


async def _make_ready(broker: Broker, queue: str) -> None:
    """Let legs be received now that wait for their next replay."""
    while scheduled := await broker.peek(queue, max_messages=_AT_ONCE, states=[State.SCHEDULED]):
        for each in scheduled:
            with suppress(MessageNotFound):  # it has become ready meanwhile
                await broker.apply(Cancel(queue, each.sequence), Send(queue, each.message, even_if_seen=True))


async def _bury(deliveries: Sequence[Delivery]) -> None:
    for each in deliveries:
        with suppress(LockLost):  # then another process has it
            await each.dead_letter(ROUTE_REMOVED, "its route was removed before it was delivered")
