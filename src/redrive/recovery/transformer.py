# SPDX-License-Identifier: MIT
"""Changes messages without risk to the process that does the work.

Small changes are made at once. Functions, and changes that take much time or memory, run in a separate process with a
limit of time for each message and a limit of memory. The process is killed when it exceeds them. So a stored operation
can fail its own messages, but nothing else.
"""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Final, Self

from redrive import duration, number
from redrive.broker import Message
from redrive.clock import Clock, system_clock
from redrive.errors import InvalidMessage, InvalidSetting, TransformFailed, Unavailable
from redrive.recovery.environment import Stopping
from redrive.recovery.preview import Preview
from redrive.recovery.transform import LARGEST_BODY, Transform, check_identity, diff
from redrive.recovery.transform_child import LENGTHS, frame, head_of, is_named, message_of

_ALLOWED: Final = re.compile(r"([^\W\d]\w*\.)*([^\W\d]\w*:([^\W\d]\w*(\.[^\W\d]\w*)*|\*)|\*)")
_LARGEST_HEAD: Final = 16 * 1_048_576
_START_S: Final = 60.0
_END_S: Final = 5.0
_CHILD: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);from redrive.recovery.transform_child import main; main()"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSettings:
    """Which functions may change messages, and how much time and memory they may use.

    Attributes:
        allow: the functions that may be called: ``shop.mending:to_euros``, all of a module (``shop.mending:*``), or
            all of a package (``shop.*``). No other is imported.
        seconds: how long the change of one message may take; for the first one that includes the import.
        memory: how many bytes of memory the process may have, if the operating system can limit it.
    """

    allow: Sequence[str] = ()
    seconds: float = 10.0
    memory: int = 1_073_741_824

    def __post_init__(self) -> None:
        allowed = (self.allow,) if isinstance(self.allow, str) else tuple(self.allow)
        for each in allowed:
            if not isinstance(each, str) or not _ALLOWED.fullmatch(each) or each == "*":
                raise InvalidSetting("allow", each, "must be shop.mending:to_euros, shop.mending:* or shop.*")
        object.__setattr__(self, "allow", allowed)
        object.__setattr__(self, "seconds", duration.seconds("seconds", self.seconds))
        number.whole("memory", self.memory, 67_108_864)

    def refusal(self, function: str | None) -> str | None:
        """Return why a function may not be called here; None: it may."""
        if function is None or (is_named(function, self.allow) and not function.startswith("__main__:")):
            return None
        if function.startswith("__main__:"):
            return "must be in a module: the process that does the work has another __main__"
        return (
            "is not allowed here: allow it, in the process that requests it and in those that do the work, with"
            f" TransformSettings(allow=[{function!r}]) or --allow-transform {function}"
        )

    def check(self, transform: Transform | None) -> None:
        """Refuse a transform whose function may not be called here.

        Raises:
            InvalidSetting: it may not; the error says what to do.
        """
        function = None if transform is None else transform.function
        if (refusal := self.refusal(function)) is not None:
            raise InvalidSetting("function", function, refusal)


class Transformer:
    """Changes messages, one at a time. Use it with ``async with``; its process is started when it is needed.

    Args:
        settings: which functions may be called, and their limits.
        clock: measures the time that a message takes. It is the system's clock, because the time passes in another
            process.
        stopped: when it is set, a call of a function is not waited for any more.

    Attributes:
        settings: which functions may be called, and their limits.
    """

    def __init__(
        self, settings: TransformSettings, *, clock: Clock = system_clock, stopped: asyncio.Event | None = None
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._stopped = stopped or asyncio.Event()
        self._child: _Child | None = None
        self._sent_transform: Transform | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self._end()

    async def apply(self, transform: Transform, message: Message) -> Message:
        """Return the changed message.

        Raises:
            TransformFailed: this message cannot be changed in this way, or its process took too long, or died.
            Stopping: this process is about to stop.
            Unavailable: the process for transforms cannot be started.
        """
        if (refusal := self.settings.refusal(transform.function)) is not None:
            raise TransformFailed(f"{transform.function} {refusal}")
        if transform.is_light(message):
            return transform.apply(message)
        try:
            changed = await self._unless_stopped(self._exchange(transform, message))
        except BaseException as error:
            if not isinstance(error, TransformFailed) or error.was_ended:
                await self._end()
            raise
        check_identity(message, changed, transform.function or "it")  # a function may have changed its process
        return changed

    async def _unless_stopped(self, doing: Any) -> Message:  # noqa: ANN401 - a coroutine of this class
        """Wait for an answer, or until this process is about to stop."""
        answer = asyncio.ensure_future(doing)
        stop = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait((answer, stop), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise Stopping
            return answer.result()  # type: ignore[no-any-return]  # the message
        finally:
            for each in (answer, stop):
                each.cancel()
            await asyncio.gather(answer, stop, return_exceptions=True)

    async def _exchange(self, transform: Transform, message: Message) -> Message:
        child = await self._started()
        what = transform.function or "it"
        head: dict[str, Any] = {"message": head_of(message)}
        if transform is not self._sent_transform:
            head["transform"] = transform.to_json()
        try:
            async with self._clock.timeout(self.settings.seconds):
                await child.send(head, message.body)
                self._sent_transform = transform
                reply, body = await child.receive()
        except TimeoutError:
            raise _ended(f"{what} took longer than {self.settings.seconds:g} s, and was ended") from None
        except (EOFError, ConnectionError):
            raise _ended(f"{what} ended its process: {await child.ending()}") from None
        except _TooMuchError as error:
            raise _ended(f"{what} returned too much: {error}") from None
        return _message(reply, body, what)

    async def _started(self) -> "_Child":
        if self._child is None:
            self._sent_transform = None
            try:
                self._child = await _Child.start()
                async with system_clock.timeout(_START_S):
                    await self._child.send(asdict(self.settings))
                    await self._child.receive()
            except (OSError, EOFError, TimeoutError) as error:
                problem = f"a process for transforms cannot be started: {type(error).__name__}: {error}"
                raise Unavailable(problem) from error
        return self._child

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.end()


class _TooMuchError(Exception):
    """The answer is larger than any message."""


@dataclass(frozen=True, slots=True)
class _Child:
    """The process, and the pipes to it and from it."""

    process: asyncio.subprocess.Process
    taken: asyncio.StreamWriter
    given: asyncio.StreamReader

    @classmethod
    async def start(cls) -> "_Child":
        """Start it, with the same import path."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", _CHILD, json.dumps(sys.path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C must not reach it, and its own child processes are killed with it
        )
        if process.stdin is None or process.stdout is None:
            raise OSError("it has no pipes")
        return cls(process, process.stdin, process.stdout)

    async def send(self, head: Mapping[str, Any], body: bytes = b"") -> None:
        """Write a frame."""
        self.taken.write(frame(head, body))
        await self.taken.drain()

    async def receive(self) -> tuple[dict[str, Any], bytes]:
        """Read a frame, unless it is larger than any message."""
        head, body = LENGTHS.unpack(await self.given.readexactly(LENGTHS.size))
        if head > _LARGEST_HEAD or body > LARGEST_BODY:  # before reading: it must not fill our memory
            raise _TooMuchError(f"{head + body:,} bytes")
        values = json.loads(await self.given.readexactly(head))
        return values, await self.given.readexactly(body)

    async def ending(self) -> str:
        """Return how it ended, or that it has only closed its pipe."""
        if not await self._has_ended():
            return "it closed its pipe"
        status = self.process.returncode or 0
        return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"

    async def end(self) -> None:
        """Kill it and its own child processes."""
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        await self._has_ended()
        transport: asyncio.SubprocessTransport = self.process._transport  # type: ignore[attr-defined]
        transport.close()  # nothing else closes a pipe that still has data

    async def _has_ended(self) -> bool:
        """Wait for its end, but not for ever: one of its child processes may keep a pipe open."""
        with suppress(TimeoutError):
            async with system_clock.timeout(_END_S):
                await self.process.wait()
        return self.process.returncode is not None


def _ended(reason: str) -> TransformFailed:
    return TransformFailed(reason, was_ended=True)


def _message(head: Mapping[str, Any], body: bytes, what: str) -> Message:
    """Return the message that came back."""
    if "failed" in head:
        raise TransformFailed(str(head["failed"])[:1_100])
    try:
        return message_of(head["message"], body)
    except (InvalidMessage, InvalidSetting, TypeError, KeyError, AttributeError) as error:
        raise TransformFailed(f"{what} returned no message that can be sent: {error}") from None


async def previews(messages: Mapping[str, Message], transform: Transform, settings: TransformSettings) -> list[Preview]:
    """Return what a transform would do to failed messages, by their ids."""
    found: list[Preview] = []
    async with Transformer(settings) as transformer:
        for id_, message in messages.items():
            try:
                found.append(Preview(id_, diff(message, await transformer.apply(transform, message))))
            except TransformFailed as error:
                found.append(Preview(id_, (), error.reason))
    return found
