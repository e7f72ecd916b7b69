# SPDX-License-Identifier: MIT
"""What is changed about messages before they are sent again."""

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from redrive.cli.exit_status import ExitStatus
from redrive.cli.output import console
from redrive.errors import RedriveError
from redrive.printable import one_line
from redrive.recovery import Transform

ALLOWED_VARIABLE = "REDRIVE_ALLOW_TRANSFORMS"
AllowTransform = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="Let this function change messages; MODULE:* and PACKAGE.* allow all functions of one; repeatable. "
        f"${ALLOWED_VARIABLE}.",
    ),
]


def _change(metavar: str, help_text: str) -> Any:  # noqa: ANN401 - what typer's own function returns
    return typer.Option(metavar=metavar, help=help_text, rich_help_panel="What is changed about each")


@dataclass(frozen=True, slots=True)
class TransformOptions:
    """What is changed about each message."""

    set_header: Annotated[list[str] | None, _change("NAME=TEXT", "Set a header; NAME:=JSON sets a number.")] = None
    remove_header: Annotated[list[str] | None, _change("NAME", "Remove a header.")] = None
    set_json: Annotated[
        list[str] | None, _change("/PATH=TEXT", "Set a value in a JSON body; /PATH:=JSON a number.")
    ] = None
    remove_json: Annotated[list[str] | None, _change("/PATH", "Remove a value from a JSON body.")] = None
    replace: Annotated[list[str] | None, _change("OLD=NEW", "Replace a text in the body.")] = None
    body_from: Annotated[Path | None, _change("FILE", "Replace the whole body; - for standard input.")] = None
    function: Annotated[str | None, _change("MODULE:NAME", "Call a function, Message to Message.")] = None

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that the command may call."""
        return () if self.function is None else (self.function,)

    def transform(self) -> Transform | None:
        """Return the transform; None if nothing is changed."""
        try:
            made = self._transform()
        except RedriveError as error:
            raise console.failure(error) from None
        return None if made.is_nothing else made

    def _transform(self) -> Transform:
        return Transform(
            set_headers=dict(_assignments("--set-header", self.set_header)),
            remove_headers=tuple(self.remove_header or ()),
            set_json=dict(_assignments("--set-json", self.set_json)),
            remove_json=tuple(self.remove_json or ()),
            replace=tuple(_pair("--replace", each) for each in self.replace or ()),
            body=None if self.body_from is None else _read(self.body_from),
            function=self.function,
        )


def _assignments(option: str, texts: Iterable[str] | None) -> Iterable[tuple[str, Any]]:
    for text in texts or ():
        found = re.match(r"([^=]*?)(:?)=(.*)", text, re.DOTALL)
        if found is None or (not found[1] and option == "--set-header"):
            raise _unreadable(option, text, "write NAME=TEXT, or NAME:=JSON")
        try:
            yield found[1], json.loads(found[3]) if found[2] else found[3]
        except ValueError as error:
            raise _unreadable(
                option, text, f"{found[3]!r} is not JSON: {error}; for a text write = instead of :="
            ) from None


def _pair(option: str, text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not old or not equals:
        raise _unreadable(option, text, "write OLD=NEW")
    return old, new


def _unreadable(option: str, text: str, problem: str) -> typer.Exit:
    return console.refusal(f"{option} {text!r}: {problem}", ExitStatus.NOT_UNDERSTOOD)


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise console.refusal(one_line(f"{file} cannot be read: {error.strerror}")) from None
