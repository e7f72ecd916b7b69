# SPDX-License-Identifier: MIT
"""Decorating a function without slowing it down.

The wrapper is written as source text with the function's own signature and compiled once, the way ``dataclasses``
writes ``__init__``: passing ``*args, **kwargs`` on would cost more than everything else it does. On success it does
three things, without a lock or an allocation: check whether the call needs the slow path, read the clock, call. See
docs/decisions/0003-generated-wrappers.md.
"""

from types import FunctionType

from redrive.errors import UsageError
from redrive.retry.ambient import ambient
from redrive.retry.loops import adopt, attempts, attempts_async, begin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

    from redrive.retry.loops import Live
    from redrive.retry.settings import RetryPlan

_VARARGS, _VARKEYWORDS, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x08, 0x20, 0x80, 0x200
_PREFIX = "_redrive_"

_TEMPLATE = """\
{async_}def with_retry({parameters}):
    if {needs_operation}:
        return {await_}_redrive_attempts(_redrive_begin(_redrive_live, _redrive_name), _redrive_fn, {args}, {kwargs})
    _redrive_started = _redrive_monotonic()
    try:
        return {await_}_redrive_fn({call})
    except _redrive_errors as _redrive_error:
        _redrive_failure = _redrive_error
    try:
        _redrive_operation = _redrive_adopt(_redrive_live, _redrive_name, _redrive_started)
        return {await_}_redrive_attempts(_redrive_operation, _redrive_fn, {args}, {kwargs}, _redrive_failure)
    finally:
        _redrive_failure = None  # this frame is in the error's traceback: holding the error would make a cycle
"""


def wrap(fn: "Callable[..., Any]", live: "Live", *, is_live: bool) -> "Callable[..., Any]":
    """Return ``fn`` with retries around it: same signature, same kind, same name.

    Args:
        fn: a function or another callable; coroutine functions become coroutine functions.
        live: where the plan in force is found.
        is_live: whether that plan may be replaced, so that nothing of it may be compiled in.
    """
    from functools import update_wrapper

    _refuse_what_cannot_be_retried(fn)
    source = _source(fn, live.plan, is_live=is_live)
    # its own globals: the interpreter caches where a global is, which makes it cheaper than a closure's cell
    namespace: dict[str, Any] = {"__name__": __name__, "__loader__": _Source(source), **_globals(fn, live)}
    # no file: coverage leaves alone what begins with "<"; tracebacks ask for the lines of what does not end with ">"
    exec(compile(source, f"<retry of {name_of(fn)}> by redrive", "exec"), namespace)  # noqa: S102 - our own text
    wrapper = namespace["with_retry"]
    if _has_own_signature(fn):
        wrapper.__defaults__, wrapper.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    update_wrapper(wrapper, fn)
    return wrapper  # type: ignore[no-any-return]  # made from text; its type is fn's


def name_of(fn: object) -> str:
    """Return the name of an operation that was given none."""
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    module = getattr(fn, "__module__", None)
    return f"{module}.{name}" if module else name


def is_async(fn: object) -> bool:
    """Say whether calling ``fn`` gives something to await."""
    if isinstance(fn, FunctionType) and not hasattr(fn, "_is_coroutine_mark"):
        return bool(fn.__code__.co_flags & _COROUTINE)
    from inspect import iscoroutinefunction

    return iscoroutinefunction(fn) or iscoroutinefunction(getattr(type(fn), "__call__", None))  # noqa: B004 - its kind


def _refuse_what_cannot_be_retried(fn: object) -> None:
    if isinstance(fn, type) or not callable(fn):
        raise UsageError(f"{fn!r} cannot be retried: decorate a function")
    if _is_generator(fn):
        raise UsageError(
            f"{name_of(fn)} is a generator: a retry would repeat what it has already yielded. "
            "Put the retry around one step inside it: for attempt in retry(on=...): with attempt: ..."
        )


def _is_generator(fn: object) -> bool:
    if isinstance(fn, FunctionType):
        return bool(fn.__code__.co_flags & (_GENERATOR | _ASYNC_GENERATOR))
    from inspect import isasyncgenfunction, isgeneratorfunction

    called = getattr(fn, "__call__", None)  # noqa: B004 - an object may be called as well as a function
    return any(isgeneratorfunction(target) or isasyncgenfunction(target) for target in (fn, called))


def _source(fn: "Callable[..., Any]", plan: "RetryPlan", *, is_live: bool) -> str:
    parameters, args, kwargs, call = _signature(fn.__code__, fn) if _has_own_signature(fn) else _ANY_SIGNATURE
    return _TEMPLATE.format(
        async_="async " if is_async(fn) else "",
        await_="await " if is_async(fn) else "",
        needs_operation=_needs_operation(plan, is_live=is_live),
        parameters=parameters,
        args=args,
        kwargs=kwargs,
        call=call,
    )


def _globals(fn: "Callable[..., Any]", live: "Live") -> "dict[str, Any]":
    plan = live.plan
    return {
        "_redrive_adopt": adopt,
        "_redrive_ambient": ambient.get,
        "_redrive_attempts": attempts_async if is_async(fn) else attempts,
        "_redrive_begin": begin,
        "_redrive_breaker": plan.breaker,
        "_redrive_budget": plan.budget,
        "_redrive_errors": Exception if plan.tests else plan.errors,
        "_redrive_fn": fn,
        "_redrive_live": live,
        "_redrive_monotonic": plan.clock.monotonic,
        "_redrive_name": name_of(fn),
    }


def _needs_operation(plan: "RetryPlan", *, is_live: bool) -> str:
    """Return the condition for the slow path: something must see the call before it fails."""
    if is_live:
        return "_redrive_ambient() is not None or not _redrive_live.plan.is_quiet()"
    if plan.is_announced or plan.on_result is not None:
        return "True"
    tests = ["_redrive_ambient() is not None"]
    if plan.breaker is not None:
        tests.append("not _redrive_breaker.calm")
    if plan.budget is not None:
        tests.append("_redrive_budget.short")
    return " or ".join(tests)


_ANY_SIGNATURE = ("*args, **kwargs", "args", "kwargs", "*args, **kwargs")


def _has_own_signature(fn: "Callable[..., Any]") -> bool:
    return isinstance(fn, FunctionType) and all(
        name.isidentifier() and not name.startswith(_PREFIX) for name in fn.__code__.co_varnames
    )


def _signature(code: "CodeType", fn: "Callable[..., Any]") -> tuple[str, str, str, str]:
    """Return a function's parameters, and the texts that pass them on: as a tuple, as a dict, and as a call."""
    names = iter(code.co_varnames)
    positional = [next(names) for _ in range(code.co_argcount)]
    keywords = [next(names) for _ in range(code.co_kwonlyargcount)]
    rest = [f"*{next(names)}"] if code.co_flags & _VARARGS else []
    others = [f"**{next(names)}"] if code.co_flags & _VARKEYWORDS else []
    defaulted = len(fn.__defaults__ or ())
    # the defaults are only marked here; the wrapper gets the real ones
    parameters = [
        f"{name}=None" if index >= len(positional) - defaulted else name for index, name in enumerate(positional)
    ]
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    parameters += rest or (["*"] if keywords else [])
    parameters += [f"{name}=None" if name in (fn.__kwdefaults__ or {}) else name for name in keywords]
    args = "(" + "".join(f"{name}, " for name in positional + rest) + ")"
    kwargs = "{" + ", ".join([f"{name!r}: {name}" for name in keywords] + others) + "}"
    call = ", ".join(positional + rest + [f"{name}={name}" for name in keywords] + others)
    return ", ".join(parameters + others), args, kwargs, call


class _Source:
    """Shows tracebacks the generated text: they ask the loader of a frame's globals for lines they cannot find."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, _name: str) -> str:
        return self._text
