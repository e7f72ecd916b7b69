# SPDX-License-Identifier: MIT
"""A handler and its settings, checked when it is declared."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, get_type_hints

from redrive import duration, number
from redrive.broker import Message, QueueInfo, decoder
from redrive.errors import InvalidSetting
from redrive.retry import Backoff
from redrive.worker.context import BlockingContext, Context
from redrive.worker.recoverability import Decision, HandlerFailure, Recoverability, decide
from redrive.worker.slowdown import SlowDown

Decode: TypeAlias = Callable[[Message], Any]
Decide: TypeAlias = Callable[[HandlerFailure], Decision]

_MOST_CONCURRENT = 1_000
_MOST_PREFETCHED = 10_000
_MOST_HUNG = 10_000
_USUALLY_HUNG = 10
"""As often as a queue usually delivers: one message that always hangs is dead-lettered before the worker ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function that handles the messages of a queue, and how.

    Attributes:
        queue: the queue.
        fn: the function.
        name: the function's name, for people.
        is_async: whether it is a coroutine function; otherwise it runs in a thread.
        decode: makes its first argument; None if it takes the context alone.
        takes_context: whether it takes a context.
        concurrency: how many messages are handled at a time.
        prefetch: how many more are fetched ahead.
        recoverability: how failures are dealt with; None if ``decide`` is the user's own.
        decide: decides about a failure.
        auto_complete: whether a message is completed when the function returns.
        timeout: seconds it may take; None: no limit.
        max_lock_renewal: seconds for which its lock is renewed.
        retry_in_place: how to call it again while the lock is held; None: not at all.
        slow_down: when to slow down; None: never.
        max_hung: how many calls may go on although their messages' locks were lost.
        receive_and_delete: whether messages are taken out of their queue before they are handled.
    """

    queue: str
    fn: Callable[..., Any]
    name: str
    is_async: bool
    decode: Decode | None
    takes_context: bool
    concurrency: int
    prefetch: int
    recoverability: Recoverability | None
    decide: Decide
    auto_complete: bool
    timeout: float | None
    max_lock_renewal: float
    retry_in_place: Backoff | None
    slow_down: SlowDown | None
    max_hung: int
    receive_and_delete: bool

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


def checked_handler(
    queue: str,
    fn: Callable[..., Any],
    *,
    concurrency: int,
    prefetch: int,
    recoverability: Recoverability | Decide | None,
    auto_complete: bool,
    timeout: duration.Duration | None,
    max_lock_renewal: duration.Duration,
    retry_in_place: Backoff | None,
    slow_down: SlowDown | None,
    max_hung: int | None,
    receive_and_delete: bool,
) -> Handler:
    """Return a handler, if its settings and its function are what they may be."""
    if number.flag("receive_and_delete", receive_and_delete):
        _check_needs_no_lock(recoverability, prefetch, auto_complete=auto_complete)
    is_async, decode, takes_context = _signature(fn)
    policy = Recoverability() if recoverability is None else recoverability
    return Handler(
        queue=queue,
        fn=fn,
        name=name_of(fn),
        is_async=is_async,
        decode=decode,
        takes_context=takes_context,
        concurrency=number.whole("concurrency", concurrency, 1, _MOST_CONCURRENT),
        prefetch=number.whole("prefetch", prefetch, 0, _MOST_PREFETCHED),
        recoverability=policy if isinstance(policy, Recoverability) else None,
        decide=_check_decide(policy),
        auto_complete=number.flag("auto_complete", auto_complete),
        timeout=None if timeout is None else duration.seconds("timeout", timeout),
        max_lock_renewal=duration.seconds("max_lock_renewal", max_lock_renewal, zero=True),
        retry_in_place=_check_in_place(retry_in_place),
        slow_down=_check_slow_down(slow_down),
        max_hung=_check_max_hung(max_hung, concurrency),
        receive_and_delete=receive_and_delete,
    )


def _check_max_hung(value: int | None, concurrency: int) -> int:
    """Return the limit; by default all that run may be among them, as after an outage of the store."""
    return max(_USUALLY_HUNG, concurrency) if value is None else number.whole("max_hung", value, 0, _MOST_HUNG)


def _check_needs_no_lock(recoverability: object, prefetch: int, *, auto_complete: bool) -> None:
    """Refuse what cannot be done with messages that are deleted when they are received."""
    problem = None
    if not auto_complete:
        problem = "auto_complete=False: there is nothing left to settle"
    elif prefetch:
        problem = "prefetch: what is fetched ahead would be lost when the worker stops"
    elif recoverability is not None:
        problem = "recoverability: a message whose handler fails is gone; receive it with a lock, as usual, to keep it"
    if problem:
        raise InvalidSetting("receive_and_delete", value=True, allowed=f"cannot be combined with {problem}")


def _check_decide(value: Recoverability | Decide) -> Decide:
    if isinstance(value, Recoverability):
        return partial(decide, policy=value)
    if isinstance(value, type) or not callable(value):
        raise InvalidSetting(
            "recoverability", value, "must be a Recoverability(...), or a function of a HandlerFailure that decides"
        )
    return value


def _check_in_place(value: object) -> Backoff | None:
    if value is None:
        return None
    if not isinstance(value, Backoff) or value.max_attempts is None:
        raise InvalidSetting(
            "retry_in_place", value, "must be a policy with max_attempts, such as Fixed(0.1, max_attempts=3)"
        )
    return value


def _check_slow_down(value: object) -> SlowDown | None:
    if value is not None and not isinstance(value, SlowDown):
        raise InvalidSetting("slow_down", value, "must be a SlowDown(...), or None for never")
    return value


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


def _called(fn: Any) -> Callable[..., Any]:  # noqa: ANN401 - whatever can be called
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
        "made from the body, and if it likes a context: async def ship(order: Order, context: Context); "
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
