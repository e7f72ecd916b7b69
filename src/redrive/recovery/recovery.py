# SPDX-License-Identifier: MIT
"""Recovery as a program uses it: find failures, put them right in bulk, and see what came of it."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from redrive.broker import Broker, random_id
from redrive.broker.rules import ERROR_QUEUE, is_dead_letter_queue
from redrive.clock import pause
from redrive.errors import InvalidSetting, OperationConflict, UsageError
from redrive.printable import one_line
from redrive.recovery.arrivals import SetAside
from redrive.recovery.bookkeeping import Bookkeeper
from redrive.recovery.chosen import Chosen, asked_for, check_stated, subject_of
from redrive.recovery.environment import Tools
from redrive.recovery.events import MessageSetAside, OperationChanged
from redrive.recovery.filter import Filter
from redrive.recovery.ingest import Classifier, Ingester, with_dead_letters
from redrive.recovery.ledger import Ledger
from redrive.recovery.operation import Kind, Operation, Plan
from redrive.recovery.queries import PAGE
from redrive.recovery.queues_by_route import QueuesByRoute, without_routes
from redrive.recovery.records import (
    FailedMessage,
    OperationRequest,
    check_words,
)
from redrive.recovery.service import Service, ServiceSettings, Step
from redrive.recovery.settings import RecoveryRequest, RequestedBy, check_known
from redrive.recovery.states import OperationEvent, OperationState, Status
from redrive.recovery.transform import Transform
from redrive.recovery.transformer import Transformer
from redrive.telemetry import Event, is_reported, report

T = TypeVar("T")


class Recovery(Bookkeeper):
    """Failed messages, and what is done about them. Made by ``redrive.open_recovery``.

    Use it as ``async with open_recovery(broker) as recovery``. To read failures and do the work, run it
    (``await recovery.run()``) in one process or in many; to only look and ask, do not.

    Args:
        broker: where the queues are.
        ledger: where failures and operations are kept.
        sources: the error queues and dead-letter queues to read.
        classifiers: further ways to group failures: by name, a function of the failure and the message.
        events_queue: a queue that gets a message for each failure and each recovery.
        settings: how the work is done.
        new_id: names processes and attempts.
        chance: where random numbers come from.
        on_event: gets every event, beside logging and OpenTelemetry.
        queues_by_route: returns the queues of every route there is, by its name.
    """

    def __init__(
        self,
        broker: Broker,
        ledger: Ledger,
        *,
        sources: Sequence[str] = (ERROR_QUEUE,),
        classifiers: Mapping[str, Classifier] | None = None,
        events_queue: str | None = None,
        settings: ServiceSettings | None = None,
        new_id: Callable[[], str] = random_id,
        chance: Callable[[], float] = random.random,  # noqa: TID251 - the default; tests pass their own
        on_event: Callable[[Event], object] | None = None,
        queues_by_route: QueuesByRoute = without_routes,
    ) -> None:
        settings = settings or ServiceSettings()
        super().__init__(broker, ledger, settings.transforms, queues_by_route)
        self._report: Callable[[Event], None] = partial(report, on_event=on_event)
        tools = Tools(
            broker=broker,
            ledger=ledger,
            new_id=new_id,
            chance=chance,
            report=self._report,
            is_reported=partial(is_reported, on_event=on_event),
        )
        self._event_queues = () if events_queue is None else (events_queue,)
        read = with_dead_letters(sources)
        self._ingester = Ingester(
            tools,
            classifiers=_checked(classifiers),
            events_queue=events_queue,
            error_queues=[queue for queue in read if not is_dead_letter_queue(queue)],
        )
        self._service = Service(tools, self._ingester, sources=read, settings=settings)
        self._is_open = False
        self._runs: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect, and declare the queues it needs. ``async with`` does it for you."""
        if self._is_open:
            raise UsageError("this recovery is open already; share it between tasks")
        await self._ledger.open()
        try:
            await self._service.prepare(*self._event_queues)
        except BaseException:
            await self._ledger.close()
            raise
        self._is_open = True

    async def close(self) -> None:
        """Let ``run`` come to an end, wait for it, and disconnect; nothing if it is not open."""
        if not self._is_open:
            return
        self._is_open = False
        self._service.stop()
        if self._runs:
            await asyncio.wait(self._runs)
        await self._ledger.close()

    @property
    def ledger(self) -> Ledger:
        """The store of failures and operations, for programs that build on the port itself."""
        return self._ledger

    @property
    def session(self) -> str:
        """The name of this process in the ledger."""
        return self._service.session

    # --- the work

    async def run(self) -> None:
        """Read failures and work on operations until ``stop`` is called or the task is cancelled."""
        run = asyncio.get_running_loop().create_future()
        self._runs.add(run)
        try:
            await self._service.run()
        finally:
            self._runs.remove(run)
            run.set_result(None)

    def stop(self) -> None:
        """Let ``run`` come to an end. What is under way goes on when it runs again, here or elsewhere."""
        self._service.stop()

    async def ingest(self) -> bool:
        """Read all failures that are there now; False if there were none."""
        return await self._service.ingest()

    async def step(self) -> Step:
        """Do everything that can be done now, and return: true if that was something, and when there is more to do."""
        return await self._service.step()

    # --- recovering

    async def recover(self, chosen: Chosen, **how: Unpack[RecoveryRequest]) -> Operation:
        """Ask for messages to be sent to where they failed, and return the operation that does it.

        The request is stored before this returns. Whatever fails or changes after that is not part of it.

        Raises:
            OperationConflict: an operation has the same messages already; it is named.
            QueueNotFound: the messages are redirected to a queue that is not declared.
        """

        async def request() -> Operation:
            check_known("recover", how, RecoveryRequest)
            check_stated(chosen)
            plan, malformed = await self._plan(chosen, how)
            return await self._request(plan, malformed, how, asked=asked_for(chosen, how))

        return await self._audited("recover", subject_of(chosen), how, request())

    async def edit(self, id: str, transform: Transform, **who: Unpack[RequestedBy]) -> Operation:  # noqa: A002 - as in show
        """Send an edited copy of a failed message, with an id of its own; the two are linked both ways.

        Raises:
            FailureNotFound: there is none with that id.
            OperationConflict: another operation has the message already; the error names it.
            TransformFailed: the message cannot be changed like that.
        """

        async def request() -> Operation:
            check_known("edit", who, RequestedBy)
            found = await self.show(id)
            is_repeated = (
                "key" in who and who["key"] is not None and await self._ledger.requested(who["key"]) is not None
            )
            if found.summary.status is not Status.UNRESOLVED and not is_repeated:
                raise await self._not_editable(found.summary)
            async with Transformer(self._transforms) as transformer:
                await transformer.apply(transform, found.message)
            plan = Plan(filter=Filter(ids=(id,)), transform=transform, is_edit=True)
            return await self._request(plan, (), who, asked=asked_for(id, {"transform": transform}))

        return await self._audited("edit", f"failure:{id}", who, request())

    async def _not_editable(self, failed: FailedMessage) -> UsageError:
        if failed.status is not Status.RETRY_ISSUED or failed.operation is None:
            return InvalidSetting("id", failed.id, f"is {failed.status.word}; restore it first")
        actor = (await self._ledger.operation(failed.operation)).actor
        who = f", requested by {one_line(actor, 100)}," if actor else ""
        return OperationConflict(failed.operation, f"has sent it already{who} and nothing was heard of it yet")

    async def archive(self, chosen: Chosen, *, limit: int | None = None, **who: Unpack[RequestedBy]) -> Operation:
        """Archive messages that need no recovery; they are kept until ``sweep`` deletes them."""
        return await self._settle(Kind.ARCHIVE, chosen, limit, who)

    async def restore(self, chosen: Chosen, *, limit: int | None = None, **who: Unpack[RequestedBy]) -> Operation:
        """Make messages unresolved again that were archived or resolved."""
        return await self._settle(Kind.RESTORE, chosen, limit, who)

    async def resolve(self, chosen: Chosen, *, limit: int | None = None, **who: Unpack[RequestedBy]) -> Operation:
        """Note that messages need no recovery, or that those that were sent have been handled."""
        return await self._settle(Kind.RESOLVE, chosen, limit, who)

    # --- operations

    async def pause(self, number: int, *, actor: str = "", reason: str = "") -> Operation:
        """Stop sending for now. Staged messages are taken back."""
        return await self._change(number, OperationEvent.PAUSE, actor, reason)

    async def resume(self, number: int, *, actor: str = "", reason: str = "") -> Operation:
        """Go on with an operation that was paused, or that its canaries stopped."""
        return await self._change(number, OperationEvent.RESUME, actor, reason)

    async def cancel(self, number: int, *, actor: str = "", reason: str = "") -> Operation:
        """Cancel an operation; messages that were not sent are free again. After this returns, none is sent."""
        operation = await self.operation(number, newcomers=False)
        if operation.state is not OperationState.CANCELLING:  # requested before, perhaps without an answer
            operation = await self._change(number, OperationEvent.CANCEL, actor, reason)
        nap = 0.05
        while not operation.is_over:
            if not await self._service.work():  # another process is in the middle of something, or was when it died
                await pause(self._broker.clock, nap)
                nap = min(2 * nap, 1.0)
            operation = await self.operation(number, newcomers=False)
        return operation

    async def set_rate(self, number: int, rate: float | None, *, actor: str = "") -> Operation:
        """Change how many messages a second an operation sends to each destination; None: as fast as it goes."""
        changing = self._ledger.set_rate(number, rate, actor=actor)
        return await self._audited("set-rate", f"operation:{number}", {"actor": actor}, changing)

    async def acknowledge(self, number: int, *, actor: str = "") -> None:
        """Note that a person has seen how an operation ended."""
        noting = self._ledger.acknowledge(number, actor=actor)
        await self._audited("acknowledge", f"operation:{number}", {"actor": actor}, noting)

    # --- what could not be read

    async def reimport(self, *, queue: str | None = None, actor: str = "") -> tuple[int, int]:
        """Read again what was set aside; return how many could be read, and how many still cannot.

        Args:
            queue: the queue they failed in, for those that do not say.
            actor: who asks for it.
        """
        subject = "set aside" if queue is None else f"set aside, failed in {queue}"
        await self._write_down("reimport", subject, {"actor": actor}, "begun")
        read = left = after = 0
        while page := await self._ledger.aside(after=after, limit=PAGE):
            after = page[-1].number
            for each in page:
                is_read = not await self._still_unreadable(each, queue)
                read, left = read + is_read, left + (not is_read)
                if is_read:
                    await self._ledger.drop_aside(each.number)
        await self._write_down("reimport", subject, {"actor": actor}, f"{read} read, {left} left")
        return read, left

    async def _still_unreadable(self, aside: SetAside, queue: str | None) -> bool:
        events = await self._ingester.record([aside.received], queue=queue)
        return any(isinstance(event, MessageSetAside) for event in events)

    # --- inside

    async def _settle(self, kind: Kind, chosen: Chosen, limit: int | None, who: Mapping[str, Any]) -> Operation:
        async def request() -> Operation:
            check_known(kind.value, who, RequestedBy)
            check_stated(chosen)
            wanted, malformed = await self._filter_and_malformed(chosen)
            asked = asked_for(chosen, {} if limit is None else {"limit": limit})
            return await self._request(Plan(kind=kind, filter=wanted, limit=limit), malformed, who, asked=asked)

        return await self._audited(kind.value, subject_of(chosen), who, request())

    async def _request(
        self, plan: Plan, malformed: tuple[str, ...], who: Mapping[str, Any], *, asked: str
    ) -> Operation:
        ask = OperationRequest(
            plan=plan,
            actor=who.get("actor", ""),
            reason=who.get("reason", ""),
            key=who.get("key"),
            asked=f"{plan.kind.value} {asked}",
            malformed_ids=malformed,
        )
        operation = await self._ledger.request(ask)
        self._tell(operation, ask.actor, ask.reason)
        await self._service.wake()
        return operation

    async def _change(self, number: int, event: OperationEvent, actor: str, reason: str) -> Operation:
        who = {"actor": check_words("actor", actor), "reason": check_words("reason", reason)}
        changing = self._ledger.change(number, event, actor=actor, reason=reason)
        operation = await self._audited(event.name.lower(), f"operation:{number}", who, changing)
        self._tell(operation, actor, reason)
        await self._service.wake()
        return operation

    def _tell(self, operation: Operation, actor: str, reason: str) -> None:
        self._report(OperationChanged(operation.number, operation.plan.kind.value, operation.state.word, actor, reason))


def _checked(classifiers: Mapping[str, Classifier] | None) -> Mapping[str, Classifier]:
    for name in classifiers or ():
        if name in ("exception", "queue", "type"):
            raise InvalidSetting("classifiers", name, "is a classifier that is there already; choose another name")
    return classifiers or {}
