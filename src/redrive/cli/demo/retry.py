# SPDX-License-Identifier: MIT
"""``redrive demo``, layer 1: a connection that breaks, a service that is down."""

from contextlib import nullcontext
from typing import TYPE_CHECKING

from rich.text import Text

from redrive.clock import system_clock
from redrive.errors import CircuitOpen
from redrive.retry import (
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

_QUICK = Exponential(min=0.2, max=1.0, max_attempts=5)


class _Service:
    """A service with a list of outcomes, one for each call; the last one repeats."""

    def __init__(self, *outcomes: Exception | str) -> None:
        self._outcomes = list(outcomes)
        self.calls = 0

    def __call__(self) -> str:
        outcome = self._outcomes[min(self.calls, len(self._outcomes) - 1)]
        self.calls += 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def show_retries(console: "Console", *, fast: bool) -> None:
    """Show calls that are made again, without the waits in between if that is to be fast."""
    console.print("\n[bold cyan]Layer 1: retry the call[/]")
    narrate = _Narrator(console)
    with system_clock.skip_sleeps() if fast else nullcontext():
        _glitch(console, narrate)
        _outage(console, narrate)


def _glitch(console: "Console", narrate: "_Narrator") -> None:
    console.print("  A connection breaks twice. The caller does not notice.")
    service = _Service(ConnectionError("connection reset"), ConnectionError("connection reset"), "charged")
    answer = retry(on=ConnectionError, policy=_QUICK, operation="charge", on_event=narrate).call(service)
    console.print(f"    the caller got {answer!r}", style="green")


def _outage(console: "Console", narrate: "_Narrator") -> None:
    console.print("  A service is down. The circuit breaker opens; the next caller fails at once.")
    breaker = CircuitBreaker("billing", failures=3, open_for=20)
    calls = retry(on=ConnectionError, policy=_QUICK, breaker=breaker, operation="bill", on_event=narrate)
    service = _Service(ConnectionError("connection refused"))
    try:
        calls.call(service)
    except ConnectionError as error:
        console.print(f"    the first caller got its own error: {error!r}", style="yellow")
    try:
        calls.call(service)
    except CircuitOpen as error:
        console.print(f"    the second caller: {error}", style="yellow")


class _Narrator:
    """Prints each telemetry event as a line."""

    def __init__(self, console: "Console") -> None:
        self._console = console

    def __call__(self, event: Event) -> None:
        line = self._line(event)
        if line:
            self._console.print(Text(f"    {line}", style="dim"))

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
