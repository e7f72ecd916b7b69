# SPDX-License-Identifier: MIT
"""Errors that name the fix for settings that other libraries have. Pure: no I/O, no clock."""

from redrive.errors import UnknownSetting, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    F = TypeVar("F", bound=Callable[..., object])

_ATTEMPTS = ("stop", "attempts", "max_tries", "tries", "total")
_RETRIES = ("retries", "max_retries", "num_retries")
_WAITS = ("wait", "delay", "backoff", "interval", "sleep")
_ERRORS = ("exceptions", "exception", "errors", "retry_on", "expected")


def explained(fn: "F") -> "F":
    """Return ``retry`` with errors that name the fix, for a call that does not fit its parameters."""
    known = fn.__kwdefaults__ or {}

    def with_explanation(*misplaced: object, **settings: object) -> object:
        if misplaced:
            raise _misplaced(misplaced[0])
        for name, value in settings.items():
            if name not in known and name != "on":
                raise unknown_setting(name, value, ("on", *known))
        return fn(**settings)

    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__kwdefaults__"):
        setattr(with_explanation, name, getattr(fn, name))
    with_explanation.__wrapped__ = fn  # type: ignore[attr-defined]  # where its signature is looked for
    return with_explanation  # type: ignore[return-value]  # it takes what fn takes


def unknown_setting(name: str, value: object, known: "Iterable[str]") -> UnknownSetting:
    """Return the error for a setting that ``retry`` does not have."""
    return UnknownSetting("retry", name, tuple(sorted(known)), _instead(name, value))


def _instead(name: str, value: object) -> str:
    if name in _ATTEMPTS:
        return f"Instead write max_attempts={value!r}, which counts the first try"
    if name in _RETRIES:
        count = value + 1 if isinstance(value, int) else f"{value!r} + 1"
        return f"Instead write max_attempts={count}, which counts the first try"
    if name in _WAITS:
        return f"Instead write policy=Fixed({value!r}), or Exponential(min=...)"
    if name in _ERRORS:
        return f"Instead write on={value!r}"
    if name == "timeout":
        return f"Instead write attempt_timeout={value!r} for each attempt, or deadline={value!r} for all together"
    return ""


def _misplaced(value: object) -> UsageError:
    if isinstance(value, type) and issubclass(value, BaseException):
        return UsageError(f"retry takes no {value.__name__} without a name; write retry(on={value.__name__})")
    if callable(value):
        name = getattr(value, "__qualname__", None) or type(value).__qualname__
        return UsageError(f"write @retry(on=ConnectionError) above {name}: it must know what to retry")
    return UsageError(f"retry takes no {value!r}; every setting has a name: retry(on=ConnectionError, max_attempts=3)")
