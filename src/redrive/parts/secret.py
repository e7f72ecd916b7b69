# SPDX-License-Identifier: MIT
"""Secrets that are read from the environment: then they are neither in files nor in the store.

A setting is written ``env:NAME``, and the variable is read when the part that has it is opened.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from redrive.errors import InvalidSetting
from redrive.parts.variable import check_variable

_PREFIX: Final = "env:"
_VARIABLE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class SecretSetting:
    """A secret, which is always in the environment: it must be ``env:NAME``."""

    def checked(self, name: str, value: object) -> str:
        """Return it. The error does not show what was given."""
        if not isinstance(value, str) or not is_in_environment(value):
            raise InvalidSetting(name, "***", "must be 'env:' and the name of an environment variable that has it")
        return value


def is_in_environment(value: str) -> bool:
    """Say whether a value is ``env:`` and a name that a variable can have."""
    return _VARIABLE.fullmatch(value) is not None


def variable_value(name: str, value: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return the name of the variable of ``env:NAME``, and its value; an empty one if it is not set.

    Raises:
        InvalidSetting: this process may not read it.
    """
    variable = value.removeprefix(_PREFIX)
    check_variable(name, variable)
    return variable, (os.environ if environ is None else environ).get(variable, "").strip()


def from_environment(name: str, value: str) -> str:
    """Return a value that may be kept in an environment variable.

    Args:
        name: what the setting is called.
        value: the value, or ``env:`` and the name of a variable.

    Raises:
        InvalidSetting: there is no such variable, this process may not read it, or it has what no header can have.
    """
    if not value.startswith(_PREFIX):
        return value
    found = secret_value(name, value) or ""
    if not (found.isascii() and found.isprintable()):
        variable = value.removeprefix(_PREFIX)
        raise InvalidSetting(name, value, f"needs printable ASCII in the environment variable {variable!r}")
    return found


def secret_value(name: str, value: str | None) -> str | None:
    """Return the secret of a ``SecretSetting``, which may have several lines; None: there is none.

    Raises:
        InvalidSetting: there is no such variable, or this process may not read it.
    """
    if value is None:
        return None
    variable, found = variable_value(name, value)
    if not found:
        raise InvalidSetting(name, value, f"needs the environment variable {variable!r}: set it where this runs")
    return found


def hidden_secret(value: str) -> str:
    """Return what may be shown of a value: where it is read from, and nothing of a secret."""
    return value if value.startswith(_PREFIX) else "***"
