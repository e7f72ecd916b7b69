# SPDX-License-Identifier: MIT
"""Lists of queues, messages, failed messages, groups and operations, one row each."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from redrive.broker import QueueInfo, Received, TopicInfo
from redrive.cli.output.message_text import body_line, exception_line
from redrive.cli.output.sentences import length
from redrive.cli.output.table import age, table
from redrive.clock import system_clock
from redrive.printable import one_line
from redrive.recovery import (
    AuditEntry,
    CountDifference,
    FailedMessage,
    GroupInfo,
    LaneInfo,
    Operation,
    Outcome,
    Part,
    Plan,
    SetAside,
    Status,
)

COUNTS = ("ready", "scheduled", "locked", "deferred", "dead")
STATUS_STYLES = {
    Status.UNRESOLVED: "red",
    Status.RETRY_ISSUED: "cyan",
    Status.RESOLVED: "green",
    Status.ARCHIVED: "dim",
}
_OUTCOME_STYLES = {
    Outcome.SUCCEEDED: "green",
    Outcome.DONE: "green",
    Outcome.FAILED_AGAIN: "red",
    Outcome.FAILED: "red",
    Outcome.SKIPPED: "yellow",
}


# --- queues and messages


def queues_table(queues: Iterable[QueueInfo]) -> Table:
    """Return queues and how many messages each has; dead letters are red."""
    made = table("queue", *COUNTS, "oldest", right=(*COUNTS, "oldest"))
    for queue in queues:
        counts = [Text(f"{count:,}" if count else "-") for count in (getattr(queue, name) for name in COUNTS)]
        if queue.dead:
            counts[-1].stylize("red")
        name = Text(one_line(queue.name))
        if queue.is_topic:
            name.append(" (topic)", style="dim")
        made.add_row(name, *counts, age(queue.oldest_at))
    return made


def topics_table(topics: Iterable[TopicInfo]) -> Table:
    """Return topics, and how many messages no subscription got."""
    made = table("topic", "subscriptions", "unmatched", "kept", right=("subscriptions", "unmatched"))
    for topic in topics:
        counts = [f"{number:,}" if number else "-" for number in (len(topic.subscriptions), topic.unmatched)]
        made.add_row(Text(one_line(topic.name)), *counts, "yes" if topic.settings.keep_unmatched else "no")
    return made


def subscriptions_table(topic: TopicInfo) -> Table:
    """Return the subscriptions of a topic, and which messages each gets."""
    made = table("subscription", "queue", "gets", long=("gets",))
    for each in topic.subscriptions:
        made.add_row(Text(one_line(each.name)), Text(one_line(each.queue)), Text(one_line(str(each.rule))))
    return made


def messages_table(messages: Iterable[Received]) -> Table:
    """Return messages of a queue."""
    right = ("number", "deliveries", "sent")
    made = table("number", "state", "deliveries", "sent", "id", "body", right=right, long=("body",))
    for each in messages:
        made.add_row(
            str(each.sequence),
            each.state.name.lower(),
            str(each.delivery_count),
            age(each.enqueued_at),
            Text(one_line(each.id)),
            body_line(each.body),
        )
    return made


def dead_letters_table(messages: Iterable[Received]) -> Table:
    """Return dead letters, and why each is one."""
    made = table("number", "sent", "why", "id", "body", right=("number", "sent"), long=("why", "body"))
    for each in messages:
        info = each.dead_letter_info
        reason = Text() if info is None else Text(one_line(info.reason))
        if info is not None and info.description:
            reason.append(f"\n{one_line(info.description)}", style="dim")
        made.add_row(str(each.sequence), age(each.enqueued_at), reason, Text(one_line(each.id)), body_line(each.body))
    return made


# --- failed messages


def failed_table(page: Sequence[FailedMessage]) -> Table:
    """Return failed messages."""
    right = ("number", "failed", "times")
    made = table("number", "status", "queue", "failed", "times", "why", right=right, long=("why",))
    for each in page:
        made.add_row(
            str(each.number),
            Text(each.status.word, style=STATUS_STYLES[each.status]),
            Text(one_line(each.queue)),
            age(each.failed_at),
            str(each.attempts),
            exception_line(each.exception_type, each.exception_message),
        )
    return made


def groups_table(groups: Sequence[GroupInfo]) -> Table:
    """Return groups of failed messages."""
    more = [name for name, cell in _GROUP_CELLS.items() if any(cell(each) for each in groups)]
    right = ("count", "first", "last", "notes", "again")
    made = table("count", "first", "last", *more, "group", "what", right=right, long=("what",))
    for each in groups:
        row = [f"{each.count:,}", age(each.first_failed_at), age(each.last_failed_at)]
        row += [_GROUP_CELLS[name](each) or "-" for name in more]
        style = "dim" if each.is_snoozed else ""
        made.add_row(*row, Text(one_line(each.id), style), Text(one_line(each.title), style))
    return made


def _share(group: GroupInfo) -> str:
    share = None if group.state is None else group.state.failed_again_share
    return f"{share:.0%}" if share else ""


def _snoozed(group: GroupInfo) -> str:
    until = None if group.state is None or not group.is_snoozed else group.state.snoozed_until
    return "" if until is None else length(until.timestamp() - system_clock.time())


_GROUP_CELLS: Mapping[str, Callable[[GroupInfo], str]] = {
    "notes": lambda group: str(group.notes or ""),
    "again": _share,
    "owner": lambda group: one_line(group.state.owner) if group.state is not None else "",
    "snoozed": _snoozed,
}
"""The columns that a list of groups has if one of them has something there."""


def statuses_table(counts: Mapping[Status, int]) -> Table:
    """Return how many failed messages there are of each status."""
    made = table("status", "count", right=("count",))
    for status, count in counts.items():
        made.add_row(Text(status.word, style=STATUS_STYLES[status]), f"{count:,}")
    return made


def differences_table(differences: Sequence[CountDifference]) -> Table:
    """Return the stored counts that are wrong."""
    right = ("counted", "there are")
    made = table("counted", "there are", "status", "queue", "group", "type", "exception", right=right)
    for each in differences:
        names = (each.queue, each.group, each.message_type, each.exception_type)
        status = Text(each.status.word, style=STATUS_STYLES[each.status])
        made.add_row(f"{each.counted:,}", f"{each.rows:,}", status, *(Text(one_line(name)) for name in names))
    return made


def parts_table(parts: Sequence[Part], reasons: Mapping[str, Text] | None = None, *, of_message: bool = False) -> Table:
    """Return the outcomes of messages in an operation, or of a message in its operations.

    Args:
        parts: the messages in the operations.
        reasons: why, by the message's id, for parts without a reason of their own.
        of_message: whether they are of one message.
    """
    first = "operation" if of_message else "message"
    made = table(first, "outcome", "since", "why", right=(first, "since"), long=("why",))
    for each in parts:
        made.add_row(
            str(each.operation if of_message else each.failure),
            Text(each.outcome.word, style=_OUTCOME_STYLES.get(each.outcome, "")),
            age(each.at),
            Text(one_line(each.reason)) if each.reason else (reasons or {}).get(each.id, ""),
        )
    return made


def set_asides_table(asides: Sequence[SetAside]) -> Table:
    """Return messages that could not be read as failures, and why."""
    made = table("number", "found in", "why", "id", "body", right=("number",), long=("why", "body"))
    for each in asides:
        made.add_row(
            str(each.number),
            Text(one_line(each.received.queue)),
            Text(one_line(each.reason)),
            Text(one_line(each.received.id)),
            body_line(each.received.body),
        )
    return made


# --- operations


def operations_table(operations: Sequence[Operation]) -> Table:
    """Return operations."""
    right = ("operation", "asked", "total", "sent", "failed", "left")
    columns = ("operation", "does", "state", "asked", *right[2:], "filter")
    made = table(*columns, right=right, long=("filter",))
    for each in operations:
        figures = each.progress
        failed = figures.failed + figures.failed_again
        made.add_row(
            str(each.number),
            each.plan.kind.value,
            state_text(each),
            age(each.requested_at),
            *(f"{number:,}" for number in (figures.total, figures.forwarded)),
            Text(f"{failed:,}", style="red" if failed else ""),
            f"{figures.remaining:,}",
            Text(one_line(filter_text(each.plan)), no_wrap=True, overflow="ellipsis"),
        )
    return made


def state_text(operation: Operation) -> Text:
    """Return an operation's state."""
    styles = {"completed": "green", "cancelled": "dim", "paused": "yellow"}
    return Text(operation.state.word, style=styles.get(operation.state.word, "cyan"))


def filter_text(plan: Plan) -> str:
    """Return which messages a plan is about."""
    return str(plan.filter) or "all unresolved"


def lanes_table(lanes: Sequence[LaneInfo]) -> Table:
    """Return lanes: destinations, and the process that sends to each."""
    made = table("lane", "batch", "strays", "process", right=("batch", "strays"))
    for each in lanes:
        batch = "-" if each.batch is None else str(each.batch)
        made.add_row(Text(one_line(each.name)), batch, f"{each.strays:,}", Text(one_line(each.session or "-")))
    return made


def trail_lines(entries: Sequence[AuditEntry]) -> list[Text]:
    """Return the audit trail: who did what, and below it the result and the reason."""
    lines: list[Text] = []
    for each in entries:
        action = (one_line(each.action), "bold")
        line = Text.assemble((f"{age(each.at):>6} ago  ", "dim"), action, f" {one_line(each.subject)}")
        line.append(f"  by {one_line(each.actor)}" if each.actor else "", "dim")
        reason = f" ({one_line(each.reason)})" if each.reason else ""
        style = "red" if each.outcome.startswith("refused") else ""
        line.append(f"\n            {one_line(each.outcome)}{reason}", style)
        lines.append(line)
    return lines
