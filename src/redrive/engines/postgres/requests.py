# SPDX-License-Identifier: MIT
"""The most frequent requests of callers: sends and completions, and receives."""

from collections.abc import Callable, Sequence

from redrive.broker.port import Complete, Effect, EffectResult, Lock, Received, Send
from redrive.engines.postgres.group_commit import Request

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
