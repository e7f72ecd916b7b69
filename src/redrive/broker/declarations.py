# SPDX-License-Identifier: MIT
"""Declares queues, topics and subscriptions: what is there already is compared with what is asked for."""

from dataclasses import asdict, replace

from redrive.broker.arguments import check_queue, check_settings
from redrive.broker.port import Engine, QueueSettings, Topics, ability, check_settings_supported
from redrive.broker.rules import check_queue_name
from redrive.broker.settings import QueueOptions, TopicOptions, TopicSettings
from redrive.broker.topics import Rule, RuleLike, check_subscription
from redrive.errors import QueueConflict, TopicConflict


async def declare(engine: Engine, queue: str, settings: QueueOptions) -> None:
    """Make sure that a queue is there."""
    wanted = _wanted(engine, settings)
    if not await engine.declare(check_queue_name(queue), wanted):
        await _compare(engine, queue, settings, wanted)


async def update(engine: Engine, queue: str, settings: QueueOptions) -> None:
    """Change some settings of a queue."""
    check_settings(settings)
    current = (await engine.inspect(check_queue(queue)))[0].settings
    wanted = replace(current, **settings)  # type: ignore[arg-type]  # it turns timedelta into seconds
    check_settings_supported(engine, wanted)
    await engine.update(queue, wanted)


async def declare_topic(engine: Engine, topic: str, given: TopicOptions) -> None:
    """Make sure that a topic is there."""
    topics = ability(engine, Topics)
    check_settings(given, TopicSettings)
    wanted = TopicSettings(**given)  # type: ignore[arg-type]  # it turns timedelta into seconds
    if await topics.declare_topic(check_queue_name(topic), wanted):
        return
    there, asked = asdict((await topics.topics(topic))[0].settings), asdict(wanted)
    differences = {name: (there[name], asked[name]) for name in given if there[name] != asked[name]}
    if differences:
        raise TopicConflict(topic, differences)


async def update_topic(engine: Engine, topic: str, given: TopicOptions) -> None:
    """Change some settings of a topic."""
    topics = ability(engine, Topics)
    check_settings(given, TopicSettings)
    current = (await topics.topics(check_queue_name(topic)))[0].settings
    await topics.update_topic(topic, replace(current, **given))  # type: ignore[arg-type]  # as above


async def subscribe(engine: Engine, topic: str, name: str, rule: RuleLike, settings: QueueOptions) -> str:
    """Make sure that a subscription is there and has a rule; return the name of its queue."""
    topics = ability(engine, Topics)
    queue, made, wanted = check_subscription(topic, name), Rule.of(rule), _wanted(engine, settings)
    if not await topics.subscribe(topic, name, made, wanted):
        await _compare(engine, queue, settings, wanted)
    return queue


def _wanted(engine: Engine, settings: QueueOptions) -> QueueSettings:
    check_settings(settings)
    wanted = QueueSettings(**settings)  # type: ignore[arg-type]  # it turns timedelta into seconds
    check_settings_supported(engine, wanted)
    return wanted


async def _compare(engine: Engine, queue: str, settings: QueueOptions, wanted: QueueSettings) -> None:
    """See that a queue which is there has the settings that the caller states."""
    if not settings:  # to compare nothing, its messages need not be counted
        return
    there, asked = asdict((await engine.inspect(queue))[0].settings), asdict(wanted)
    differences = {name: (there[name], asked[name]) for name in settings if there[name] != asked[name]}
    if differences:
        raise QueueConflict(queue, differences)
