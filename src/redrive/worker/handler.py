# SPDX-License-Identifier: MIT
"""A handler and its settings, checked when it is declared."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, get_type_hints

from redrive.broker import Message, QueueInfo, decoder
from redrive.errors import InvalidSetting
from redrive.worker.context import BlockingContext, Context
from redrive.worker.settings import HandlerSettings

Decode: TypeAlias = Callable[[Message], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler(HandlerSettings):
    """A function that handles the messages of a queue, and its settings.

    Attributes:
        queue: the queue.
        fn: the function.
        name: the function's name, for people.
        is_async: whether it is a coroutine function; otherwise it runs in a thread.
        decode: makes its first argument; None if it takes the context alone.
        takes_context: whether it takes a context.
    """

    queue: str
    fn: Callable[..., Any]
    name: str
    is_async: bool
    decode: Decode | None
    takes_context: bool

    def check_fits(self, queue: QueueInfo) -> None:
        """Refuse retries in place that would outlast the lock.

        Raises:
            InvalidSetting: they take longer than the lock lasts.
        """
        if self.retry_in_place is None:
            return
        policy, lock_s = self.retry_in_place, queue.settings.lock_duration
        needed = policy.preview().worst + (policy.max_attempts or 1) * (self.timeout or 0.0)
        if needed >= lock_s:
            raise InvalidSetting(
                "retry_in_place",
                policy,
                f"may take {needed:.3g} s, but a lock on {self.queue!r} lasts {lock_s:g} s; use fewer or shorter "
                "waits, a longer lock_duration, or delayed redeliveries: recoverability=Recoverability(delayed=...)",
            )


def checked_handler(queue: str, fn: Callable[..., Any], settings: HandlerSettings) -> Handler:
    """Return a handler, if its function can be one."""
    is_async, decode, takes_context = _signature(fn)
    return Handler(
        queue=queue,
        fn=fn,
        name=name_of(fn),
        is_async=is_async,
        decode=decode,
        takes_context=takes_context,
        **{name: getattr(settings, name) for name in HandlerSettings.names()},
    )


def _signature(fn: Callable[..., Any]) -> tuple[bool, Decode | None, bool]:
    """Return whether a function is async, what makes its payload, and whether it takes a context."""
    if isinstance(fn, type) or not callable(fn):
        raise InvalidSetting("handler", fn, "must be a function")
    called = _called(fn)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise InvalidSetting("handler", fn, "must not be a generator: it takes one message and returns")
    is_async = inspect.iscoroutinefunction(called)
    parameters = _parameters(fn)
    annotations = _annotations(fn)
    kinds = [annotations.get(parameter.name, parameter.annotation) for parameter in parameters]
    if kinds[0] in (Context, BlockingContext):
        _check_context(fn, kinds[0], is_async=is_async)
        if len(kinds) > 1:
            raise InvalidSetting("handler", fn, "must take the payload first and the context second")
        return is_async, None, True
    if len(kinds) > 1:
        if not _is_context(parameters[1], kinds[1]):
            raise _not_taken(fn)
        _check_context(fn, kinds[1], is_async=is_async)
    return is_async, decoder(bytes if kinds[0] is inspect.Parameter.empty else kinds[0]), len(kinds) > 1


def _called(fn: Any) -> Callable[..., Any]:  # noqa: ANN401 - any callable
    """Return the function itself, or the method that an object is called by."""
    called: Callable[..., Any] = fn if inspect.isroutine(fn) or isinstance(fn, partial) else fn.__call__
    return called


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that get an argument: one for the payload and, if it is required, one for the context."""
    found = list(inspect.signature(fn).parameters.values())
    positional = [one for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    taken = [one for at, one in enumerate(positional) if at == 0 or one.default is one.empty]
    taken = taken or [one for one in found if one.kind is one.VAR_POSITIONAL]
    others = [one for one in found if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if not 1 <= len(taken) <= 2 or others:
        raise _not_taken(fn)
    return taken


def _annotations(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(fn.func if isinstance(fn, partial) else _called(fn))
    except (NameError, TypeError) as error:
        raise InvalidSetting("handler", fn, f"has an annotation that cannot be found: {error}") from error


def _is_context(parameter: inspect.Parameter, kind: Any) -> bool:  # noqa: ANN401 - an annotation
    """Say whether a second parameter is meant for the context: by its annotation, or if it has none, by its name."""
    if kind is inspect.Parameter.empty:
        return parameter.name.startswith("_") or parameter.name in ("context", "ctx")
    return kind in (Any, object, Context, BlockingContext)


def _not_taken(fn: Callable[..., Any]) -> InvalidSetting:
    signature = inspect.signature(fn)
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return InvalidSetting(
        "handler",
        name_of(fn),
        f"takes {signature.replace(parameters=bare, return_annotation=signature.empty)}: a handler takes one payload, "
        "made from the body, and optionally a context: async def ship(order: Order, context: Context); "
        "for several values, take a dataclass or a dict",
    )


def _check_context(fn: Callable[..., Any], kind: Any, *, is_async: bool) -> None:  # noqa: ANN401 - an annotation
    fitting = Context if is_async else BlockingContext
    if kind in (inspect.Parameter.empty, Any, object, fitting):
        return
    how = "async, so its context is a Context" if is_async else "blocking, so its context is a BlockingContext"
    raise InvalidSetting("handler", fn, f"is {how}, not {kind!r}")


def name_of(fn: object) -> str:
    """Return the name of a function, for people."""
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return f"{getattr(fn, '__module__', None) or '?'}.{name}"
