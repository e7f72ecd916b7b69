# SPDX-License-Identifier: MIT
"""``redrive topics``: list the topics and their subscriptions, add, change and delete them."""

from typing import Annotated

import typer

from redrive.broker import Broker, Rule, TopicInfo, subscription_queue, views
from redrive.cli.audit import AuditedChange
from redrive.cli.commands.queues import hand_down
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection, Yes
from redrive.cli.options.groups import grouped
from redrive.cli.options.message import name_and_value
from redrive.cli.options.queue_settings import StatedSettings, StatedTopicSettings
from redrive.cli.output import console
from redrive.cli.output.prompt import confirm
from redrive.cli.output.sentences import count
from redrive.cli.output.table import print_table
from redrive.cli.output.tables import COUNTS, queues_table, subscriptions_table, topics_table
from redrive.errors import TopicNotFound

app = typer.Typer()

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Its name.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The subscription's name; its queue is TOPIC/NAME.")]


@app.callback(invoke_without_command=True)
@grouped
def list_topics(context: typer.Context, connection: BrokerConnection) -> None:
    """List, add, change and delete topics and their subscriptions.

    What is sent to a topic goes to every subscription whose rule matches. A subscription is a queue.

    Examples:
      redrive topics declare orders
      redrive topics subscribe orders billing
      redrive topics subscribe orders big --rule 'body.total > 100'
      redrive topics subscribe orders europe --equals region=eu
      redrive send orders '{"total": 250}'
      redrive receive orders/billing --complete
    """
    if context.invoked_subcommand is not None:
        hand_down(context, connection)
        return
    found = with_broker(connection, lambda broker: broker.topics())
    if connection.as_json:
        console.print_json([views.topic_view(topic) for topic in found])
    elif found:
        print_table(topics_table(found))
    else:
        console.say("no topics yet; add one: redrive topics declare NAME")


@app.command()
@grouped
def declare(topic: Topic, settings: StatedTopicSettings, connection: BrokerConnection) -> None:
    """Add a topic; create the database if it does not exist.

    If the topic exists already, it must have the settings that you state.

    Examples:
      redrive topics declare orders
      redrive topics declare orders --keep-unmatched yes
    """
    change = _change(topic)
    with_broker(
        connection, lambda broker: broker.declare_topic(topic, **settings.stated), may_create=True, change=change
    )
    _print_changed(connection, topic, f"topic {topic} is declared")


@app.command()
@grouped
def update(topic: Topic, settings: StatedTopicSettings, connection: BrokerConnection) -> None:
    """Change settings of a topic.

    Example: redrive topics update orders --keep-unmatched yes
    """
    with_broker(connection, lambda broker: broker.update_topic(topic, **settings.stated), change=_change(topic))
    _print_changed(connection, topic, f"topic {topic} is changed")


@app.command()
@grouped
def subscribe(
    topic: Topic,
    name: Name,
    *,
    rule: Annotated[
        str | None, typer.Option(metavar="EXPRESSION", help="Messages for which this is true.", show_default=False)
    ] = None,
    equals: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Messages with this property or header.", show_default=False),
    ] = None,
    settings: StatedSettings,
    connection: BrokerConnection,
) -> None:
    """Add a subscription, or give it another rule.

    Without a rule it gets everything.

    Examples:
      redrive topics subscribe orders billing
      redrive topics subscribe orders big --rule 'body.total > 100' --max-delivery-count 5
      redrive topics subscribe orders europe --equals region=eu --equals subject=order.placed
    """
    equal = dict(name_and_value("--equals", text) for text in equals or ())

    async def add(broker: Broker) -> Rule:
        made = Rule(equal, rule)
        await broker.subscribe(topic, name, made, **settings.stated)
        return made

    wanted, queue = with_broker(connection, add, change=_change(topic)), subscription_queue(topic, name)
    _print_changed(connection, topic, f"{queue} gets from now on what is sent to {topic}: {wanted}")


@app.command()
@grouped
def unsubscribe(topic: Topic, name: Name, *, yes: Yes = False, connection: BrokerConnection) -> None:
    """Delete a subscription, its queue, and all messages in it."""
    queue = subscription_queue(topic, name)
    held = sum(_held(connection, topic, [queue]))
    confirm(f"Delete subscription {queue} and {count(held, 'message')}?", yes=yes)
    with_broker(connection, lambda broker: broker.unsubscribe(topic, name), change=_change(topic))
    _print_deleted(connection, queue, held, f"subscription {queue} is deleted, with {count(held, 'message')}")


@app.command()
@grouped
def delete(topic: Topic, *, yes: Yes = False, connection: BrokerConnection) -> None:
    """Delete a topic, its subscriptions, and all messages in their queues."""
    found = _topic(connection, topic)
    queues = [each.queue for each in found.subscriptions]
    held = sum(_held(connection, topic, [topic, *queues]))
    what = f"topic {topic}, {count(len(queues), 'subscription')} and {count(held, 'message')}"
    confirm(f"Delete {what}?", yes=yes)
    with_broker(connection, lambda broker: broker.delete(topic), change=_change(topic))
    _print_deleted(connection, topic, held, f"deleted: {what}")


@app.command()
@grouped
def show(topic: Topic, connection: BrokerConnection) -> None:
    """Show a topic: its subscriptions, their rules, and what is in their queues."""
    found = _topic(connection, topic)
    if connection.as_json:
        console.print_json(views.topic_view(found))
        return
    print_table(topics_table([found]))
    if not found.subscriptions:
        console.say(f"no subscriptions yet; add one: redrive topics subscribe {topic} NAME")
        return
    names = {each.queue for each in found.subscriptions}
    queues = [queue for queue in with_broker(connection, lambda broker: broker.queues()) if queue.name in names]
    console.say("")
    print_table(subscriptions_table(found))
    console.say("")
    print_table(queues_table(queues))


def _topic(connection: BrokerConnection, name: str) -> TopicInfo:
    async def find(broker: Broker) -> TopicInfo:
        found = {topic.name: topic for topic in await broker.topics()}
        if name not in found:
            raise TopicNotFound(name, is_queue=any(queue.name == name for queue in await broker.queues()))
        return found[name]

    return with_broker(connection, find)


def _held(connection: BrokerConnection, topic: str, queues: list[str]) -> list[int]:
    """Return how many messages there are in some queues of a topic."""
    _topic(connection, topic)
    found = with_broker(connection, lambda broker: broker.queues())
    return [getattr(queue, name) for queue in found if queue.name in queues for name in COUNTS]


def _print_changed(connection: BrokerConnection, topic: str, sentence: str) -> None:
    if connection.as_json:
        console.print_json(views.topic_view(_topic(connection, topic)))
    else:
        console.say(sentence)


def _print_deleted(connection: BrokerConnection, name: str, held: int, sentence: str) -> None:
    if connection.as_json:
        console.print_json(views.deleted_view(name, held))
    else:
        console.say(sentence)


def _change(topic: str) -> AuditedChange:
    return AuditedChange("topics.write", f"topic:{topic}")
