# SPDX-License-Identifier: MIT
"""One pipeline of a program: it is declared when it is entered, takes submissions, and can be changed while it runs."""

from collections.abc import Mapping
from typing import Self

from redrive.broker import Broker
from redrive.pipeline.fresh_inputs import FreshInputs
from redrive.pipeline.intake import PipelineIntake, SubmissionReceipt
from redrive.pipeline.items import Submission
from redrive.pipeline.ledger import PipelineLedger
from redrive.pipeline.pipelines import Pipelines
from redrive.pipeline.plan import PipelineDestination, PipelinePlan
from redrive.pipeline.records import TaskInfo
from redrive.pipeline.stage import PipelineEnvironment

MAX_DELIVERY_COUNT = 100
"""What ends a message is the stage, which writes that into the history, not the queue."""


class OpenPipeline(Pipelines):
    """A pipeline, to be entered with ``async with``: then its queues are declared, and its version is stored.

    Args:
        broker: where its queues are; it is open by then.
        ledger: where its tasks are.
        plan: the pipeline.

    Attributes:
        plan: the pipeline as it is now.
        version: its version.
        fresh: what was submitted here a moment ago.
    """

    def __init__(self, broker: Broker, ledger: PipelineLedger, plan: PipelinePlan) -> None:
        super().__init__(broker, ledger)
        self.plan = plan
        self.version = 0
        self.fresh = FreshInputs()
        self._intake: PipelineIntake | None = None

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._declare(self.plan)
        return self

    async def _declare(self, plan: PipelinePlan) -> None:
        for queue in plan.queues:
            await self.broker.declare(queue, max_delivery_count=MAX_DELIVERY_COUNT)
        version = await self.ledger.declare(plan.name, plan.definition, tuple(plan.destinations))
        self.adopt(plan, version)

    def adopt(self, plan: PipelinePlan, version: int) -> None:
        """Go by another version of the pipeline from now on."""
        self.plan, self.version, self._intake = plan, version, None

    async def submit(
        self,
        body: bytes | str,
        *,
        key: str | None = None,
        content_type: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> SubmissionReceipt:
        """Submit something; when this returns, it is on disk.

        Args:
            body: its bytes.
            key: names it: if this is called again with the same key and body, nothing is submitted twice.
            content_type: what the bytes are.
            headers: what else the receive function is to know.

        Raises:
            SubmissionConflict: the key was used for another body.
            SubmissionRefused: the pipeline's own function refuses it.
            MessageTooLarge: the body is too large.
            InvalidMessage: there is no key, or one that cannot be used.
        """
        data = body.encode() if isinstance(body, str) else body
        submission = Submission(body=data, key=key, content_type=content_type, headers=dict(headers or {}))
        if self._intake is None:
            self._intake = PipelineIntake(self._environment())
        return await self._intake.submit(submission)

    def _environment(self) -> PipelineEnvironment:
        return PipelineEnvironment(
            broker=self.broker,
            ledger=self.ledger,
            clock=self.broker.clock,
            chance=lambda: 0.5,
            report=lambda _: None,
            plan=self.plan,
            version=self.version,
            nudge=lambda: None,
            fresh=self.fresh,
        )

    async def cancel(self, task: str, *, actor: str = "", reason: str = "") -> TaskInfo:
        """Let nothing more be done with a task."""
        self.fresh.forget(task)
        return await super().cancel(task, actor=actor, reason=reason)

    async def change(self, *destinations: PipelineDestination) -> int:
        """Add destinations, or change those of the same name; return the new version.

        Every process that runs the pipeline follows within a second. What waits or is being sent is not lost: it goes
        by the new settings when its turn comes.
        """
        changed = {**self.plan.destinations, **{each.name: each for each in destinations}}
        await self._declare(self.plan.with_destinations(changed))
        return self.version
