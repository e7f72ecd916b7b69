# SPDX-License-Identifier: MIT
"""Working on an operation until it is over, with a bar that shows how far it is.

The command does the work itself, beside any other process that serves the same store: each takes what is free. So an
SQLite file and nothing else is enough, and a service that is there already is not disturbed.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from redrive.cli import screen, telling, wording
from redrive.cli.exit_status import ExitStatus
from redrive.cli.interrupts import first_interrupt
from redrive.cli.ledgers import Desk
from redrive.clock import utc
from redrive.printable import one_line
from redrive.recovery import MessagesEjected, Operation, OperationState, RecoveryFault, views
from redrive.telemetry import Event

_LOOK_EVERY_S = 0.2
_RATE_OVER_S = 10.0


@dataclass(slots=True)
class Watch:
    """What is seen of an operation while it is worked on.

    Attributes:
        desk: recovery.
        wait: seconds without word of a message that was sent, after which nobody waits for more.
        is_interrupted: whether somebody wants to stop watching.
        others: how many other processes serve, when last looked at.
        done: how much was done at which time, of late.
    """

    desk: Desk
    wait: float
    is_interrupted: bool = False
    others: int = 0
    done: "deque[tuple[float, int]]" = field(default_factory=deque)

    async def until_over(self, number: int) -> Operation:
        """Work until an operation is over, stopped, or nobody watches any more; return what it is by then."""
        service = asyncio.create_task(self.desk.recovery.run())
        console = screen.err()
        try:
            self.others = await self._others()
            with self._shown(console) as live, first_interrupt() as interrupt:
                screen.hint(f"operation {number}; {self._after_an_interrupt(number)}")
                operation = await self.desk.recovery.operation(number, newcomers=False)
                async for operation in self.desk.recovery.follow(number, every=_LOOK_EVERY_S, until_heard=self.wait):
                    live.update(self._drawn(operation, await self._pace(operation), console.width))
                    if interrupt.is_set or operation.state is OperationState.PAUSED:
                        break
                    if service.done():
                        service.result()
                self.is_interrupted = interrupt.is_set
                self.others = await self._others() if interrupt.is_set else self.others
                return operation
        finally:
            self.desk.recovery.stop()
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)

    async def _others(self) -> int:
        """Return how many processes serve beside this one."""
        services = await self.desk.recovery.services()
        return sum(each.session != self.desk.recovery.session for each in services)

    def _after_an_interrupt(self, number: int) -> str:
        if self.others:
            return f"after Ctrl-C {wording.count(self.others, 'other process')} {_goes_on(self.others)} with it"
        return f"nobody else serves: after Ctrl-C it waits for redrive operations watch {number}"

    @contextmanager
    def _shown(self, console: Console) -> Generator[Live]:
        """Show a bar, to people only."""
        live = Live(console=console, transient=True, auto_refresh=False, screen=False)
        self.desk.tally.shown_by = lambda event: _tell(console, event)
        try:
            if not console.is_terminal:
                yield live
                return
            with live:
                yield _Refreshing(live)  # type: ignore[misc]  # it does the one thing that is asked of it
        finally:
            self.desk.tally.shown_by = None

    def _drawn(self, operation: Operation, pace: str, columns: int) -> Group:
        width = max(10, min(60, columns - 36))
        told = Text.assemble(telling.bar(operation.progress, width), f"  {operation.progress.share:4.0%}  ")
        told.append(pace, "dim")
        head = Text(f"operation {operation.number} · {operation.plan.kind.value} · {operation.state.word}")
        return Group(head, told, telling.legend(operation.progress))

    async def _pace(self, operation: Operation) -> str:
        """Return how fast it goes and how long it will take, or what it waits for."""
        figures, now = operation.progress, self.desk.broker.clock.monotonic()
        self.done.append((now, figures.total - figures.remaining))
        while now - self.done[0][0] > _RATE_OVER_S:
            self.done.popleft()
        if operation.state is OperationState.SCHEDULED and operation.plan.not_before is not None:
            left = operation.plan.not_before - utc(self.desk.broker.clock.time())
            return f"begins in {screen.length(left.total_seconds())}"
        if operation.state is OperationState.WATCHING:
            return "waiting for the first ones"
        if operation.is_over:
            return "waiting for word of them" if figures.waiting else ""
        (start, before), (end, after) = self.done[0], self.done[-1]
        if after > before:
            rate = (after - before) / (end - start)
            return f"{rate:,.0f}/s  {screen.length(figures.remaining / rate)} left"
        return "another process has it" if end - start > 1.0 and await self._is_elsewhere() else ""

    async def _is_elsewhere(self) -> bool:
        """Say whether another process has a lane: one that is at work, or one that died and is waited for."""
        return any(each.session not in (None, self.desk.recovery.session) for each in await self.desk.recovery.lanes())


class _Refreshing:
    """A live display that is drawn whenever it changes."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def update(self, drawn: Group) -> None:
        self._live.update(drawn, refresh=True)


def _tell(console: Console, event: Event) -> None:
    if isinstance(event, RecoveryFault | MessagesEjected):
        console.print(Text(str(event), style="yellow"), soft_wrap=True)


# --- the end of it


def conclude(operation: Operation, watch: Watch | None, *, as_json: bool) -> None:
    """Tell what an operation has come to, and end the command with the status that says so."""
    if as_json:
        screen.print_json(views.operation_view(operation))
    else:
        tell(operation)
    if watch is not None and watch.is_interrupted:
        _tell_ways_on(operation, watch.others)
        raise typer.Exit(int(ExitStatus.INTERRUPTED))
    if operation.state in (OperationState.PAUSED, OperationState.CANCELLED):
        raise typer.Exit(int(ExitStatus.STOPPED))
    if watch is not None and operation.progress.failed + operation.progress.failed_again:
        raise typer.Exit(int(ExitStatus.NOT_ALL))


def tell(operation: Operation) -> None:
    """Print an operation's state, its bar, its figures, and what to do next."""
    console, figures, number = screen.out(), operation.progress, operation.number
    head = Text.assemble(f"operation {number} ({operation.plan.kind.value}) is ", telling.state(operation))
    head.append(f": {one_line(operation.state_reason)}" if operation.state_reason else "")
    console.print(head, soft_wrap=True)
    if figures.total:
        share = f"  {figures.total - figures.remaining:,} of {figures.total:,}"
        console.print(Text.assemble("  ", telling.bar(figures, max(10, min(60, console.width - 30))), share))
        console.print(Text.assemble("  ", telling.legend(figures)))
    if operation.unknown_ids:
        console.print(Text(f"  {telling.unknown(operation.unknown_ids)}", style="yellow"), soft_wrap=True)
    for line in _next_steps(operation):
        console.print(Text(f"  {line}", style="dim"), soft_wrap=True)


def _next_steps(operation: Operation) -> list[str]:
    number, figures = operation.number, operation.progress
    lines: list[str] = []
    bad = [word for word in ("failed", "failed-again", "skipped") if getattr(figures, word.replace("-", "_"))]
    if bad:
        lines.append(f"what did not go through: redrive operations show {number} --outcome {','.join(bad)}")
    if operation.state is OperationState.SCHEDULED and operation.plan.not_before is not None:
        when = wording.instant(operation.plan.not_before)
        lines.append(f"begins at {when}; somebody has to be at work by then: redrive operations run")
    if operation.state is OperationState.PAUSED:
        lines.append(f"go on: redrive operations resume {number}   give up: redrive operations cancel {number}")
    if operation.is_over and figures.waiting:
        lines.append(f"nothing was heard of {figures.waiting:,} so far; later: redrive operations show {number}")
    return lines


def _goes_on(others: int) -> str:
    return "goes on" if others == 1 else "go on"


def _tell_ways_on(operation: Operation, others: int) -> None:
    if operation.is_over:
        return
    number = operation.number
    state = "nobody else serves, so nothing more is sent until somebody goes on with it"
    if others:
        state = f"{wording.count(others, 'other process')} {_goes_on(others)} with it"
    screen.err().print(
        f"stopped watching operation {number}: {state}\n"
        f"  go on      redrive operations watch {number}\n"
        f"  let it be  redrive operations pause {number}\n"
        f"  give up    redrive operations cancel {number}",
        soft_wrap=True,
    )
