# SPDX-License-Identifier: MIT
"""Everything about one operation: its state, its figures, the request, and what can be done next."""

from collections.abc import Iterable

from rich.text import Text

from redrive.cli.output import console
from redrive.cli.output.message_text import note_lines
from redrive.cli.output.progress import legend, operation_bar
from redrive.cli.output.sentences import count, instant, length, some, span, verb
from redrive.cli.output.table import age
from redrive.cli.output.tables import filter_text, state_text
from redrive.printable import one_line
from redrive.recovery import Note, Operation, OperationState, Plan


def print_operation(operation: Operation) -> None:
    """Print an operation's state, its bar, its figures, and what to do next."""
    terminal, figures, number = console.out(), operation.progress, operation.number
    head = Text.assemble(f"operation {number} ({operation.plan.kind.value}) is ", state_text(operation))
    head.append(f": {one_line(operation.state_reason)}" if operation.state_reason else "")
    terminal.print(head, soft_wrap=True)
    if figures.total:
        share = f"  {figures.total - figures.remaining:,} of {figures.total:,}"
        width = max(10, min(60, terminal.width - 30))
        terminal.print(Text.assemble("  ", operation_bar(figures, width), share))
        terminal.print(Text.assemble("  ", legend(figures)))
    if operation.unknown_ids:
        terminal.print(Text(f"  {unknown_ids_text(operation.unknown_ids)}", style="yellow"), soft_wrap=True)
    for line in _next_steps(operation):
        terminal.print(Text(f"  {line}", style="dim"), soft_wrap=True)


def unknown_ids_text(ids: Iterable[str]) -> str:
    """Return a sentence about ids that no failed message has."""
    unknown = list(ids)
    return f"{count(len(unknown), 'id')} {verb(len(unknown), 'is')} unknown: {some(unknown)}"


def _next_steps(operation: Operation) -> list[str]:
    number, figures = operation.number, operation.progress
    lines: list[str] = []
    bad = [word for word in ("failed", "failed-again", "skipped") if getattr(figures, word.replace("-", "_"))]
    if bad:
        lines.append(f"messages without success: redrive operations show {number} --outcome {','.join(bad)}")
    if operation.state is OperationState.SCHEDULED and operation.plan.at is not None:
        begins = instant(operation.plan.at)
        lines.append(f"begins at {begins}; a service must be running by then: redrive operations run")
    if operation.state is OperationState.PAUSED:
        lines.append(f"continue: redrive operations resume {number}   give up: redrive operations cancel {number}")
    if operation.is_over and figures.waiting:
        lines.append(f"{figures.waiting:,} sent, result not known yet; look again: redrive operations show {number}")
    return lines


def print_request(operation: Operation, notes: Iterable[Note]) -> None:
    """Print what was requested, by whom and why, and the notes about it."""
    terminal = console.out()
    asked = f"{age(operation.requested_at)} ago" + (f" by {operation.actor}" if operation.actor else "")
    took = operation.ended_at and operation.started_at and operation.ended_at - operation.started_at
    facts = {
        "asked": asked + (f": {operation.reason}" if operation.reason else ""),
        "messages": filter_text(operation.plan),
        "failed": span(operation.plan.filter),
        "how": _how_text(operation.plan),
        "key": operation.key,
        "batches": f"{operation.batches:,}" + (f", {operation.batches_left:,} left" if operation.batches_left else ""),
        "took": took and length(took.total_seconds()),
        "later": operation.newcomers
        and f"{operation.newcomers:,} more match that failed later; they are not part of it",
        "seen by": operation.acknowledged_by,
    }
    terminal.print()
    for name, value in facts.items():
        if value:
            terminal.print(Text.assemble((f"  {name:<10}", "dim"), one_line(value, 10_000)), soft_wrap=True)
    for line in note_lines(notes):
        terminal.print(line, soft_wrap=True)


def _how_text(plan: Plan) -> str:
    """Return how a plan does its work, as far as it differs from the default."""
    parts = [f"at most {plan.limit:,}"] if plan.limit else []
    parts += [f"{plan.rate:g} a second"] if plan.rate else []
    if plan.canary:
        parts.append(f"{plan.canary.count} first, of which {plan.canary.max_failures} may fail")
    parts += [f"to {plan.redirect}"] if plan.redirect else []
    parts += ["sent once more"] if plan.again else []
    parts += ["an edited copy"] if plan.is_edit else []
    parts += [f"not before {instant(plan.at)}"] if plan.at else []
    if plan.transform and not plan.is_edit:
        parts.append("changed: " + ", ".join(name.replace("_", " ") for name in plan.transform.to_json()))
    return "; ".join(parts)
