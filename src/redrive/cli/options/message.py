# SPDX-License-Identifier: MIT
"""The messages that ``redrive send`` sends: properties, and bodies from the command line, a file or a pipe."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any

import typer

from redrive.broker import Message
from redrive.cli.exit_status import ExitStatus
from redrive.cli.options.time import seconds
from redrive.cli.output import console
from redrive.printable import one_line


def _text(help_text: str, *names: str) -> Any:  # noqa: ANN401 - what typer's own function returns
    return typer.Option(*names, metavar="TEXT", help=help_text)


@dataclass(frozen=True, slots=True)
class BodyOptions:
    """Where the bodies come from, and how many there are."""

    body: Annotated[str | None, typer.Argument(metavar="BODY", help="What to send; - for standard input.")] = None
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the body from a file.")] = None
    lines: Annotated[bool, typer.Option("--lines", "-l", help="Make each line a message of its own.")] = False
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, help="Send each N times.")] = 1

    def bodies(self) -> list[bytes]:
        """Return the bodies to send."""
        if (self.body is None) == (self.file is None):
            problem = "say what to send: a BODY, - for standard input, or --file FILE"
            raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
        whole = self._whole()
        bodies = whole.splitlines() if self.lines else [whole]
        return [each for body in bodies for each in repeat(body, self.count)]

    def _whole(self) -> bytes:
        if self.file is not None:
            return _read(self.file)
        if self.body is None or self.body == "-":
            return sys.stdin.buffer.read()
        return self.body.encode(errors="surrogateescape")  # the bytes the shell gave us


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """What all messages of one command have in common: everything but the body."""

    id: Annotated[str | None, _text("Its id; random by default.")] = None
    subject: Annotated[str | None, _text("What it is about.")] = None
    content_type: Annotated[str | None, _text("The MIME type of the body.")] = None
    correlation_id: Annotated[str | None, _text("What it answers or belongs to.")] = None
    reply_to: Annotated[str | None, _text("The queue for answers.")] = None
    session: Annotated[str | None, _text("The ordered group it belongs to.")] = None
    ttl: Annotated[
        str | None,
        typer.Option(metavar="TIME", show_default=False, help="How long it is worth delivering, such as 5m."),
    ] = None
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; repeatable.")
    ] = None

    def template(self) -> Callable[[bytes], Message]:
        """Return a function that makes a message of a body."""
        return partial(
            Message,
            id=self.id,
            subject=self.subject,
            content_type=self.content_type,
            correlation_id=self.correlation_id,
            reply_to=self.reply_to,
            session_id=self.session,
            ttl=seconds("ttl", self.ttl),
            headers=dict(name_and_value("--header", each) for each in self.header or ()),
        )


def name_and_value(option: str, text: str) -> tuple[str, str]:
    """Return the two parts of an option that is written as ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise console.refusal(f"{option} {text!r}: write it as NAME=VALUE", ExitStatus.NOT_UNDERSTOOD)
    return name, value


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise console.refusal(one_line(f"{file} cannot be read: {error.strerror}")) from None
