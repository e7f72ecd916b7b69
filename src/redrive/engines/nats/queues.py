# SPDX-License-Identifier: MIT
"""Declares, changes and deletes queues, topics and subscriptions.

What a queue is, is one stored message, and every change of it is fenced by the version it was made of. The consumer
comes after it, and is made by the first receive if a crash has come between; when a queue is deleted, what it held
goes after it, and can be reached by no one any more.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from redrive.broker import rules
from redrive.broker.port import QueueSettings, Rule, TopicSettings
from redrive.broker.topics import name_is_taken, subscription_queue
from redrive.engines.nats import errors
from redrive.engines.nats.catalog import Definition
from redrive.engines.nats.errors import StreamRefusal
from redrive.engines.nats.parts import Parts
from redrive.errors import NotAQueue, QueueNotFound, SubscriptionNotFound, TopicNotFound

if TYPE_CHECKING:
    from redrive.engines.nats.group_commit import StreamEntry

T = TypeVar("T")

_TRIES: Final = 20


class Queues:
    """The queues of a namespace.

    Args:
        parts: the parts of the engine.
    """

    def __init__(self, parts: Parts) -> None:
        self._connection = parts.connection
        self._subjects = parts.subjects
        self._catalog = parts.catalog
        self._consumers = parts.consumers
        self._commits = parts.commits

    async def _fenced(self, change: Callable[..., Awaitable[T]], *args: object) -> T:
        """Make a change, and make it again from what is stored by then if another was faster."""
        for _ in range(_TRIES):
            try:
                return await change(*args)
            except StreamRefusal:
                self._catalog.forget()
        raise errors.busy(self._connection.where)

    # --- queues

    async def declare(self, name: str, settings: QueueSettings) -> bool:
        """Create a queue; False if there is one."""
        return await self._fenced(self._declare, name, settings)

    async def _declare(self, name: str, settings: QueueSettings) -> bool:
        vacancy = await self._catalog.vacancy(name)
        if vacancy is None:
            found = await self._catalog.find(name, anew=True)
            if found is not None and found.is_topic:
                raise NotAQueue(name, tuple(found.subscriptions))
            return False
        queue = replace(self._catalog.new(name, settings), sequence=vacancy)
        await self._commits.commit([self._catalog.storing(queue)])
        await self._consumers.create(queue)
        return True

    async def update(self, name: str, settings: QueueSettings) -> None:
        """Change a queue's settings."""
        await self._fenced(self._update, name, settings)

    async def _update(self, name: str, settings: QueueSettings) -> None:
        if rules.is_dead_letter_queue(name):
            raise QueueNotFound(name)
        queue = await self._catalog.queue(name, anew=True)
        wanted = self._catalog.changed(queue, settings)
        await self._commits.commit([self._catalog.storing(wanted)])
        self._catalog.forget()
        await self._consumers.create(wanted)

    async def shorten_locks(self, queue: Definition) -> None:
        """Let the server end locks as early as the settings say, once there are none that last longer."""
        wanted = replace(queue, longer_lock=0.0, longer_until=0.0)
        try:
            await self._commits.commit([self._catalog.storing(wanted)])
        except StreamRefusal:
            return  # another was faster
        await self._consumers.create(wanted)

    async def delete(self, name: str) -> None:
        """Remove a queue or a topic and all it holds."""
        rules.check_deletable(name)
        gone = await self._fenced(self._delete, name)
        self._catalog.forget()
        for each in gone:
            await self._consumers.delete(each.key)
            for subject in self._subjects.belongings(each.key):
                await self._purge(subject)

    async def _delete(self, name: str) -> list[Definition]:
        queue = await self._catalog.get(name, anew=True)
        gone = [queue]
        entries: list[StreamEntry] = [self._catalog.removing(queue)]
        if queue.is_topic:
            gone += [await self._catalog.get(each, anew=True) for each in queue.subscriptions]
            entries += [self._catalog.removing(each) for each in gone[1:]]
        elif queue.topic is not None:
            topic = await self._catalog.topic(queue.topic)
            left = {each: rule for each, rule in topic.rules.items() if each != name}
            entries.append(self._catalog.storing(replace(topic, rules=left)))
        await self._commits.commit(entries)
        return gone

    async def _purge(self, subject: str) -> None:
        try:
            await self._connection.api(f"STREAM.PURGE.{self._subjects.stream}", {"filter": subject})
        except StreamRefusal as error:
            raise errors.of_refusal(error, self._connection.where) from error

    # --- topics

    async def declare_topic(self, name: str, settings: TopicSettings) -> bool:
        """Create a topic; False if there is one."""
        return await self._fenced(self._declare_topic, name, settings)

    async def _declare_topic(self, name: str, settings: TopicSettings) -> bool:
        vacancy = await self._catalog.vacancy(name)
        if vacancy is None:
            found = await self._catalog.find(name, anew=True)
            if found is not None and not found.is_topic:
                raise TopicNotFound(name, is_queue=True)
            return False
        topic = replace(self._catalog.new(name, settings), sequence=vacancy)
        await self._commits.commit([self._catalog.storing(topic)])
        return True

    async def update_topic(self, name: str, settings: TopicSettings) -> None:
        """Change a topic's settings."""
        await self._fenced(self._update_topic, name, settings)
        self._catalog.forget()

    async def _update_topic(self, name: str, settings: TopicSettings) -> None:
        topic = await self._catalog.topic(name)
        await self._commits.commit([self._catalog.storing(replace(topic, settings=settings.to_json()))])

    async def subscribe(self, topic: str, name: str, rule: Rule, settings: QueueSettings) -> bool:
        """Create a subscription, or give it another rule."""
        is_new = await self._fenced(self._subscribe, topic, name, rule, settings)
        self._catalog.forget()
        if is_new:
            await self._consumers.create(await self._catalog.get(subscription_queue(topic, name), anew=True))
        return is_new

    async def _subscribe(self, topic: str, name: str, rule: Rule, settings: QueueSettings) -> bool:
        of = await self._catalog.topic(topic)
        queue = subscription_queue(topic, name)
        changed = self._catalog.storing(replace(of, rules={**of.rules, queue: rule.to_json()}))
        vacancy = await self._catalog.vacancy(queue)
        if vacancy is None:
            if queue not in of.rules:
                raise name_is_taken(queue)
            await self._commits.commit([changed])
            return False
        made = replace(self._catalog.new(queue, settings, topic), sequence=vacancy)
        await self._commits.commit([changed, self._catalog.storing(made)])
        return True

    async def unsubscribe(self, topic: str, name: str) -> None:
        """Remove a subscription and all its queue holds."""
        queue = subscription_queue(topic, name)
        if queue not in (await self._catalog.topic(topic)).rules:
            raise SubscriptionNotFound(topic, name)
        await self.delete(queue)
