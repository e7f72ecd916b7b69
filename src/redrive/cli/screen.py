# SPDX-License-Identifier: MIT
"""What the commands print: tables for people, JSON for scripts, errors that name the fix."""

import base64
import json
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from redrive.broker import Delivery, Received
from redrive.clock import system_clock
from redrive.errors import QueueConflict, QueueNotFound, RedriveError, SessionRequired

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
"""The option that every command has."""


def out() -> Console:
    """Return the console for results; made anew, so that it is as wide as the terminal is now."""
    return Console(highlight=False)


def err() -> Console:
    """Return the console for everything that is not a result."""
    return Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Print a sentence, whole, whatever is in it."""
    out().print(Text(text), soft_wrap=True)


def print_json(value: object) -> None:
    """Print JSON."""
    typer.echo(json.dumps(value, indent=2))


def refusal(problem: str, status: int = 1) -> typer.Exit:
    """Say what is wrong; return what to raise."""
    err().print(Text.assemble(("error: ", "red"), problem), soft_wrap=True)
    return typer.Exit(status)


def failure(error: RedriveError) -> typer.Exit:
    """Say what went wrong and which command mends it; return what to raise."""
    return refusal(_advice(error))


def _advice(error: RedriveError) -> str:
    match error:
        case QueueNotFound(queue=queue):
            return f"there is no queue {queue!r}; redrive queues shows those there are, redrive queues declare adds one"
        case QueueConflict(queue=queue, differences=differences):
            told = ", ".join(f"{name} is {now!r}, not {asked!r}" for name, (now, asked) in differences.items())
            options = " ".join(_option(name, asked) for name, (_, asked) in differences.items())
            return f"queue {queue!r} is there already: {told}; change it: redrive queues update {queue} {options}"
        case SessionRequired(queue=queue):
            return f"queue {queue!r} has sessions: name one with --session; redrive peek {queue} --json shows them"
        case _:
            return str(error)


def _option(name: str, value: object) -> str:
    flag = name.replace("_", "-")
    words = {None: "none", True: "yes", False: "no"}
    return f"--{flag} {words[value] if value is None or isinstance(value, bool) else value}"


# --- messages


def age(instant: datetime | None) -> str:
    """Return how long ago something was, as shortly as a column needs it."""
    return "-" if instant is None else length(system_clock.time() - instant.timestamp())


def length(seconds: float) -> str:
    """Return a length of time, as shortly as a column needs it."""
    left = max(0.0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if left >= 2 * size:
            return f"{left / size:.0f} {unit}"
    return f"{left:.0f} s"


def shown(body: bytes, most: int | None = None) -> Text:
    """Return a body as a terminal may show it: text without control characters, or how many bytes it has."""
    try:
        return Text(printable(body.decode()[:most]))
    except UnicodeDecodeError:
        return Text(f"{len(body):,} bytes, not text; --json shows them", style="dim")


def printable(text: str) -> str:
    """Return a text without what could move the cursor or change the terminal."""
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def one_line(body: bytes) -> Text:
    """Return the beginning of a body, for a column."""
    text = shown(body, most=400)
    return Text(" ".join(text.plain.split()), style=text.style, no_wrap=True, overflow="ellipsis")


def told_header(name: str, value: object, *, whole: bool = False) -> Text:
    """Return a header as a terminal may show it; a stack trace and other long ones only if wanted whole."""
    text = printable(str(value)).rstrip()
    if "\n" not in text:
        return Text.assemble((f"{printable(name)}: ", "dim"), text)
    if whole:
        return Text.assemble((f"{printable(name)}:\n", "dim"), text)
    return Text.assemble((f"{printable(name)}: ", "dim"), (f"{len(text.splitlines())} lines", "dim"))


def described(received: Received | Delivery) -> dict[str, Any]:
    """Return a message as JSON shows it; a body that is no text is in base64, and ``body_encoding`` says so."""
    message = received.message
    why = received.dead_letter if isinstance(received, Received) else received.dead_letter_info
    return {
        "queue": received.queue,
        "sequence": received.sequence,
        "id": received.id,
        "state": received.state.name.lower(),
        "delivery_count": received.delivery_count,
        "enqueued_at": received.enqueued_at.isoformat(),
        **_times(received),
        "content_type": message.content_type,
        "subject": message.subject,
        "correlation_id": message.correlation_id,
        "reply_to": message.reply_to,
        "to": message.to,
        "session_id": message.session_id,
        "ttl": message.ttl,
        "headers": dict(message.headers),
        **described_body(message.body),
        "dead_letter": why and {"reason": why.reason, "description": why.description, "source": why.source},
    }


def _times(received: Received | Delivery) -> dict[str, str | None]:
    if isinstance(received, Delivery):
        return {}
    instants = {name: getattr(received, name) for name in ("due_at", "locked_until", "expires_at")}
    return {name: instant and instant.isoformat() for name, instant in instants.items()}


def described_body(body: bytes) -> dict[str, str]:
    """Return a body as JSON shows it."""
    try:
        return {"body": body.decode(), "body_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


# --- tables and progress


_LONG = ("queue", "why", "is", "body")
"""The columns that give way when a line is too long for the terminal."""


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table as all commands have them."""
    made = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=column not in _LONG,
            overflow="ellipsis" if column == "id" else "fold",
            max_width=12 if column == "id" else None,
        )
    return made


def progress() -> Progress:
    """Return a progress bar for bulk work; it shows itself to people only."""
    console = err()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
