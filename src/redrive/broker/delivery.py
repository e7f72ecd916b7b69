# SPDX-License-Identifier: MIT
"""A received message and the four things that can be done with it."""

import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from redrive import duration
from redrive.broker import spans
from redrive.broker.arguments import check_effect, check_queue
from redrive.broker.effects import Abandon, Complete, DeadLetter, Defer, Effect, EffectResult, Send
from redrive.broker.lifecycle import State
from redrive.broker.message import DeadLetterInfo, Headers, Lock, Message, Payload, Received
from redrive.broker.parents import child_of, handled
from redrive.broker.port import Engine, check_effects
from redrive.errors import LockLost
from redrive.telemetry import is_traced


def random_id() -> str:
    """Return an id that no other message has."""
    return os.urandom(16).hex()


def named(effect: Effect, new_id: Callable[[], str] = random_id, parent: str | None = None) -> Effect:
    """Return an effect that can be done, and whose message has an id, and names its parent if it has one."""
    if type(effect) is Complete:  # there is nothing to check
        return effect
    if type(effect) is Send:
        check_queue(effect.queue)
    else:
        check_effect(effect)
        if not isinstance(effect, Send):
            return effect
    message = effect.message if effect.message.id is not None else effect.message.with_id(new_id())
    message = child_of(handled() if parent is None else parent, message)
    return effect if message is effect.message else replace(effect, message=message)


def as_message(payload: Payload, new_id: Callable[[], str] = random_id) -> Message:
    """Return a message with an id for what is to be sent; it names its parent if it has one."""
    if type(payload) is bytes and new_id is random_id:
        message = Message.plain(payload, random_id())
    elif isinstance(payload, Message):
        message = payload if payload.id is not None else payload.with_id(new_id())
    else:
        message = Message.of(payload, id=new_id())
    parent = handled()
    return message if parent is None else child_of(parent, message)


class Delivery:
    """A message that is yours for a while. Settle it once: complete, abandon, defer or dead-letter it."""

    __slots__ = ("_engine", "_received")

    def __init__(self, received: Received, engine: Engine) -> None:
        self._received = received
        self._engine = engine

    @property
    def message(self) -> Message:
        """What was sent."""
        return self._received.message

    @property
    def body(self) -> bytes:
        """What the message carries."""
        return self._received.message.body

    @property
    def id(self) -> str:
        """The message's id."""
        return self._received.id

    @property
    def headers(self) -> Headers:
        """The application's headers."""
        return self._received.message.headers

    @property
    def queue(self) -> str:
        """Where it is."""
        return self._received.queue

    @property
    def sequence(self) -> int:
        """Its sequence number."""
        return self._received.sequence

    @property
    def state(self) -> State:
        """What it was doing when it was received."""
        return self._received.state

    @property
    def delivery_count(self) -> int:
        """How often it has been delivered, this time included."""
        return self._received.delivery_count

    @property
    def enqueued_at(self) -> datetime:
        """When it was sent."""
        return self._received.enqueued_at

    @property
    def locked_until(self) -> datetime | None:
        """When it stops being yours; None if it was deleted as it was received."""
        return self._received.locked_until

    @property
    def dead_letter_info(self) -> DeadLetterInfo | None:
        """Why it is in a dead-letter queue, if it is in one."""
        return self._received.dead_letter_info

    @property
    def lock(self) -> Lock:
        """The right to settle it, for ``broker.apply``.

        Raises:
            LockLost: it was deleted as it was received.
        """
        if self._received.lock is None:
            raise LockLost(self.queue, self.sequence)
        return self._received.lock

    async def complete(self, *also: Effect) -> list[EffectResult]:
        """Remove it: it is done. What is to be done with it, such as sends, happens in the same transaction."""
        if not also:
            await self._settle(Complete(self.lock))
            return []
        others = [named(effect, parent=self.id) for effect in also]
        check_effects(self._engine, others)
        return (await self._settle(Complete(self.lock), *others))[1:]

    async def abandon(self, delay: duration.Duration = 0.0, *, headers: Headers | None = None) -> None:
        """Give it back, to be delivered again: at once, or after a delay. Id, order and delivery count stay."""
        seconds = duration.seconds("delay", delay, zero=True)
        await self._settle(Abandon(self.lock, seconds, headers))

    async def defer(self, *, headers: Headers | None = None) -> None:
        """Set it aside: it is only received again by its sequence number."""
        effect = Defer(self.lock, headers)
        check_effects(self._engine, [effect])
        await self._settle(effect)

    async def dead_letter(self, reason: str, description: str = "", *, headers: Headers | None = None) -> None:
        """Move it to the dead-letter queue."""
        await self._settle(DeadLetter(self.lock, reason, description, headers))

    async def renew(self) -> datetime:
        """Make it yours for another lock duration; return until when.

        Raises:
            LockLost: it is not yours any more.
        """
        (until,) = await self._engine.renew([self.lock])
        if until is None:
            raise LockLost(self.queue, self.sequence)
        return until

    def _settle(self, *effects: Effect) -> Coroutine[Any, Any, list[EffectResult]]:
        return self._traced(effects) if is_traced() else self._engine.apply(effects)

    async def _traced(self, effects: Sequence[Effect]) -> list[EffectResult]:
        with spans.settling(effects, [self.message]), spans.sending(effects) as carrying:
            return await self._engine.apply(carrying)

    def __repr__(self) -> str:
        return f"<Delivery {self.delivery_count} of {self.id!r} from {self.queue!r}>"
