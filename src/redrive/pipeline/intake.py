# SPDX-License-Identifier: MIT
"""The receive stage: a submission is answered when it is stored."""

import hashlib
import math
from dataclasses import dataclass

from redrive.broker import Send, parents, random_id
from redrive.errors import (
    InvalidMessage,
    MessageError,
    MessageTooLarge,
    RedriveError,
    SubmissionConflict,
    SubmissionRefused,
    Unavailable,
)
from redrive.http.request import HttpAnswer, HttpRequest
from redrive.pipeline.functions import called
from redrive.pipeline.items import Submission, parts_of
from redrive.pipeline.ledger import SubmissionSeen
from redrive.pipeline.new_tasks import submitted
from redrive.pipeline.records import NewAction
from redrive.pipeline.stage import PipelineEnvironment
from redrive.pipeline.task_token import TaskToken, message_for
from redrive.printable import one_line
from redrive.tracing import passed_on

_KEY_HEADER = "idempotency-key"
_LONGEST_KEY = 255
_RETRY_AFTER = "5"
_REFUSALS, _REFUSED = range(400, 500), 422


@dataclass(frozen=True, slots=True)
class SubmissionReceipt:
    """What a sender gets for a submission.

    Attributes:
        task: the id of its task: ``redrive pipeline trace`` shows what has become of it.
        items: how many items it has; 0 if it was accepted before.
        is_new: whether it was accepted now, not before.
    """

    task: str
    items: int
    is_new: bool


class PipelineIntake:
    """Takes submissions of one pipeline.

    Args:
        environment: what it works with.
    """

    def __init__(self, environment: PipelineEnvironment) -> None:
        self._environment = environment

    async def submit(self, submission: Submission) -> SubmissionReceipt:
        """Store a submission; when this returns, it is on disk.

        Raises:
            SubmissionConflict: its key was used for another body.
            SubmissionRefused: the pipeline's own function refuses it.
            MessageTooLarge: its body is too large.
            InvalidMessage: it has no key, or one that cannot be used.
        """
        environment, plan = self._environment, self._environment.plan
        self._check(submission)
        digest = hashlib.sha256(submission.body).hexdigest()
        if plan.receive is not None and (seen := await self._seen(submission.key, digest)):
            return seen  # and the pipeline's own function is not called again
        bodies = [submission.body] if plan.receive is None else await called(plan.receive, submission, parts_of)
        if not bodies:
            raise SubmissionRefused("there is nothing in it")
        random_part = random_id()
        task = submitted(plan, environment.version, environment.new_id(random_part), bodies)
        detail: dict[str, object] = {"items": len(bodies), "bytes": len(submission.body)}
        if (parent := parents.handled()) is not None:
            detail["parent"] = parent
        action = NewAction(name="receive", reason="" if submission.key is None else submission.key, detail=detail)
        inside = environment.ledger.accept(task, submission.key, digest, action)
        environment.fresh.keep(task)  # before it is stored: then it may be processed at any moment
        try:
            wake_up = message_for(TaskToken(task.id), random_part, passed_on(submission.headers))
            await environment.broker.apply(Send(plan.process_queue, wake_up), inside=inside)
        except SubmissionSeen as seen_now:
            environment.fresh.forget(task.id)
            return SubmissionReceipt(seen_now.task, 0, is_new=False)
        except BaseException:
            environment.fresh.forget(task.id)
            raise
        return SubmissionReceipt(task.id, len(bodies), is_new=True)

    async def _seen(self, key: str | None, digest: str) -> SubmissionReceipt | None:
        """Return the receipt of a submission that was stored before."""
        name = self._environment.plan.name
        seen = None if key is None else await self._environment.ledger.submission(name, key)
        if key is None or seen is None:
            return None
        if seen.digest != digest:
            raise SubmissionConflict(name, key)
        return SubmissionReceipt(seen.task, 0, is_new=False)

    def _check(self, submission: Submission) -> None:
        plan = self._environment.plan
        if len(submission.body) > plan.max_bytes:
            raise MessageTooLarge(f"pipeline {plan.name}", len(submission.body), plan.max_bytes)
        if submission.key is None:
            if plan.needs_key:
                raise InvalidMessage(
                    "key", None, "must be given (--key; over HTTP Idempotency-Key): it makes it safe to repeat"
                )
            return
        if not isinstance(submission.key, str) or not 0 < len(submission.key) <= _LONGEST_KEY:
            raise InvalidMessage("key", submission.key, f"must be a text of 1 to {_LONGEST_KEY} characters")

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer a request that is a submission: 201 when it is stored, and 200 if it was stored before."""
        headers = request.headers
        submission = Submission(
            body=request.body,
            key=headers.get(_KEY_HEADER),
            content_type=headers.get("content-type"),
            headers=dict(headers),
        )
        try:
            receipt = await self.submit(submission)
        except (MessageError, Unavailable) as error:
            return refusal(error)
        body = {"task": receipt.task, "items": receipt.items, "repeated": not receipt.is_new}
        return HttpAnswer(201, body) if receipt.is_new else HttpAnswer(200, body)


def refusal(error: RedriveError) -> HttpAnswer:
    """Return the answer for a submission that was not taken."""
    body = {"error": error.code, "detail": one_line(error)}
    if isinstance(error, Unavailable):
        asked = getattr(error, "retry_after", None)
        after = str(math.ceil(asked)) if isinstance(asked, int | float) and asked > 0 else _RETRY_AFTER
        return HttpAnswer(503, body, (("retry-after", after),))
    if isinstance(error, SubmissionRefused):  # any other status would mean that it was taken, or may be repeated
        return HttpAnswer(error.status if error.status in _REFUSALS else _REFUSED, body)
    status = 413 if isinstance(error, MessageTooLarge) else 409 if isinstance(error, SubmissionConflict) else 400
    return HttpAnswer(status, body)
