# SPDX-License-Identifier: MIT
"""What is changed about messages on their way: options of ``redrive recover`` and ``edit``, or a person's editor."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.text import Text

from redrive.broker import Message
from redrive.cli import screen
from redrive.cli.exit_status import ExitStatus
from redrive.printable import one_line
from redrive.recovery import Preview, Transform

_PROPERTIES = ("subject", "content_type", "reply_to")


def _change(metavar: str, help_text: str) -> Any:  # noqa: ANN401 - what typer's own function returns
    return typer.Option(metavar=metavar, help=help_text, rich_help_panel="What is changed about each")


@dataclass(frozen=True, slots=True)
class Changes:
    """What is changed about each message."""

    set_header: Annotated[list[str] | None, _change("NAME=TEXT", "A header; NAME:=JSON for a number or so.")] = None
    remove_header: Annotated[list[str] | None, _change("NAME", "A header that goes.")] = None
    set_json: Annotated[list[str] | None, _change("/PATH=TEXT", "In a JSON body; /PATH:=JSON for a number or so.")] = (
        None
    )
    remove_json: Annotated[list[str] | None, _change("/PATH", "What goes from a JSON body.")] = None
    replace: Annotated[list[str] | None, _change("OLD=NEW", "Text in the body.")] = None
    body_from: Annotated[Path | None, _change("FILE", "The whole new body.")] = None
    function: Annotated[str | None, _change("MODULE:NAME", "A function of yours, Message to Message.")] = None

    @property
    def transform(self) -> Transform | None:
        """What it comes to; None: nothing."""
        made = Transform(
            set_headers=dict(_assigned("--set-header", self.set_header)),
            remove_headers=tuple(self.remove_header or ()),
            set_json=dict(_assigned("--set-json", self.set_json)),
            remove_json=tuple(self.remove_json or ()),
            replace=tuple(_pair("--replace", each) for each in self.replace or ()),
            body=None if self.body_from is None else _read(self.body_from),
            function=self.function,
        )
        return None if made.is_nothing else made


def _assigned(option: str, texts: Iterable[str] | None) -> Iterable[tuple[str, Any]]:
    for text in texts or ():
        found = re.match(r"([^=]*?)(:?)=(.*)", text, re.DOTALL)
        if found is None or (not found[1] and option == "--set-header"):
            raise _unreadable(option, text, "write NAME=TEXT, or NAME:=JSON")
        try:
            yield found[1], json.loads(found[3]) if found[2] else found[3]
        except ValueError as error:
            raise _unreadable(
                option, text, f"{found[3]!r} is no JSON: {error}; for a text write = and not :="
            ) from None


def _pair(option: str, text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not old or not equals:
        raise _unreadable(option, text, "write OLD=NEW")
    return old, new


def _unreadable(option: str, text: str, problem: str) -> typer.Exit:
    return screen.refusal(f"{option} {text!r}: {problem}", ExitStatus.NOT_UNDERSTOOD)


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise screen.refusal(one_line(f"{file} cannot be read: {error.strerror}")) from None


# --- showing it


def print_previews(previews: Iterable[Preview], *, to_stderr: bool = False) -> None:
    """Show what would change about messages."""
    console = screen.err() if to_stderr else screen.out()
    for each in previews:
        console.print(Text(one_line(each.id), style="bold"), soft_wrap=True)
        lines = each.changes or ([] if each.problem else ["nothing changes"])
        for line in lines:
            console.print(Text(f"  {one_line(line, 10_000)}", style=_style(line)), soft_wrap=True)
        if each.problem:
            console.print(Text(f"  cannot be changed: {one_line(each.problem)}", style="red"), soft_wrap=True)


def _style(line: str) -> str:
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


# --- by hand


def by_hand(message: Message, edit: Callable[[str], str | None]) -> Transform:
    """Return what a person changes about a message in an editor: headers, an empty line, and the body.

    Args:
        message: what it is.
        edit: gives a text to an editor and returns it; None if it was not saved.
    """
    try:
        body = message.body.decode()
    except UnicodeDecodeError:
        raise screen.refusal("the body is no text; give a new one with --body-from FILE") from None
    edited = edit(_as_text(message, body))
    if edited is None:
        return Transform()
    head, rest = _parted(edited, has_body=bool(body))
    told = dict(_header(line) for line in head.splitlines() if line.strip())
    if rest != body and rest.removesuffix("\n") == body:
        rest = body  # editors end the last line
    return _difference(message, told, rest.encode())


def _parted(text: str, *, has_body: bool) -> tuple[str, str]:
    """Return what stands before the first empty line, and what follows it."""
    head, empty, rest = f"\n{text}".partition("\n\n")
    if not empty and has_body:
        raise screen.refusal("there is no empty line before the body; nothing was sent", ExitStatus.NOT_UNDERSTOOD)
    return head, rest


def _as_text(message: Message, body: str) -> str:
    told = {f"@{name}": getattr(message, name) for name in _PROPERTIES if getattr(message, name) is not None}
    lines = [f"{name}: {_written(value)}" for name, value in {**told, **message.headers}.items()]
    return "\n".join(lines or ["@subject: "]) + f"\n\n{body}"


def _written(value: object) -> str:
    if isinstance(value, str) and value == value.strip() and value.isprintable() and _value(value) == value:
        return value
    return json.dumps(value)


def _value(text: str) -> Any:  # noqa: ANN401 - text, number, boolean or None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _header(line: str) -> tuple[str, Any]:
    sign = "@" if line.startswith("@") else ""
    name, colon, value = line[len(sign) :].partition(": ")
    if not colon:
        name, colon, value = line[len(sign) :].rstrip().rpartition(":")
    if not colon or not name:
        raise screen.refusal(
            f"{line!r} is no header; write NAME: VALUE, and an empty line before the body",
            ExitStatus.NOT_UNDERSTOOD,
        )
    return sign + name.strip(), _value(value.strip())


def _difference(message: Message, told: dict[str, Any], body: bytes) -> Transform:
    properties: dict[str, Any] = {
        name: str(told.get(f"@{name}", ""))
        for name in _PROPERTIES
        if str(told.get(f"@{name}", "")) != (getattr(message, name) or "")
    }
    headers = {name: value for name, value in told.items() if name.removeprefix("@") not in _PROPERTIES}
    return Transform(
        set_headers={
            name: value
            for name, value in headers.items()
            if name not in message.headers or repr(message.headers[name]) != repr(value)
        },
        remove_headers=tuple(name for name in message.headers if name not in headers),
        body=None if body == message.body else body,
        **properties,
    )


def in_editor(text: str) -> str | None:
    """Let a person edit a text in $VISUAL or $EDITOR; None if it was not saved."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "message.txt"
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(command), str(file)], check=True)  # noqa: S603 - the person's own editor
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise screen.refusal(f"the editor {command!r} failed: {error}; name another in $EDITOR") from None
        edited = file.read_text(encoding="utf-8")
    return None if edited == text else edited
