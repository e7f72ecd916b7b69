# SPDX-License-Identifier: MIT
"""Everything about one message: a received one, a dead letter, a failed message."""

from rich.text import Text

from redrive.broker import Delivery, Received
from redrive.cli.output import console
from redrive.cli.output.message_text import body_lines, body_text, header_text, indented, note_lines
from redrive.cli.output.redaction import redaction
from redrive.cli.output.sentences import count, instant
from redrive.cli.output.table import age, print_table
from redrive.cli.output.tables import STATUS_STYLES, parts_table
from redrive.printable import one_line, printable
from redrive.recovery import FailedDetail


def print_delivery(delivery: Delivery) -> None:
    """Print a received message: one line about it, its headers and its body."""
    terminal = console.out()
    sent = age(delivery.enqueued_at)
    head = f"number {delivery.sequence} · delivery {delivery.delivery_count} · {sent} old · {delivery.id}"
    terminal.print(Text(one_line(head), style="dim"), soft_wrap=True)
    for name, value in delivery.headers.items():
        terminal.print(header_text(name, value), soft_wrap=True)
    terminal.print(body_text(delivery.body), soft_wrap=True)


def print_dead_letter(received: Received) -> None:
    """Print a dead letter: why it is one, its headers with the stack trace, and its body."""
    terminal = console.out()
    info = received.dead_letter_info
    facts = {"id": received.id, "sent": f"{age(received.enqueued_at)} ago"}
    if info is not None:
        facts |= {"queue": info.source, "reason": info.reason, "description": info.description}
    for name, value in facts.items():
        terminal.print(header_text(name, value), soft_wrap=True)
    for name, header in received.headers.items():
        terminal.print(header_text(name, header, whole=True), soft_wrap=True)
    terminal.print(Text("body:", style="dim"))
    terminal.print(body_text(received.body), soft_wrap=True)


def print_failed(detail: FailedDetail) -> None:
    """Print everything about a failed message."""
    terminal, summary, message = console.out(), detail.summary, detail.message
    style = STATUS_STYLES[summary.status]
    terminal.print(Text.assemble(f"failed message {summary.number} is ", (summary.status.word, style)))
    for name, value in _facts(detail).items():
        if value:
            terminal.print(Text.assemble((f"  {name:<10}", "dim"), one_line(value)), soft_wrap=True)
    _print_attempts(detail)
    shown = redaction().headers(message.headers)
    headers = [f"{one_line(name)}: {one_line(value, 10_000)}" for name, value in shown.items()]
    _print_section("headers", "\n".join(headers))
    kind = message.content_type or "body"
    _print_section(f"{one_line(kind)}, {count(len(message.body), 'byte')}", body_lines(message.body).plain)
    if detail.parts:
        terminal.print("", Text("operations", style="bold"))
        print_table(parts_table(detail.parts, of_message=True))
    if detail.notes:
        terminal.print("", Text("notes", style="bold"), *note_lines(detail.notes))


def _print_attempts(detail: FailedDetail) -> None:
    terminal = console.out()
    terminal.print(Text(f"\nattempts, the last one first ({detail.summary.attempts} seen)", style="bold"))
    for each in detail.attempts:
        sent = f" · sent by operation {each.operation}" if each.operation else ""
        terminal.print(Text(f"  {instant(each.failed_at)} · {age(each.failed_at)} ago{sent}"))
        raised = [str(each.details.get(name, "")) for name in ("exception_type", "exception_message")]
        reason = ": ".join(filter(None, raised)) or str(each.details.get("reason", ""))
        if reason:
            terminal.print(Text(f"    {one_line(redaction().text(reason))}", style="red"), soft_wrap=True)
    trace = str(detail.attempts[0].details.get("stack_trace", "")) if detail.attempts else ""
    _print_section("stack trace of the last attempt", printable(redaction().text(trace)).rstrip())


def _facts(detail: FailedDetail) -> dict[str, str | None]:
    summary = detail.summary
    last = detail.attempts[0].details if detail.attempts else {}
    return {
        "id": summary.id,
        "message": summary.message_id,
        "queue": f"{summary.queue} (found in {summary.source})" if summary.source else summary.queue,
        "type": summary.message_type,
        "group": summary.group,
        "raised in": str(last.get("source", "")),
        "worker": " on ".join(str(last[name]) for name in ("worker", "host") if name in last),
        "edit of": summary.edit_of,
        "edited as": summary.edited_as,
    }


def _print_section(title: str, text: str) -> None:
    if text:
        console.out().print(Text(f"\n{title}", style="bold"))
        console.out().print(Text(indented(text)), soft_wrap=True)
