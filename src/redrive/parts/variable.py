# SPDX-License-Identifier: MIT
"""Environment variables that stored declarations may name: in a process that limits them, those on a list."""

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Final

from redrive.errors import InvalidSetting

_PATTERN: Final = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")

_names: tuple[str, ...] | None = None
_is_free: ContextVar[bool] = ContextVar("redrive_free_variables", default=False)


@contextmanager
def only_variables(names: Iterable[str]) -> Generator[None]:
    """Let stored declarations name no environment variables but these, in the whole process, until the block ends.

    For a process that runs what others have stored: to write to its database must not be a way to its secrets, which a
    declaration could send to a server of its author.

    Args:
        names: the names; ``*`` in one stands for any characters.
    """
    global _names  # noqa: PLW0603 - it is one for the process, which is what it protects
    before, _names = _names, tuple(names)
    try:
        yield
    finally:
        _names = before


@contextmanager
def any_variables() -> Generator[None]:
    """Let what runs in the block, and tasks that begin in it, name any variable: for declarations of own files."""
    before = _is_free.set(True)
    try:
        yield
    finally:
        _is_free.reset(before)


def check_variable(setting: str, variable: str) -> None:
    """Refuse a variable that this process may not read for a stored declaration.

    Args:
        setting: the name to blame in the error.
        variable: the name of the variable.

    Raises:
        InvalidSetting: it is not on the list.
    """
    if _names is not None and not _is_free.get() and not is_in_variables(variable, _names):
        problem = "names a variable that this process may not read; add its name to variables in redrive.toml"
        raise InvalidSetting(setting, f"env:{variable}", problem)


def is_in_variables(variable: str, names: Iterable[str]) -> bool:
    """Say whether a variable is one of some names, in which ``*`` stands for any characters."""
    return any(fnmatchcase(variable, each) for each in names)


def check_variable_names(setting: str, names: Iterable[str]) -> None:
    """Refuse what cannot be the name of a variable, or a pattern of names.

    Raises:
        InvalidSetting: it cannot.
    """
    for each in names:
        if not _PATTERN.fullmatch(each):
            raise InvalidSetting(setting, each, "must be the name of an environment variable; * stands for any letters")
