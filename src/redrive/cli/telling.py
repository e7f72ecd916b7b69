# SPDX-License-Identifier: MIT
"""Failed messages, groups and operations as people read them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from redrive.cli import screen, wording
from redrive.printable import one_line, printable
from redrive.recovery import (
    AuditEntry,
    DryRun,
    FailedMessage,
    GroupInfo,
    Note,
    Operation,
    Outcome,
    Part,
    Plan,
    Progress,
    Status,
)
from redrive.recovery.operation import in_the_way

STYLES = {
    Status.UNRESOLVED: "red",
    Status.RETRY_ISSUED: "cyan",
    Status.RESOLVED: "green",
    Status.ARCHIVED: "dim",
}
_OUTCOMES = {
    Outcome.SUCCEEDED: "green",
    Outcome.DONE: "green",
    Outcome.FAILED_AGAIN: "red",
    Outcome.FAILED: "red",
    Outcome.SKIPPED: "yellow",
}
SEGMENTS = (
    ("succeeded", "█", "green"),
    ("done", "█", "green"),
    ("closed", "■", "green"),
    ("superseded", "□", "dim"),
    ("waiting", "▓", "cyan"),
    ("failed_again", "▒", "red"),
    ("failed", "x", "bold red"),
    ("skipped", "░", "yellow"),
    ("cancelled", "-", "dim"),
    ("remaining", "·", "dim"),
)
"""What a bar of an operation is made of; each sign is another, so that it can be read without colours."""

_WORDS = {
    "waiting": "sent",
    "failed_again": "failed again",
    "closed": "closed by a person",
    "superseded": "sent once more since",
}


# --- failed messages


def failed_table(page: Sequence[FailedMessage]) -> Table:
    """Return failed messages, one a line."""
    right = ("number", "failed", "times")
    table = screen.table("number", "status", "queue", "failed", "times", "why", right=right, long=("why",))
    for each in page:
        table.add_row(
            str(each.number),
            Text(each.status.word, style=STYLES[each.status]),
            Text(one_line(each.queue)),
            screen.age(each.failed_at),
            str(each.attempts),
            why(each.exception_type, each.exception_message),
        )
    return table


def why(kind: str, said: str) -> Text:
    """Return an exception, as shortly as a column needs it: its class without the module, and what it said."""
    name = one_line(kind.rpartition(".")[2], 200)
    line = one_line(" ".join(said.split()))
    told = Text.assemble((name, "bold"), f": {line}" if name and line else line)
    told.no_wrap, told.overflow = True, "ellipsis"
    return told if told.plain else Text("-", style="dim")


def groups_table(groups: Sequence[GroupInfo]) -> Table:
    """Return groups, one a line."""
    noted = any(each.notes for each in groups)
    right = ("count", "first", "last", "notes")
    columns = ("count", "first", "last", *(["notes"] if noted else []), "group", "what")
    table = screen.table(*columns, right=right, long=("what",))
    for each in groups:
        row = [f"{each.count:,}", screen.age(each.first_failed_at), screen.age(each.last_failed_at)]
        row += [str(each.notes or "-")] if noted else []
        table.add_row(*row, Text(one_line(each.id)), Text(one_line(each.title)))
    return table


def pretty(body: bytes) -> Text:
    """Return a body as a terminal may show it: JSON in lines, as long as not a digit of it changes."""
    try:
        text = body.decode()
        lines = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        if _exact(lines) == _exact(text):
            return Text(printable(lines))
    except (ValueError, RecursionError):
        pass
    return screen.shown(body)


def _exact(text: str) -> Any:  # noqa: ANN401 - whatever JSON has
    return json.loads(text, parse_float=str, parse_int=str, object_pairs_hook=list)


def parts_table(parts: Sequence[Part], reasons: Mapping[str, Text] | None = None, *, of_message: bool = False) -> Table:
    """Return what became of messages in an operation, or of a message in its operations.

    Args:
        parts: the messages in the operations.
        reasons: why, by the message's id, for those that do not say.
        of_message: whether they are of one message.
    """
    first = "operation" if of_message else "message"
    table = screen.table(first, "outcome", "since", "why", right=(first, "since"), long=("why",))
    for each in parts:
        table.add_row(
            str(each.operation if of_message else each.failure),
            Text(each.outcome.word, style=_OUTCOMES.get(each.outcome, "")),
            screen.age(each.at),
            Text(one_line(each.reason)) if each.reason else (reasons or {}).get(each.id, ""),
        )
    return table


def note_lines(notes: Iterable[Note]) -> list[Text]:
    """Return notes."""
    return [
        Text.assemble(
            (f"  {each.number} · {screen.age(each.at)} ago · {one_line(each.actor, 100)}: ", "dim"),
            screen.indented(printable(each.text)).lstrip(),
        )
        for each in notes
    ]


# --- operations


def bar(progress: Progress, width: int) -> Text:
    """Return an operation's figures as a bar of signs."""
    cells = _shares([int(getattr(progress, name)) for name, _, _ in SEGMENTS], width)
    told = Text(no_wrap=True)
    for (_, sign, style), many in zip(SEGMENTS, cells, strict=True):
        told.append(sign * many, style)
    return told


def _shares(counts: list[int], width: int) -> list[int]:
    """Return how many of so many cells each count gets: one at least if it is there, and all cells together."""
    total = sum(counts)
    if not total:
        return [0] * (len(counts) - 1) + [width]
    cells = [max(1, count * width // total) if count else 0 for count in counts]
    while sum(cells) != width:
        biggest = max(range(len(cells)), key=lambda place: (cells[place], counts[place]))
        cells[biggest] += 1 if sum(cells) < width else -1
    return cells


def legend(progress: Progress) -> Text:
    """Return the figures that are not 0, each with its sign in the bar."""
    told = Text()
    for name, sign, style in SEGMENTS:
        if many := int(getattr(progress, name)):
            told.append("  " if told else "")
            told.append(f"{sign} ", style)
            told.append(f"{_WORDS.get(name, name)} {many:,}")
    return told


def operations_table(operations: Sequence[Operation]) -> Table:
    """Return operations, one a line."""
    right = ("operation", "asked", "total", "sent", "failed", "left")
    columns = ("operation", "does", "state", "asked", *right[2:], "filter")
    table = screen.table(*columns, right=right, long=("filter",))
    for each in operations:
        figures = each.progress
        table.add_row(
            str(each.number),
            each.plan.kind.value,
            state(each),
            screen.age(each.requested_at),
            *(f"{many:,}" for many in (figures.total, figures.forwarded)),
            _alarming(figures.failed + figures.failed_again),
            f"{figures.remaining:,}",
            Text(one_line(filter_text(each.plan)), no_wrap=True, overflow="ellipsis"),
        )
    return table


def _alarming(many: int) -> Text:
    return Text(f"{many:,}", style="red" if many else "")


def state(operation: Operation) -> Text:
    """Return an operation's state."""
    styles = {"completed": "green", "cancelled": "dim", "paused": "yellow"}
    return Text(operation.state.word, style=styles.get(operation.state.word, "cyan"))


def filter_text(plan: Plan) -> str:
    """Return which messages a plan is about."""
    return str(plan.filter) or "all unresolved"


def how_text(plan: Plan) -> str:
    """Return how a plan does its work, as far as it is not as usual."""
    told = [f"at most {plan.limit:,}"] if plan.limit else []
    told += [f"{plan.rate:g} a second"] if plan.rate else []
    if plan.canary:
        told.append(f"{plan.canary.count} first, of which {plan.canary.max_failures} may fail")
    told += [f"to {plan.redirect}"] if plan.redirect else []
    told += ["sent once more"] if plan.again else []
    told += ["an edited copy"] if plan.is_edit else []
    told += [f"not before {plan.not_before:%Y-%m-%d %H:%M:%S} UTC"] if plan.not_before else []
    if plan.transform and not plan.is_edit:
        told.append("changed: " + ", ".join(name.replace("_", " ") for name in plan.transform.to_json()))
    return "; ".join(told)


def trail_lines(entries: Sequence[AuditEntry]) -> list[Text]:
    """Return the audit trail: who did what, and below it why and what came of it."""
    lines: list[Text] = []
    for each in entries:
        what = (one_line(each.action), "bold")
        told = Text.assemble((f"{screen.age(each.at):>6} ago  ", "dim"), what, f" {one_line(each.subject)}")
        told.append(f"  by {one_line(each.actor)}" if each.actor else "", "dim")
        why_told = f" ({one_line(each.reason)})" if each.reason else ""
        outcome, style = one_line(each.outcome), "red" if each.outcome.startswith("refused") else ""
        told.append(f"\n            {outcome}{why_told}", style)
        lines.append(told)
    return lines


def foreseen(found: DryRun, verb: str, span: str = "") -> list[Text]:
    """Return what an operation would find.

    Args:
        found: that.
        verb: what would be done, if anything is sent.
        span: between which instants messages must have failed.
    """
    matches, free = wording.verb(found.matched, "matches"), wording.verb(found.free, "is")
    lines = [Text(f"{found.matched:,} {matches}, {found.free:,} {free} free to go")]
    lines += [Text(f"  failed {span}")] if span else []
    lines += [Text(f"  {many:,} {verb} {one_line(to)}") for to, many in found.by_destination.items()]
    if found.holders:
        left = f"{found.taken:,} {wording.verb(found.taken, 'is')} left alone"
        lines.append(Text(f"{left}: {in_the_way(found.holders, again='--again')}"))
    if found.unknown_ids:
        lines.append(Text(unknown(found.unknown_ids)))
    return lines


def unknown(ids: Sequence[str]) -> str:
    """Return a sentence about ids that nothing has."""
    return f"{wording.count(len(ids), 'id')} {wording.verb(len(ids), 'is')} unknown: {wording.some(ids)}"
