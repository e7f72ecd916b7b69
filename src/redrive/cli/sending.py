# SPDX-License-Identifier: MIT
"""What ``redrive send`` sends: bodies from the command line, a file or a pipe, in batches, with a progress bar."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, repeat
from pathlib import Path
from typing import TypedDict

import typer

from redrive.broker import Broker, Message, Send
from redrive.broker.views import View, sent_view
from redrive.cli import screen
from redrive.cli.exit_status import ExitStatus
from redrive.cli.interrupts import first_interrupt
from redrive.clock import system_clock, utc
from redrive.printable import one_line

_BATCH = 1_000


class Outgoing(TypedDict):
    """What all messages of one command have in common: everything but the body."""

    id: str | None
    subject: str | None
    content_type: str | None
    correlation_id: str | None
    reply_to: str | None
    session_id: str | None
    ttl: float | None
    headers: Mapping[str, str]


@dataclass(slots=True)
class Sent:
    """What came of it."""

    queue: str
    count: int = 0
    duplicates: int = 0
    first: int | None = None
    last: int | None = None
    left: int = 0

    def add(self, sequences: Iterable[int | None]) -> None:
        """Count a batch."""
        for sequence in sequences:
            if sequence is None:
                self.duplicates += 1
                continue
            self.count += 1
            self.first = sequence if self.first is None else self.first
            self.last = sequence

    def tell(self, *, as_json: bool) -> None:
        """Print it; if it was stopped, the status says so."""
        if as_json:
            screen.print_json(self.view())
        else:
            screen.say(str(self))
        if self.left:
            raise typer.Exit(int(ExitStatus.INTERRUPTED))

    def view(self) -> View:
        """Return it as JSON shows it."""
        return sent_view(
            self.queue,
            sent=self.count,
            duplicates=self.duplicates,
            first_sequence=self.first,
            last_sequence=self.last,
            not_sent=self.left,
        )

    def __str__(self) -> str:
        numbers = "" if self.first is None else f", number {self.first}" + _up_to(self.first, self.last)
        dropped = f"; {self.duplicates:,} dropped as duplicates" if self.duplicates else ""
        left = f"; stopped, {self.left:,} not sent" if self.left else ""
        return f"sent {self.count:,} to {self.queue}{numbers}{dropped}{left}"


def header(text: str) -> tuple[str, str]:
    """Return the name and the value of a header given as ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise screen.refusal(f"--header {text!r}: write it as NAME=VALUE", ExitStatus.NOT_UNDERSTOOD)
    return name, value


def payloads(body: str | None, file: Path | None, *, lines: bool, count: int) -> Iterable[bytes]:
    """Return the bodies to send."""
    if (body is None) == (file is None):
        problem = "say what to send: a BODY, - for standard input, or --file FILE"
        raise screen.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
    if body is not None and body != "-":
        whole = body.encode(errors="surrogateescape")  # the bytes the shell gave us
    else:
        whole = sys.stdin.buffer.read() if file is None else _read(file)
    bodies = whole.splitlines() if lines else [whole]
    return [each for body in bodies for each in repeat(body, count)]


async def send_all(
    broker: Broker, sent: Sent, outgoing: Outgoing, bodies: Iterable[bytes], delay: float | None
) -> None:
    """Send bodies in batches, each all or nothing, and count them; Ctrl-C ends it after a batch."""
    at = utc(system_clock.time() + delay) if delay else None
    waiting = list(bodies)
    sent.left = len(waiting)
    with screen.progress() as bar, first_interrupt() as interrupt:
        task = bar.add_task("sending", total=len(waiting), visible=len(waiting) > _BATCH)
        for batch in _batches(waiting):
            if interrupt.is_set:
                break
            sent.add(await broker.apply(*_sends(sent.queue, outgoing, batch, at)))
            sent.left -= len(batch)
            bar.advance(task, len(batch))


def _sends(queue: str, outgoing: Outgoing, batch: list[bytes], at: datetime | None) -> list[Send]:
    return [Send(queue, Message(body, **outgoing), at) for body in batch]


def _batches(bodies: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(bodies)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise screen.refusal(one_line(f"{file} cannot be read: {error.strerror}")) from None


def _up_to(first: int, last: int | None) -> str:
    return "" if first == last else f" to {last}"
