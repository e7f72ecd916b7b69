# SPDX-License-Identifier: MIT
"""``/topics``: what is sent to whom; ``/topics/{name}``: its subscriptions, their rules, and what waits in them."""

from redrive.broker.views import View
from redrive.server.api.endpoint import Caller, Name
from redrive.server.api.queues import list_queues
from redrive.server.api.topics import get_topic, list_topics
from redrive.server.console.pages import Pages
from redrive.server.console.queues import settings_of

pages = Pages()


@pages.get("/topics", "topics.read", "topics.html")
async def show_topics(caller: Caller) -> View:
    """Show the topics, and how much waits in their subscriptions."""
    queues = await _queues(caller)
    topics = await caller.ask(list_topics)
    return {"all_topics": [_with_counts(each, queues) for each in topics]}


@pages.get("/topics/{name}", "topics.read", "topic.html")
async def show_topic(caller: Caller, name: Name) -> View:
    """Show a topic: its subscriptions, which messages each gets, and its settings."""
    topic = await caller.ask(get_topic, name=name)
    queues = await _queues(caller)
    return {
        "topic": _with_counts(topic, queues),
        "settings": settings_of(topic["settings"]),
        "dead": queues.get(name, {}).get("dead", 0),
    }


async def _queues(caller: Caller) -> dict[str, View]:
    return {each["name"]: each for each in await caller.ask(list_queues)}


def _with_counts(topic: View, queues: dict[str, View]) -> View:
    subscriptions: list[View] = [
        {**each, "held": queues.get(each["queue"]), "conditions": _conditions(each["rule"])}
        for each in topic["subscriptions"]
    ]
    held: list[View] = [each["held"] for each in subscriptions if each["held"]]
    return {
        **topic,
        "subscriptions": subscriptions,
        "ready": sum(each["ready"] for each in held),
        "dead": sum(each["dead"] for each in held),
    }


def _conditions(rule: View) -> list[str]:
    """Return what a message must have for a rule; nothing if it gets all."""
    equal = [f"{name} = {value!r}" for name, value in rule["equals"].items()]
    return [*equal, *([rule["expression"]] if rule["expression"] else [])]
