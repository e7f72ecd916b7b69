# SPDX-License-Identifier: MIT
"""Changing messages where nothing can happen to the process that does the work.

What takes little is done at once. Functions, and whatever takes long or much memory, are done in a process of their
own, which is given so much time for a message and so much memory, and is ended when it takes more. So an operation
that is stored can fail its own messages, and nothing else.
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
from redrive.recovery.transform import LARGEST_BODY, Transform, check_identity
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
    """Which functions may change messages, and what they may take for it.

    Attributes:
        allow: the functions that may be called: ``shop.mending:to_euros``, all of a module (``shop.mending:*``), or
            all of a package (``shop.*``). No other is imported.
        seconds: for how long one message may be changed; the first one has to wait for the import too.
        memory: how many bytes of memory the process that does it may have, where the system can tell.
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
            return "must be in a module: whoever does the work has another __main__"
        return (
            "is not allowed here: state it, wherever it is asked for and wherever it is done, with"
            f" TransformSettings(allow=[{function!r}]) or --allow-transform {function}"
        )

    def check(self, transform: Transform | None) -> None:
        """Refuse a transform whose function may not be called here.

        Raises:
            InvalidSetting: it may not; what to do about it is told.
        """
        function = None if transform is None else transform.function
        if (refusal := self.refusal(function)) is not None:
            raise InvalidSetting("function", function, refusal)


class Transformer:
    """Changes messages, one at a time. Use it with ``async with``; its process is started when it is needed.

    Args:
        settings: which functions may be called, and what they may take.
        clock: measures the time that a message takes: the real one, as that is what passes in another process.
        stopped: when it is set, nobody waits for a function any more.

    Attributes:
        settings: which functions may be called, and what they may take.
    """

    def __init__(
        self, settings: TransformSettings, *, clock: Clock = system_clock, stopped: asyncio.Event | None = None
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._stopped = stopped or asyncio.Event()
        self._child: _Child | None = None
        self._told: Transform | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self._end()

    async def apply(self, transform: Transform, message: Message) -> Message:
        """Return the message with everything changed that is to be.

        Raises:
            TransformFailed: this message cannot be changed like that, or what did it took too long, or died.
            Stopping: it is time to come to an end.
            Unavailable: there can be no process for it now.
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
        check_identity(message, changed, transform.function or "it")  # whatever a function has made of its process
        return changed

    async def _unless_stopped(self, doing: Any) -> Message:  # noqa: ANN401 - a coroutine that is ours
        """Wait for an answer, or for the end."""
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
        if transform is not self._told:
            head["transform"] = transform.to_json()
        try:
            async with self._clock.timeout(self.settings.seconds):
                await child.send(head, message.body)
                self._told = transform
                told, body = await child.receive()
        except TimeoutError:
            raise _ended(f"{what} took longer than {self.settings.seconds:g} s, and was ended") from None
        except (EOFError, ConnectionError):
            raise _ended(f"{what} ended its process: {await child.ending()}") from None
        except _TooMuchError as error:
            raise _ended(f"{what} returned too much: {error}") from None
        return _message(told, body, what)

    async def _started(self) -> "_Child":
        if self._child is None:
            self._told = None
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
    """What comes back is larger than any message."""


@dataclass(frozen=True, slots=True)
class _Child:
    """The process, and the pipes to it and from it."""

    process: asyncio.subprocess.Process
    taken: asyncio.StreamWriter
    given: asyncio.StreamReader

    @classmethod
    async def start(cls) -> "_Child":
        """Start it; it finds what we find."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", _CHILD, json.dumps(sys.path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us; and it is ended with whatever it has started
        )
        if process.stdin is None or process.stdout is None:
            raise OSError("it has no pipes")
        return cls(process, process.stdin, process.stdout)

    async def send(self, head: Mapping[str, Any], body: bytes = b"") -> None:
        """Write a frame."""
        self.taken.write(frame(head, body))
        await self.taken.drain()

    async def receive(self) -> tuple[dict[str, Any], bytes]:
        """Read a frame, if it is not larger than any message."""
        head, body = LENGTHS.unpack(await self.given.readexactly(LENGTHS.size))
        if head > _LARGEST_HEAD or body > LARGEST_BODY:  # before it is read: our own memory is not its to fill
            raise _TooMuchError(f"{head + body:,} bytes")
        told = json.loads(await self.given.readexactly(head))
        return told, await self.given.readexactly(body)

    async def ending(self) -> str:
        """Return how it ended, if it has closed its pipe because of that."""
        if not await self._has_ended():
            return "it closed its pipe"
        status = self.process.returncode or 0
        return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"

    async def end(self) -> None:
        """End it and whatever it has started, at once."""
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        await self._has_ended()
        transport: asyncio.SubprocessTransport = self.process._transport  # type: ignore[attr-defined]
        transport.close()  # nothing else closes the pipe that it has not emptied

    async def _has_ended(self) -> bool:
        """Wait for its end, which is near; not for ever, as something it has started may keep a pipe open."""
        with suppress(TimeoutError):
            async with system_clock.timeout(_END_S):
                await self.process.wait()
        return self.process.returncode is not None


def _ended(reason: str) -> TransformFailed:
    return TransformFailed(reason, was_ended=True)


def _message(told: Mapping[str, Any], body: bytes, what: str) -> Message:
    """Return the message that came back."""
    if "failed" in told:
        raise TransformFailed(str(told["failed"])[:1_100])
    try:
        return message_of(told["message"], body)
    except (InvalidMessage, InvalidSetting, TypeError, KeyError, AttributeError) as error:
        raise TransformFailed(f"{what} returned no message that can be sent: {error}") from None
