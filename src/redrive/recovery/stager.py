# SPDX-License-Identifier: MIT
"""Staging one batch: copies of its messages, changed as its operation asks, go into the lane's staging queue."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from redrive.broker import Message, Send
from redrive.errors import EngineUnavailable, RedriveError, TransformFailed
from redrive.recovery.environment import Hopeless, Stopping, Tools
from redrive.recovery.own_queues import PAGE_BYTES
from redrive.recovery.records import Batch, Lease, Staged
from redrive.recovery.staged_copy import destination_of, staged_copy
from redrive.recovery.staging_queue import LONGEST_NAP_S, LaneSettings, StagingQueue
from redrive.recovery.states import AT_WORK
from redrive.recovery.transformer import Transformer


class NotWanted(Exception):
    """The operation was paused or cancelled while its messages were being changed."""


class Stager:
    """One attempt at staging one batch.

    Args:
        lease: the right to work in its lane.
        batch: the batch, with the id of this attempt.
        tools: the broker and the ledger.
        settings: how lanes work.
        staging: the lane's staging queue.
        transformer: changes messages.
        key: the ledger's key, which seals the tags of copies.
    """

    def __init__(
        self,
        lease: Lease,
        batch: Batch,
        tools: Tools,
        *,
        settings: LaneSettings,
        staging: StagingQueue,
        transformer: Transformer,
        key: bytes,
    ) -> None:
        self._lease = lease
        self._batch = batch
        self._engine = tools.broker.engine
        self._clock = tools.broker.clock
        self._ledger = tools.ledger
        self._settings = settings
        self._staging = staging
        self._transformer = transformer
        self._key = key
        self._ended = 0
        self._looked_at = self._clock.monotonic()

    async def run(self, stopped: asyncio.Event) -> tuple[dict[str, int], dict[int, str]]:
        """Stage the batch; return what has a copy (ids and numbers), and what was refused (numbers and reasons).

        Raises:
            Hopeless: its operation cannot be worked on here.
            NotWanted: its operation was paused or cancelled.
            Stopping: the process is about to stop.
        """
        self._check_allowed()
        copied: dict[str, int] = {}
        refused: dict[int, str] = {}
        redirects = await self._ledger.redirects()
        after: int | None = 0
        while after is not None:
            if stopped.is_set():
                raise Stopping
            page, after = await self._ledger.to_stage(self._batch, after=after, limit=self._settings.page)
            refused |= await self._stage_page(page, redirects)
            copied |= {each.id: each.failure for each in page if each.failure not in refused}
        return copied, refused

    def _check_allowed(self) -> None:
        """Refuse an operation whose function may not be called here: its messages are not to blame."""
        transform = self._batch.plan.transform
        function = None if transform is None else transform.function
        if (refusal := self._transformer.settings.refusal(function)) is not None:
            raise Hopeless(f"the function {function} {refusal}; then resume it")

    async def _stage_page(self, page: Sequence[Staged], redirects: Mapping[str, str]) -> dict[int, str]:
        """Stage a page; return what was refused, and why."""
        refused: dict[int, str] = {}
        copies: dict[int, Message] = {}
        room = PAGE_BYTES
        for each in page:
            try:
                message = await self._changed(each.message)
            except TransformFailed as error:
                refused[each.failure] = str(error)
                continue
            to = destination_of(each, self._batch, redirects)
            copies[each.failure] = staged_copy(replace(each, message=message), self._batch, to, self._key)
            room -= len(message.body)
            if room < 0:  # a changed message may be larger
                refused |= await self._put(copies)
                copies, room = {}, PAGE_BYTES
        return refused | await self._put(copies)

    async def _changed(self, message: Message) -> Message:
        """Return a message as its operation changes it; interrupt a transform that hangs or is no longer wanted."""
        transform = self._batch.plan.transform
        if transform is None:
            return message
        await self._clock.sleep_async(0.0)  # so that thousands of messages do not block the event loop
        if self._clock.monotonic() - self._looked_at >= LONGEST_NAP_S:
            self._looked_at = self._clock.monotonic()
            if (await self._ledger.latest(self._lease, self._batch)).operation_state not in AT_WORK:
                raise NotWanted
        try:
            changed = await self._transformer.apply(transform, message)
        except TransformFailed as error:
            self._ended = self._ended + 1 if error.was_ended else 0
            if self._ended >= self._settings.eject_after:
                problem = f"{self._ended} messages in a row could not be changed: {error.reason}"
                raise Hopeless(f"{problem}; correct the function, then resume it") from error
            raise
        self._ended = 0
        return changed

    async def _put(self, copies: Mapping[int, Message]) -> dict[int, str]:
        """Send copies to the staging queue; return what was refused, and why."""
        if not copies:
            return {}
        try:
            await self._engine.apply([Send(self._staging.name, copy) for copy in copies.values()])
        except EngineUnavailable:
            raise
        except RedriveError:
            return await self._one_by_one(copies)
        return {}

    async def _one_by_one(self, copies: Mapping[int, Message]) -> dict[int, str]:
        refused: dict[int, str] = {}
        for failure, copy in copies.items():
            for _ in range(self._settings.eject_after):
                try:
                    await self._engine.apply([Send(self._staging.name, copy)])
                except EngineUnavailable:
                    raise
                except RedriveError as error:
                    refused[failure] = f"could not be staged: {error}"
                else:
                    refused.pop(failure, None)
                    break
        return refused
