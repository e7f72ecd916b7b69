# SPDX-License-Identifier: MIT
"""The most frequent requests of callers: sends and completions, and receives."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from redrive.broker.port import Complete, Effect, EffectResult, Lock, Received, Send
from redrive.engines.postgres.driver import Connection
from redrive.engines.postgres.group_commit import Request
from redrive.engines.sql.script import Together

MOST_AT_ONCE = 1_000_000
"""How many messages one call locks at most; a caller that wants more gets this many, and calls again."""


class ApplyRequest(Request[list[EffectResult]]):
    """A caller's sends and completions, all or nothing."""

    __slots__ = ("effects",)

    def __init__(self, effects: Sequence[Effect]) -> None:
        super().__init__()
        self.effects = effects

    @property
    def queues(self) -> list[str]:
        """The names of the queues it uses."""
        return [queue_of(effect) for effect in self.effects]

    @property
    def size(self) -> int:
        """How many bytes it sends."""
        size = 0
        for effect in self.effects:
            if type(effect) is Send:
                size += len(effect.message.body)
        return size


class LockRequest(Request[list[Received]]):
    """A receiver that waits for messages."""

    __slots__ = ("_give_back", "delete", "limit", "queue")

    def __init__(self, queue: str, limit: int, give_back: Callable[[list[Lock]], None], *, delete: bool) -> None:
        super().__init__()
        self.queue = queue
        self.limit = limit
        self.delete = delete
        self._give_back = give_back

    @property
    def queues(self) -> list[str]:
        """The names of the queues it uses."""
        return [self.queue]

    def abandoned(self, result: list[Received]) -> None:
        """Give back the messages that were locked for a caller that was cancelled."""
        locks = [received.lock for received in result if received.lock is not None]
        if locks:
            self._give_back(locks)


def queue_of(effect: Effect) -> str:
    """Return the queue of a send or a completion."""
    if isinstance(effect, Send):
        return effect.queue
    if isinstance(effect, Complete):
        return effect.lock.queue
    raise TypeError(effect)


class ScriptedPart:
    """A script of ours as the part of a transaction that goes with effects; it may run together with others."""

    __slots__ = ("_alone", "script")

    def __init__(self, script: Together, alone: Callable[[Connection], Coroutine[Any, Any, object]]) -> None:
        self.script = script
        self._alone = alone

    async def __call__(self, connection: Connection) -> object:
        """Run it by itself."""
        return await self._alone(connection)


class ScriptRequest(ApplyRequest):
    """A script, and the effects that go with it, all or nothing; what it returns is the answer if it has no effects."""

    __slots__ = ("in_steps", "script", "value")

    def __init__(self, script: Together, effects: Sequence[Effect] = ()) -> None:
        super().__init__(effects)
        self.script = script
        self.value: Any = None
        self.in_steps = False

    def give(self, result: list[EffectResult]) -> None:
        """Give the caller the result."""
        super().give(result if self.effects else self.value)
