# SPDX-License-Identifier: MIT
"""``redrive demo``: layer 1 at work, in the terminal."""

from typing import TYPE_CHECKING

from rich.panel import Panel
from rich.text import Text

from redrive.clock import system_clock
from redrive.errors import CircuitOpen
from redrive.retry import (
    Adaptive,
    AttemptFailed,
    BreakerChanged,
    CircuitBreaker,
    Exponential,
    RetryGaveUp,
    RetrySucceeded,
    retry,
)
from redrive.telemetry import Event

if TYPE_CHECKING:
    from rich.console import Console

_QUICK = Exponential(min=0.3, max=2.0, max_attempts=5)


class _Busy(ConnectionError):
    """A failure that says when to come back."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"busy, come back in {retry_after:g} s")
        self.retry_after = retry_after


class _Service:
    """Something outside that fails as it is told to: a list of outcomes, the last of which repeats."""

    def __init__(self, *outcomes: Exception | str) -> None:
        self._outcomes = list(outcomes)
        self.calls = 0

    def __call__(self) -> str:
        outcome = self._outcomes[min(self.calls, len(self._outcomes) - 1)]
        self.calls += 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def run_demo(console: "Console", *, fast: bool) -> None:
    """Show the four things that retrying a call is about."""
    if fast:
        with system_clock.skip_sleeps():
            _show(console)
    else:
        _show(console)


def _show(console: "Console") -> None:
    quiet = _Narrator(console)
    console.print(Panel("Redrive, layer 1: [bold]retry a call[/]", expand=False, border_style="cyan"))
    _glitch(console, quiet)
    _told_when(console, quiet)
    _outage(console, quiet)
    _mistake(console, quiet)
    console.print()


def _glitch(console: "Console", narrate: "_Narrator") -> None:
    console.print("\n[bold]1. A glitch.[/] Two failures, then it works. The caller never knows.")
    service = _Service(ConnectionError("connection reset"), ConnectionError("connection reset"), "charged")
    answer = retry(on=ConnectionError, policy=_QUICK, operation="charge", on_event=narrate).call(service)
    console.print(f"   the caller got {answer!r}", style="green")


def _told_when(console: "Console", narrate: "_Narrator") -> None:
    console.print("\n[bold]2. The server says when.[/] Adaptive waits as long as it is asked to, no less.")
    service = _Service(_Busy(1.0), _Busy(0.5), "reserved")
    answer = retry(on=_Busy, policy=Adaptive(_QUICK), operation="reserve", on_event=narrate).call(service)
    console.print(f"   the caller got {answer!r}", style="green")


def _outage(console: "Console", narrate: "_Narrator") -> None:
    console.print("\n[bold]3. An outage.[/] The breaker opens; the next caller fails at once.")
    breaker = CircuitBreaker("billing", failures=3, open_for=20)
    calls = retry(on=ConnectionError, policy=_QUICK, breaker=breaker, operation="bill", on_event=narrate)
    service = _Service(ConnectionError("connection refused"))
    try:
        calls.call(service)
    except ConnectionError as error:
        console.print(f"   the first caller got its own error: {error!r}", style="yellow")
    try:
        calls.call(service)
    except CircuitOpen as error:
        console.print(f"   the second caller: {error}", style="yellow")
    console.print(f"   calls that reached the service: {service.calls}")


def _mistake(console: "Console", narrate: "_Narrator") -> None:
    console.print("\n[bold]4. A mistake.[/] What is not worth repeating is not repeated.")
    service = _Service(ValueError("no such customer"))
    try:
        retry(on=ConnectionError, operation="look up", on_event=narrate).call(service)
    except ValueError as error:
        console.print(f"   the caller got {error!r} after {service.calls} call", style="yellow")


class _Narrator:
    """Tells every telemetry event in the demo's own words."""

    def __init__(self, console: "Console") -> None:
        self._console = console

    def __call__(self, event: Event) -> None:
        line = self._line(event)
        if line:
            self._console.print(Text(f"   {line}", style="dim"))

    def _line(self, event: Event) -> str:
        match event:
            case AttemptFailed(iteration=n, iteration_sleep=float(wait)):
                return f"attempt {n} failed: {event.exception_message}; next in {wait:.2f} s"
            case AttemptFailed(iteration=n):
                return f"attempt {n} failed: {event.exception_message}"
            case RetrySucceeded(iteration=n):
                return f"attempt {n} worked"
            case RetryGaveUp(why=why):
                return f"gave up: {why}"
            case BreakerChanged(breaker=name, before=before, after=after):
                return f"circuit breaker {name!r}: {before} -> {after}"
            case _:
                return ""
