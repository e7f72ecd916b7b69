# SPDX-License-Identifier: MIT
"""The process stage: the outputs of a report, its history and what follows are stored together, or not at all."""

from collections.abc import Iterable, Sequence

from redrive.errors import DestinationNotFound, TaskConflict, Unavailable, UsageError
from redrive.pipeline.events import TaskEnded, TaskFailed
from redrive.pipeline.functions import called
from redrive.pipeline.items import Item, Report, bodies_of
from redrive.pipeline.new_tasks import Source, grouped, items_of, missing_items
from redrive.pipeline.plan import PipelineDestination
from redrive.pipeline.records import DEAD_LETTER, NewAction, NewTask
from redrive.pipeline.stage import MOST_DEATHS, PipelineEnvironment, StageError, said, token_of
from redrive.pipeline.task_token import TaskToken, message_for
from redrive.worker import Context, Decision, MoveToError, RedeliverLater


class ProcessStage:
    """Handles the messages of the process queue.

    Args:
        environment: what it works with.
    """

    def __init__(self, environment: PipelineEnvironment) -> None:
        self._environment = environment

    async def handle(self, body: bytes, context: Context) -> None:
        """Process one report."""
        environment, token = self._environment, token_of(body)
        if context.delivery_count > MOST_DEATHS:
            reason = f"{context.delivery_count - 1} processes have died at it"
            raise self._failed(token, context, reason, "CrashLoop")
        found = environment.fresh.taken(token) or await environment.ledger.process_input(token)
        if found is None:
            return  # out of date: it was done, cancelled or begun anew meanwhile
        version, items = found
        environment.check_version(version)
        attempt = context.delayed_retries + 1
        try:
            children = await self._children(token, [Source(token.task, item) for item in items], attempt)
        except Unavailable:
            raise
        except Exception as error:
            raise self._failure(token, context, error) from error
        made: dict[str, object] = {}
        is_for_slot = False
        for child in children:
            made[child.destination] = len(child.items)
            if child.stage == "batch":
                is_for_slot = True
            else:
                context.send(environment.plan.send_queue(child.destination), message_for(TaskToken(child.id)))
        action = NewAction(name="process", attempt=attempt, detail={"outputs": made})
        try:
            inside = environment.ledger.finish_process(token, environment.plan.name, children, action)
            context.make_room()
            await context.complete(inside=inside)
        except TaskConflict:
            return  # a person has cancelled it meanwhile: what was made of it is dropped with its message
        environment.report(TaskEnded(environment.plan.name, token.task, "process", "", "process"))
        if is_for_slot:
            environment.nudge()

    async def _children(self, token: TaskToken, sources: Sequence[Source], attempt: int) -> list[NewTask]:
        environment, children = self._environment, list[NewTask]()
        plan = environment.plan
        outputs = await called(plan.process, Report(token.task, items_of(sources), attempt), _listed)
        for name, items in grouped(outputs, plan, sources).items():
            destination = plan.destination(name)
            if destination.timing is not None:
                children.append(environment.maker().for_slot(environment.new_id(), destination, items, sources))
            else:
                children.append(await self._for_sending(destination, items, sources))
        return children

    async def _for_sending(
        self, destination: PipelineDestination, items: Sequence[Item], sources: Sequence[Source]
    ) -> NewTask:
        bodies = None if destination.merge is None else await called(destination.merge, list(items), bodies_of)
        if missing := missing_items(bodies, items):
            raise UsageError(f"merge for {destination.name} has left out item {next(iter(missing.values())).id}")
        environment = self._environment
        return environment.maker().for_sending(environment.new_id(), destination, items, sources, bodies)

    def _failure(self, token: TaskToken, context: Context, error: Exception) -> StageError:
        """Return what follows from an exception of the process function."""
        environment, plan = self._environment, self._environment.plan
        attempt = context.delayed_retries + 1
        is_final = isinstance(error, (*plan.final, UsageError, DestinationNotFound))
        if is_final or attempt >= plan.tries:
            return self._failed(token, context, said(error), "Rejected" if is_final else "MaxTries")
        delay = plan.retry[min(attempt, len(plan.retry)) - 1] if plan.retry else 0.0
        action = NewAction(name="process_warning", attempt=attempt, reason=said(error))
        environment.report(TaskFailed(plan.name, token.task, "process", "", action.name, action.reason, delay))
        decision = RedeliverLater(delay, inside=environment.ledger.warn(token, action))
        return StageError(said(error), decision, is_reported=True)

    def _failed(self, token: TaskToken, context: Context, reason: str, word: str) -> StageError:
        environment = self._environment
        detail: dict[str, object] = {DEAD_LETTER: context.sequence}
        action = NewAction(name="process_error", attempt=context.delayed_retries + 1, reason=reason, detail=detail)
        environment.report(TaskFailed(environment.plan.name, token.task, "process", "", action.name, reason, None))
        return StageError(reason, buried(environment, token, reason, word, action), is_reported=True)


def buried(environment: PipelineEnvironment, token: TaskToken, reason: str, word: str, action: NewAction) -> Decision:
    """Return the decision that a task has failed: its message becomes a dead letter in the same transaction."""
    return MoveToError(word, reason, inside=environment.ledger.fail(token, reason, action))


def _listed(outputs: object) -> list[object]:
    if outputs is None:
        return []
    if isinstance(outputs, str | bytes) or not isinstance(outputs, Iterable):
        raise UsageError(f"a process function must return or yield outputs, not {type(outputs).__name__}")
    return list(outputs)
