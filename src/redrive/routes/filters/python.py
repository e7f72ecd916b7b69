# SPDX-License-Identifier: MIT
"""The filters that are a function of the program: one that only computes, and one that reaches outside.

A function takes the event as a ``Message`` and returns

- True: the event goes on as it is; False: it is consumed;
- a ``Message``: that goes on instead; without an id it gets the event's;
- a list or a tuple of messages: each goes on, with an id of its own, such as ``o-1:0``; none: the event is consumed;
- anything else that can be sent, such as a dict, a text or a dataclass: a new body, as ``send`` would make it.

None is an error, because a function that forgets to return must not consume events; so is a list of anything else than
messages, because it could be meant as a body: that is ``Message.of([1, 2])``.
"""

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

from redrive.broker import Message
from redrive.errors import InvalidPayload, MessageError
from redrive.parts import FunctionSetting, load_function
from redrive.printable import one_line
from redrive.routes.event_values import numbered
from redrive.routes.outcomes import DestinationDown, Rejected, SendFailure, Throttled, TryLater
from redrive.routes.parts import EventFilter, LegFacts, OpenFilter, OutsideFilter, setting

if TYPE_CHECKING:
    from redrive.routes.environment import PartEnvironment


@dataclass(frozen=True, slots=True)
class PythonFilter(EventFilter):
    """Lets a function of the program decide, which must return the same for the same event.

    It takes a ``Message``, and returns True, False, a message, a list of messages or a new body. What it raises is
    permanent. One that waits for something, or whose result depends on anything else than the event, is a ``call``.
    """

    kind: ClassVar[str] = "python"

    function: str = setting(FunctionSetting(), "the function, as package.module:function")

    def ready(self) -> None:
        """See that the function can be imported in this process.

        Raises:
            InvalidSetting: it cannot, or is async.
        """
        load_function("function", self.function, is_async=False)

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Return the events that the function makes of this one."""
        result = load_function("function", self.function, is_async=False)(message)
        return events_of(self.function, message, result)


@dataclass(frozen=True, slots=True)
class PythonCallFilter(OutsideFilter):
    """Lets a function of the program decide that reaches outside: async, or blocking, which then runs in a thread.

    It takes a ``Message``, and returns what the function of a ``python`` filter returns, or ``TryLater``,
    ``DestinationDown``, ``Throttled`` or ``Rejected``. An exception means ``TryLater``, one of ``OSError``'s kind
    ``DestinationDown`` and a ``MessageError`` means ``Rejected``. It may be called again for the same event. The
    route's ``timeout`` ends the wait for it; a blocking function goes on in its thread nevertheless.
    """

    kind: ClassVar[str] = "call"

    function: str = setting(FunctionSetting(), "the function, async or blocking, as package.module:function")

    def ready(self) -> None:
        """See that the function can be imported in this process.

        Raises:
            InvalidSetting: it cannot.
        """
        load_function("function", self.function)

    def open(self, environment: "PartEnvironment") -> OpenFilter:
        """Return the filter at work."""
        self.ready()
        return _OpenCall(self.function)


class _OpenCall:
    """The function of a program, called."""

    def __init__(self, function: str) -> None:
        self._name = function
        self._function = load_function("function", function)
        self._is_async = inspect.iscoroutinefunction(self._function)

    async def apply(self, message: Message, leg: LegFacts) -> Sequence[Message] | SendFailure:
        try:
            result = await self._result(message)
            return result if _is_failure(result) else events_of(self._name, message, result)
        except MessageError as error:
            return Rejected(one_line(f"{type(error).__name__}: {error}", 500))

    async def _result(self, message: Message) -> Any:  # noqa: ANN401 - what a function of the program returns
        if self._is_async:
            return await self._function(message)
        result = await asyncio.to_thread(self._function, message)
        return await result if inspect.isawaitable(result) else result  # of a function that makes a coroutine

    async def ended(self, message: Message, leg: LegFacts, *, is_delivered: bool) -> None:
        return

    async def close(self) -> None:
        return


def _is_failure(result: object) -> TypeGuard[SendFailure]:
    return isinstance(result, TryLater | DestinationDown | Throttled | Rejected)


def events_of(function: str, message: Message, result: Any) -> Sequence[Message]:  # noqa: ANN401 - what it returned
    """Return the events that a function made.

    Args:
        function: its name, for errors.
        message: what it was given.
        result: what it returned.

    Raises:
        InvalidPayload: that is nothing that a function may return.
        InvalidMessage: it cannot be sent.
    """
    if result is True:
        return (message,)
    if result is False:
        return ()
    if result is None:
        raise InvalidPayload(f"{function} returned None; return True to pass the event, False to consume it")
    if _is_failure(result) or inspect.iscoroutine(result):
        _close(result)
        raise InvalidPayload(f"{function} returned a {type(result).__name__}, which only the filter 'call' understands")
    if isinstance(result, Message):
        return (result if result.id is not None or message.id is None else result.with_id(message.id),)
    if isinstance(result, list | tuple):
        return numbered(message, _messages(function, result))
    made = Message.of(result)
    return (replace(message, body=made.body, content_type=made.content_type),)


def _close(result: object) -> None:
    if inspect.iscoroutine(result):
        result.close()  # otherwise Python warns that it was never awaited


def _messages(function: str, result: Sequence[object]) -> list[Message]:
    found = [each for each in result if isinstance(each, Message)]
    if len(found) < len(result):
        fix = "a list is one of messages; return Message.of([...]) for a body that is a list"
        raise InvalidPayload(f"{function} returned a list of something else than messages; {fix}")
    return found
