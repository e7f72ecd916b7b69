# SPDX-License-Identifier: MIT
"""The process that runs a program's transform functions: if it hangs, grows or dies, the service is not affected.

It gets one message at a time on its standard input and returns it changed, or returns the reason why not. A frame is
two lengths, a head in JSON and a body. What the functions print goes to standard error. The process ends when its input
ends or, in the middle of a function, by an alarm of the operating system, also when its parent process is gone.
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
    """Return a frame for a pipe."""
    encoded = json.dumps(head).encode()
    return LENGTHS.pack(len(encoded), len(body)) + encoded + body


def head_of(message: Message) -> dict[str, Any]:
    """Return everything about a message but its body."""
    return {name: getattr(message, name) for name in _FIELDS}


def message_of(head: Mapping[str, Any], body: bytes) -> Message:
    """Return the message that came through a pipe.

    Raises:
        InvalidMessage: it is not a valid message.
        TypeError: same.
    """
    values: dict[str, Any] = {name: head.get(name) for name in _FIELDS}
    return Message(body, **values)


def is_named(function: str, allowed: Sequence[str]) -> bool:
    """Say whether a function is allowed, by its own name, by ``module:*`` or by ``package.*``."""
    module = function.partition(":")[0]
    if function in allowed or f"{module}:*" in allowed:
        return True
    packages = [each.removesuffix("*") for each in allowed if each.endswith(".*")]
    return any(module.startswith(package) or f"{module}." == package for package in packages)


def load(name: str, allowed: Sequence[str]) -> Callable[[Message], Message]:
    """Import a function by its name, ``package.module:function``.

    Raises:
        PermissionError: an allowed module has imported the function from a module that is not allowed.
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
    except KeyboardInterrupt:  # no signal reaches this process: the function itself raised it
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
        reply, changed = answer(transform, message, settings["allow"])
        _alarm(0.0)
        _write(given, reply, changed)


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take over the pipes, so that functions neither read frames nor write between them."""
    taken, given = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return taken, given


def _limit(memory: int) -> None:
    """Limit the memory of this process, if the operating system can."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no limit, and some systems ignore it
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _alarm(seconds: float) -> None:
    """Let the operating system end this process after so many seconds; 0: switch that off."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds and seconds + 1.0)  # the parent's timeout comes first


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
