# SPDX-License-Identifier: MIT
"""Completes messages together whose handlers ended in the same turn of the event loop: one request for all of them."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from redrive.broker import Complete, Engine, spans
from redrive.broker.headers import RECOVERY_TAG
from redrive.telemetry import is_traced
from redrive.worker.held_message import HeldMessage

OnDone: TypeAlias = Callable[[Sequence[HeldMessage], "asyncio.Task[None]"], None]


class Completions:
    """The messages of one queue that are to be completed, and nothing else with them.

    All of a group are completed or none is. If that fails, each is completed by itself, so that the lost lock of one
    costs the others nothing, and each is retried for as long as its own lock lasts.

    Args:
        engine: the engine; it must be transactional.
        alone: starts a task that completes one message by itself.
        on_done: called with the messages that a task has dealt with, and with that task.
    """

    def __init__(self, engine: Engine, alone: Callable[[HeldMessage], None], on_done: OnDone) -> None:
        self._engine = engine
        self._alone = alone
        self._on_done = on_done
        self._open: list[HeldMessage] = []
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    def fits(lease: HeldMessage) -> bool:
        """Say whether a message can be completed with others: it has no session, no confirmation, no transaction."""
        is_ours = lease.phase == "handling" and not (lease.is_lost or lease.has_joined)
        return is_ours and lease.session is None and RECOVERY_TAG not in lease.received.message.headers

    def add(self, lease: HeldMessage) -> None:
        """Complete a message with the others of this turn. Its task is, from now on, the one that does so."""
        lease.phase = "settling"
        if self._task is None:
            self._task = asyncio.create_task(self._complete(self._open))
            self._task.add_done_callback(partial(self._done, self._open))
        lease.task = self._task
        self._open.append(lease)

    async def _complete(self, group: list[HeldMessage]) -> None:
        self._close(group)
        try:
            await self._apply(group)
        except Exception:  # noqa: BLE001 - the same error comes again, for the messages that it concerns
            for lease in group:
                lease.phase = "handling"
                self._alone(lease)
        else:
            for lease in group:
                lease.phase = "settled"

    async def _apply(self, group: Sequence[HeldMessage]) -> None:
        effects = [Complete(lease.lock) for lease in group]
        if not is_traced():
            await self._engine.apply(effects)
            return
        with spans.settling(effects, [lease.received.message for lease in group], parent={}):
            await self._engine.apply(effects)

    def _close(self, group: list[HeldMessage]) -> None:
        """Let no more messages join a group."""
        if group is self._open:
            self._open, self._task = [], None

    def _done(self, group: list[HeldMessage], task: "asyncio.Task[None]") -> None:
        self._close(group)  # a task that is cancelled before it begins has not done so
        self._on_done([lease for lease in group if lease.task is task], task)
