# SPDX-License-Identifier: MIT
"""One failed message with its whole story, for a person."""

from rich.text import Text

from redrive.cli import screen, telling, wording
from redrive.printable import one_line, printable
from redrive.recovery import FailedDetail


def print_story(detail: FailedDetail) -> None:
    """Print all there is about a failed message."""
    console, summary, message = screen.out(), detail.summary, detail.message
    style = telling.STYLES[summary.status]
    console.print(Text.assemble(f"failed message {summary.number} is ", (summary.status.word, style)))
    for name, value in _facts(detail).items():
        if value:
            console.print(Text.assemble((f"  {name:<10}", "dim"), one_line(value)), soft_wrap=True)
    _print_attempts(detail)
    headers = [f"{one_line(name)}: {one_line(value, 10_000)}" for name, value in message.headers.items()]
    _section("headers", "\n".join(headers))
    kind = message.content_type or "body"
    size = wording.count(len(message.body), "byte")
    _section(f"{one_line(kind)}, {size}", telling.pretty(message.body).plain)
    if detail.parts:
        console.print("", Text("operations", style="bold"))
        screen.print_table(telling.parts_table(detail.parts, of_message=True))
    if detail.notes:
        console.print("", Text("notes", style="bold"), *telling.note_lines(detail.notes))


def _print_attempts(detail: FailedDetail) -> None:
    console = screen.out()
    console.print(Text(f"\nattempts, the last one first ({detail.summary.attempts} seen)", style="bold"))
    for each in detail.attempts:
        sent = f" · sent by operation {each.operation}" if each.operation else ""
        console.print(Text(f"  {each.failed_at:%Y-%m-%d %H:%M:%S} UTC · {screen.age(each.failed_at)} ago{sent}"))
        raised = [str(each.details.get(name, "")) for name in ("exception_type", "exception_message")]
        told = ": ".join(filter(None, raised)) or str(each.details.get("reason", ""))
        if told:
            console.print(Text(f"    {one_line(told)}", style="red"), soft_wrap=True)
    trace = str(detail.attempts[0].details.get("stack_trace", "")) if detail.attempts else ""
    _section("stack trace of the last", printable(trace).rstrip())


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


def _section(title: str, text: str) -> None:
    if text:
        screen.out().print(Text(f"\n{title}", style="bold"))
        screen.out().print(Text(screen.indented(text)), soft_wrap=True)
