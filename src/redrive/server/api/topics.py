# SPDX-License-Identifier: MIT
"""``/topics``: list the topics and their subscriptions, add, change and delete them."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from pydantic import Field

from redrive.access import Principal
from redrive.broker import Broker, QueueSettings, Rule, TopicInfo, TopicSettings, subscription_queue
from redrive.broker.views import View, deleted_view, topic_view
from redrive.errors import SubscriptionNotFound, TopicNotFound
from redrive.server.api.endpoint import Caller, Endpoints, Name
from redrive.server.api.message_models import HeaderModel
from redrive.server.api.models import Instant, ViewModel, settings_model, stated, stated_model
from redrive.server.api.queues import DeletedQueue

if TYPE_CHECKING:  # they are made of the fields of TopicSettings and QueueSettings
    TopicSettingsModel: TypeAlias = ViewModel
    StatedTopicSettings: TypeAlias = ViewModel
    StatedSubscription: TypeAlias = ViewModel
else:
    TopicSettingsModel = settings_model("TopicSettings", TopicSettings)
    StatedTopicSettings = stated_model("StatedTopicSettings", TopicSettings)
    StatedSubscription = stated_model("StatedSubscription", QueueSettings)


class RuleModel(ViewModel):
    """Which messages a subscription gets; without conditions, all."""

    equals: dict[str, HeaderModel] = Field(
        {}, description="Values that properties and headers must have.", examples=[{"region": "eu"}]
    )
    expression: str | None = Field(
        None, max_length=10_000, description="An expression that must be true.", examples=["body.total > 100"]
    )


class SubscriptionModel(ViewModel):
    """A subscription of a topic."""

    name: str = Field(examples=["billing"])
    queue: str = Field(description="The queue with its messages.", examples=["orders/billing"])
    rule: RuleModel


class TopicModel(ViewModel):
    """A topic and its subscriptions."""

    name: str = Field(examples=["orders"])
    settings: TopicSettingsModel
    subscriptions: list[SubscriptionModel]
    unmatched: int = Field(description="How many messages no subscription got.")
    created_at: Instant


class SubscribeAsked(StatedSubscription):
    """Which messages a subscription gets, and the settings of its queue."""

    rule: RuleModel | None = Field(None, description="null: all messages.")


api = Endpoints("topics")


def _within(topic: TopicInfo, principal: Principal) -> TopicInfo:
    """Return a topic with the subscriptions whose queues a principal has."""
    if principal.queues is None:
        return topic
    return replace(topic, subscriptions=tuple(each for each in topic.subscriptions if principal.has(each.queue)))


@api.get("/topics", "topics.read", list[TopicModel])
async def list_topics(caller: Caller) -> list[View]:
    """List the topics and their subscriptions, in order of their names."""
    found = await caller.look(caller.desk.broker.topics, narrowed=True)
    return [topic_view(_within(each, caller.principal)) for each in found if caller.principal.has(each.name)]


@api.get("/topics/{name}", "topics.read", TopicModel)
async def get_topic(caller: Caller, name: Name) -> View:
    """Return a topic: its settings, its subscriptions and their rules."""
    found = await caller.look(lambda: _found(caller.desk.broker, name), queues=[name])
    return topic_view(_within(found, caller.principal))


@api.put("/topics/{name}", "topics.write", TopicModel)
async def declare_topic(caller: Caller, name: Name, settings: StatedTopicSettings) -> View:
    """Make sure that a topic is there. What is sent to it goes to every subscription whose rule matches."""

    async def declare() -> TopicInfo:
        await caller.desk.broker.declare_topic(name, **stated(settings))
        return await _found(caller.desk.broker, name)

    return topic_view(await caller.change(f"topic:{name}", declare, queues=[name]))


@api.patch("/topics/{name}", "topics.write", TopicModel)
async def update_topic(caller: Caller, name: Name, settings: StatedTopicSettings) -> View:
    """Change some settings of a topic."""

    async def update() -> TopicInfo:
        await caller.desk.broker.update_topic(name, **stated(settings))
        return await _found(caller.desk.broker, name)

    return topic_view(await caller.change(f"topic:{name}", update, queues=[name]))


@api.delete("/topics/{name}", "topics.write", DeletedQueue)
async def delete_topic(caller: Caller, name: Name) -> View:
    """Delete a topic, its subscriptions, and all messages in their queues."""

    async def delete() -> int:
        broker = caller.desk.broker
        found = await _found(broker, name)
        held = await _held(broker, {name, *(each.queue for each in found.subscriptions)})
        await broker.delete(name)
        return held

    return deleted_view(name, await caller.change(f"topic:{name}", delete, queues=[name]))


@api.put("/topics/{name}/subscriptions/{subscription}", "topics.write", TopicModel)
async def subscribe_to_topic(caller: Caller, name: Name, subscription: Name, asked: SubscribeAsked) -> View:
    """Make sure that a topic has a subscription with this rule; it gets what is sent from now on."""
    given = stated(asked)
    given.pop("rule", None)

    async def subscribe() -> TopicInfo:
        rule = None if asked.rule is None else Rule(asked.rule.equals, asked.rule.expression)
        await caller.desk.broker.subscribe(name, subscription, rule, **given)
        return await _found(caller.desk.broker, name)

    return topic_view(await caller.change(f"topic:{name}", subscribe, queues=[name]))


@api.delete("/topics/{name}/subscriptions/{subscription}", "topics.write", DeletedQueue)
async def unsubscribe_from_topic(caller: Caller, name: Name, subscription: Name) -> View:
    """Delete a subscription, its queue, and all messages in it."""
    queue = subscription_queue(name, subscription)

    async def unsubscribe() -> int:
        broker = caller.desk.broker
        found = await _found(broker, name)
        if subscription not in [each.name for each in found.subscriptions]:
            raise SubscriptionNotFound(name, subscription)
        held = await _held(broker, {queue})
        await broker.unsubscribe(name, subscription)
        return held

    return deleted_view(queue, await caller.change(f"topic:{name}", unsubscribe, queues=[name]))


async def _found(broker: Broker, name: str) -> TopicInfo:
    found = {topic.name: topic for topic in await broker.topics()}
    if name not in found:
        raise TopicNotFound(name, is_queue=any(queue.name == name for queue in await broker.queues()))
    return found[name]


async def _held(broker: Broker, names: set[str]) -> int:
    """Return how many messages there are in some queues."""
    counts = [
        each.ready + each.scheduled + each.locked + each.deferred + each.dead
        for each in await broker.queues()
        if each.name in names
    ]
    return sum(counts)
