# SPDX-License-Identifier: MIT
"""Editing one message in the person's editor: headers, an empty line, and the body."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from redrive.broker import Message
from redrive.cli.exit_status import ExitStatus
from redrive.cli.output import console
from redrive.recovery import Transform

_PROPERTIES = ("subject", "content_type", "reply_to")


def edited(message: Message, edit: Callable[[str], str | None]) -> Transform:
    """Return the transform that makes a message what a person has edited it to be.

    Args:
        message: the message before.
        edit: shows a text in an editor and returns the new one; None if it was not changed.
    """
    try:
        body = message.body.decode()
    except UnicodeDecodeError:
        raise console.refusal("the body is not text; give a new one with --body-from FILE") from None
    text = edit(_as_text(message, body))
    if text is None:
        return Transform()
    head, rest = _parted(text, has_body=bool(body))
    fields = dict(_header(line) for line in head.splitlines() if line.strip())
    if rest != body and rest.removesuffix("\n") == body:
        rest = body  # editors end the last line
    return _difference(message, fields, rest.encode())


def _parted(text: str, *, has_body: bool) -> tuple[str, str]:
    """Return what stands before the first empty line, and what follows it."""
    head, empty, rest = f"\n{text}".partition("\n\n")
    if not empty and has_body:
        raise console.refusal("there is no empty line before the body; nothing was sent", ExitStatus.NOT_UNDERSTOOD)
    return head, rest


def _as_text(message: Message, body: str) -> str:
    properties = {f"@{name}": getattr(message, name) for name in _PROPERTIES if getattr(message, name) is not None}
    lines = [f"{name}: {_written(value)}" for name, value in {**properties, **message.headers}.items()]
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
        raise console.refusal(
            f"{line!r} is not a header; write NAME: VALUE, and an empty line before the body",
            ExitStatus.NOT_UNDERSTOOD,
        )
    return sign + name.strip(), _value(value.strip())


def _difference(message: Message, fields: dict[str, Any], body: bytes) -> Transform:
    properties: dict[str, Any] = {
        name: str(fields.get(f"@{name}", ""))
        for name in _PROPERTIES
        if str(fields.get(f"@{name}", "")) != (getattr(message, name) or "")
    }
    headers = {name: value for name, value in fields.items() if name.removeprefix("@") not in _PROPERTIES}
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
    """Let the person edit a text in $VISUAL or $EDITOR; return None if it was not changed."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "message.txt"
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(command), str(file)], check=True)  # noqa: S603 - the person's own editor
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise console.refusal(f"the editor {command!r} failed: {error}; name another in $EDITOR") from None
        edited = file.read_text(encoding="utf-8")
    return None if edited == text else edited
