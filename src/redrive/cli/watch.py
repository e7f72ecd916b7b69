# SPDX-License-Identifier: MIT
"""Working on an operation until it is over, with a bar that shows its progress.

The command does the work itself, beside any other process that serves the same store: each takes what is free. So an
SQLite file and nothing else is enough, and a service that is running is not disturbed.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import OpenRecovery, with_recovery
from redrive.cli.options.connection import RecoveryConnection
from redrive.cli.options.sources import Sources
from redrive.cli.output import console
from redrive.cli.output.operation_detail import print_operation
from redrive.cli.output.progress import legend, operation_bar
from redrive.cli.output.sentences import count, length, verb
from redrive.cli.stop_signals import interrupts
from redrive.clock import utc
from redrive.recovery import MessagesEjected, Operation, OperationState, RecoveryFault, views
from redrive.telemetry import Event

_LOOK_EVERY_S = 0.2
_RATE_OVER_S = 10.0


def run_operation(
    connection: RecoveryConnection,
    sources: Sources,
    wait: float,
    request: Callable[[OpenRecovery], Awaitable[Operation]],
    *,
    is_left: Callable[[Operation], bool] = lambda _operation: False,
    functions: tuple[str, ...] = (),
) -> None:
    """Request an operation, work on it until it is over, and print the result.

    Args:
        connection: where the queues and the failed messages are.
        sources: the queues that failures are read from.
        wait: seconds without a result, after which the command waits no longer.
        request: requests the operation, or finds one.
        is_left: whether to leave the work on an operation to a service.
        functions: the functions that may change messages.
    """
    watches: list[Watch] = []

    async def work(opened: OpenRecovery) -> Operation:
        operation = await request(opened)
        if is_left(operation):
            return operation
        watches.append(Watch(opened, wait))
        return await watches[0].until_over(operation.number)

    operation = with_recovery(connection, work, sources.without_ingest, functions=functions)
    _conclude(operation, watches[0] if watches else None, as_json=connection.as_json)


@dataclass(slots=True)
class Watch:
    """What is seen of an operation while it is worked on.

    Attributes:
        opened: recovery.
        wait: seconds without a result, after which the command waits no longer.
        is_interrupted: whether Ctrl-C stopped the watch.
        others: how many other processes serve, when last looked at.
        done: how many messages were done at which time, of late.
    """

    opened: OpenRecovery
    wait: float
    is_interrupted: bool = False
    others: int = 0
    done: "deque[tuple[float, int]]" = field(default_factory=deque)

    async def until_over(self, number: int) -> Operation:
        """Work until an operation is over or paused, or Ctrl-C; return what it is by then."""
        recovery = self.opened.recovery
        service = asyncio.create_task(recovery.run())
        terminal = console.err()
        try:
            self.others = await self._others()
            with self._display(terminal) as display, interrupts() as signals:
                console.hint(f"operation {number}; {self._after_interrupt(number)}")
                operation = await recovery.operation(number, newcomers=False)
                async for operation in recovery.follow(number, every=_LOOK_EVERY_S, until_heard=self.wait):
                    display(self._drawn(operation, await self._pace(operation), terminal.width))
                    if signals.count or operation.state is OperationState.PAUSED:
                        break
                    if service.done():
                        service.result()
                self.is_interrupted = signals.count > 0
                self.others = await self._others() if self.is_interrupted else self.others
                return operation
        finally:
            recovery.stop()
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)

    async def _others(self) -> int:
        """Return how many processes serve beside this one."""
        services = await self.opened.recovery.services()
        return sum(each.session != self.opened.recovery.session for each in services)

    def _after_interrupt(self, number: int) -> str:
        if self.others:
            return f"after Ctrl-C {_others_continue(self.others)}"
        return f"no other process serves: after Ctrl-C it waits for redrive operations watch {number}"

    @contextmanager
    def _display(self, terminal: Console) -> Generator[Callable[[Group], None]]:
        """Return what draws the bar; it draws on a terminal only."""
        self.opened.ingested.observer = lambda event: _print_event(terminal, event)
        try:
            if not terminal.is_terminal:
                yield lambda _drawn: None
                return
            with Live(console=terminal, transient=True, auto_refresh=False, screen=False) as live:
                yield lambda drawn: live.update(drawn, refresh=True)
        finally:
            self.opened.ingested.observer = None

    def _drawn(self, operation: Operation, pace: str, columns: int) -> Group:
        figures = operation.progress
        width = max(10, min(60, columns - 36))
        line = Text.assemble(operation_bar(figures, width), f"  {figures.share:4.0%}  ", (pace, "dim"))
        head = Text(f"operation {operation.number} · {operation.plan.kind.value} · {operation.state.word}")
        return Group(head, line, legend(figures))

    async def _pace(self, operation: Operation) -> str:
        """Return how fast it goes and how long it will take, or what it waits for."""
        figures, now = operation.progress, self.opened.broker.clock.monotonic()
        self.done.append((now, figures.total - figures.remaining))
        while now - self.done[0][0] > _RATE_OVER_S:
            self.done.popleft()
        if operation.state is OperationState.SCHEDULED and operation.plan.at is not None:
            left = operation.plan.at - utc(self.opened.broker.clock.time())
            return f"begins in {length(left.total_seconds())}"
        if operation.state is OperationState.WATCHING:
            return "waiting for the canaries"
        if operation.is_over:
            return "waiting for results" if figures.waiting else ""
        (start, before), (end, after) = self.done[0], self.done[-1]
        if after > before:
            rate = (after - before) / (end - start)
            return f"{rate:,.0f}/s  {length(figures.remaining / rate)} left"
        return "another process works on it" if end - start > 1.0 and await self._is_elsewhere() else ""

    async def _is_elsewhere(self) -> bool:
        """Say whether another process has a lane: one that works, or one that died and whose lease has not ended."""
        recovery = self.opened.recovery
        return any(each.session not in (None, recovery.session) for each in await recovery.lanes())


def _print_event(terminal: Console, event: Event) -> None:
    if isinstance(event, RecoveryFault | MessagesEjected):
        terminal.print(Text(str(event), style="yellow"), soft_wrap=True)


# --- the end of it


def _conclude(operation: Operation, watch: Watch | None, *, as_json: bool) -> None:
    """Print the result of an operation, and end the command with its status."""
    if as_json:
        console.print_json(views.operation_view(operation))
    else:
        print_operation(operation)
    if watch is not None and watch.is_interrupted:
        _print_ways_on(operation, watch.others)
        raise typer.Exit(int(ExitStatus.INTERRUPTED))
    if operation.state in (OperationState.PAUSED, OperationState.CANCELLED):
        raise typer.Exit(int(ExitStatus.STOPPED))
    if watch is not None and operation.progress.failed + operation.progress.failed_again:
        raise typer.Exit(int(ExitStatus.NOT_ALL))


def _others_continue(others: int) -> str:
    return f"{count(others, 'other process')} {verb(others, 'continues')} with it"


def _print_ways_on(operation: Operation, others: int) -> None:
    if operation.is_over:
        return
    number = operation.number
    state = _others_continue(others) if others else "no other process serves, so nothing more is sent for now"
    console.err().print(
        f"stopped watching operation {number}: {state}\n"
        f"  continue  redrive operations watch {number}\n"
        f"  pause     redrive operations pause {number}\n"
        f"  give up   redrive operations cancel {number}",
        soft_wrap=True,
    )
