# SPDX-License-Identifier: MIT
"""The process in which messages are changed by functions of a program: it may hang, grow or die, and nobody else does.

It gets one message at a time on its standard input and gives it back changed, or says why not. A frame is two lengths,
a head in JSON and a body. What the functions print goes to standard error. It ends with its input, or, in the middle
of a function, by the system's own alarm: also when the process that started it is gone.
"""

import importlib
import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, Final

from redrive.broker import Message
from redrive.errors import TransformFailed
from redrive.recovery.transform import Transform

LENGTHS: Final = struct.Struct(">IQ")
_FIELDS = ("id", "content_type", "subject", "correlation_id", "reply_to", "to", "ttl", "session_id", "headers")


def frame(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Return what goes through a pipe."""
    told = json.dumps(head).encode()
    return LENGTHS.pack(len(told), len(body)) + told + body


def head_of(message: Message) -> dict[str, Any]:
    """Return everything about a message but its body."""
    return {name: getattr(message, name) for name in _FIELDS}


def message_of(head: Mapping[str, Any], body: bytes) -> Message:
    """Return the message that came through a pipe.

    Raises:
        InvalidMessage: it is none.
        TypeError: same.
    """
    told: dict[str, Any] = {name: head.get(name) for name in _FIELDS}
    return Message(body, **told)


def is_named(function: str, allowed: Sequence[str]) -> bool:
    """Say whether a function is one of those that are named, by itself, by ``module:*`` or by ``package.*``."""
    module = function.partition(":")[0]
    if function in allowed or f"{module}:*" in allowed:
        return True
    packages = [each.removesuffix("*") for each in allowed if each.endswith(".*")]
    return any(module.startswith(package) or f"{module}." == package for package in packages)


def load(name: str, allowed: Sequence[str]) -> Callable[[Message], Message]:
    """Import a function by its name, ``package.module:function``.

    Raises:
        PermissionError: it is not what its name says: a module that may be used has it from one that may not.
    """
    module, _, way = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in way.split("."):
        found = getattr(found, part)
    home = f"{getattr(found, '__module__', None)}:{way}"
    if name not in allowed and not is_named(home, allowed):
        raise PermissionError(f"it is really {home}, which is not allowed")
    return found  # type: ignore[no-any-return]  # whether it is a function is seen when it is called


def answer(transform: Transform, message: Message, allowed: Sequence[str]) -> tuple[dict[str, Any], bytes]:
    """Change a message; return it, or why it cannot be changed."""
    try:
        changed = transform.apply(message, lambda name: load(name, allowed))
        return {"message": head_of(changed)}, changed.body
    except TransformFailed as error:
        return {"failed": error.reason}, b""
    except KeyboardInterrupt:  # nobody sends this process one: it was the function's own
        return {"failed": f"{transform.function} raised KeyboardInterrupt"}, b""


def main() -> None:
    """Change messages until there are no more."""
    taken, given = _pipes()
    settings, _ = _read(taken) or ({}, b"")
    _limit(settings["memory"])
    _write(given, {"ready": True})
    transform = Transform()
    while (found := _read(taken)) is not None:
        head, body = found
        if "transform" in head:
            transform = Transform.from_json(head["transform"])
        message = message_of(head["message"], body)
        _alarm(settings["seconds"])
        told, changed = answer(transform, message, settings["allow"])
        _alarm(0.0)
        _write(given, told, changed)


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take the pipes, so that functions neither read what is meant for us nor write between our frames."""
    taken, given = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return taken, given


def _limit(memory: int) -> None:
    """Let the system refuse more memory than that, where it can."""
    with suppress(ImportError, OSError, ValueError):  # Windows has none, and some systems do not keep to it
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _alarm(seconds: float) -> None:
    """Let the system end this process after that, whatever it is doing; 0: not any more."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds and seconds + 1.0)  # our parent is to be the first


def _read(taken: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    lengths = taken.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    head, body = LENGTHS.unpack(lengths)
    return json.loads(taken.read(head)), taken.read(body)


def _write(given: BinaryIO, head: Mapping[str, Any], body: bytes = b"") -> None:
    try:
        given.write(frame(head, body))
        given.flush()
    except BrokenPipeError:
        sys.exit(0)
