# SPDX-License-Identifier: MIT
"""Functions of a program, by the names that files and other processes find them by: ``package.module:function``."""

import inspect
import re
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

from redrive.errors import InvalidSetting
from redrive.printable import one_line

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_FORM: Final = "must be a function, or its name as 'package.module:function'"
_LONGEST: Final = 300
_FIX: Final = "write it with def at the top level of a module that other processes can import, and pass that"


@dataclass(frozen=True, slots=True)
class FunctionSetting:
    """A function, kept as its name: a declaration is stored, and other processes run it."""

    def checked(self, name: str, value: object) -> str:
        """Return the name of the function."""
        if callable(value):
            return function_name(name, value)
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            raise InvalidSetting(name, value, _FORM)
        return value


def function_name(setting: str, function: Callable[..., object]) -> str:
    """Return the name that a function can be imported by.

    Raises:
        InvalidSetting: it has none.
    """
    module, way = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(way, str):
        raise InvalidSetting(setting, function, f"must be a function, which has a name; {_FIX}")
    if "<lambda>" in way:
        raise InvalidSetting(setting, function, f"a lambda has no name to be found by; {_FIX}")
    if "<locals>" in way:
        raise InvalidSetting(setting, function, f"a function inside another one cannot be imported; {_FIX}")
    if module == "__main__":
        raise InvalidSetting(setting, function, f"the file that was started cannot be imported by that name; {_FIX}")
    if _found(module, way) is not function:
        raise InvalidSetting(setting, function, f"{module}:{way} is something else than this function; {_FIX}")
    return f"{module}:{way}"


_allowed: frozenset[str] | None = None


@contextmanager
def only_functions(names: Iterable[str]) -> Generator[None]:
    """Let stored declarations name no other functions than these, in the whole process, for as long as the block lasts.

    For a process that runs what others have stored: to write to its database must not be a way to run code.
    """
    global _allowed  # noqa: PLW0603 - it is one for the process, which is what it protects
    before, _allowed = _allowed, frozenset(names)
    try:
        yield
    finally:
        _allowed = before


def load_function(setting: str, name: str, *, is_async: bool | None = None) -> Callable[..., Any]:
    """Import a function; once for each process.

    Args:
        setting: the name to blame in the error.
        name: ``package.module:function``.
        is_async: what the function must be; None: either.

    Raises:
        InvalidSetting: there is no such function, it is not of that kind, or this process may not call it.
    """
    if _allowed is not None and name not in _allowed:
        raise InvalidSetting(setting, name, "is not on the list of functions that this process may call (allow)")
    return _load_function(setting, name, is_async)


@cache
def _load_function(setting: str, name: str, is_async: bool | None) -> Callable[..., Any]:  # noqa: FBT001 - as above
    module, _, way = name.partition(":")
    try:
        found = _found(module, way)
    except Exception as error:  # whatever a module of the program raises when it is imported
        text = f"cannot be imported: {_place(error)}: {type(error).__name__}: {one_line(str(error), _LONGEST)}"
        raise InvalidSetting(setting, name, text) from error
    if found is None:
        allowed = (
            f"cannot be imported: see that {module!r} is installed here, or in a folder of PYTHONPATH, and has {way!r}"
        )
        raise InvalidSetting(setting, name, allowed)
    if not callable(found):
        raise InvalidSetting(setting, name, f"is {type(found).__name__}, and must be a function")
    if is_async is False and inspect.iscoroutinefunction(found):
        raise InvalidSetting(setting, name, "is async, and a pure filter waits for nothing; use the filter 'call'")
    return found  # type: ignore[no-any-return]  # a function of the program


def _found(module: str, way: str) -> Any:  # noqa: ANN401 - whatever the module has
    """Return what a module calls by a name; None if there is no such module or no such name."""
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the module itself imports
        return None
    for part in way.split("."):
        found = getattr(found, part, None)
    return found


def _place(error: Exception) -> str:
    """Return the file and the line that an import came to before it failed."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}, line {last.lineno}"
