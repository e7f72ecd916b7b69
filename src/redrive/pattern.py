# SPDX-License-Identifier: MIT
"""Regular expressions of RE2 (https://github.com/google/re2/wiki/Syntax). Pure: no I/O, no clock.

Searching takes time in proportion to the text, whatever the pattern is. There is no look-around, and there are no back
references: the patterns of Python have them, and with them one text can keep a process busy for years.
"""

from functools import lru_cache
from typing import Any

from redrive.errors import InvalidExpression, MissingExtra

__all__ = ["compiled_pattern"]


@lru_cache(maxsize=1_000)
def compiled_pattern(text: str, extra: str = "routes") -> Any:  # noqa: ANN401 - the library has no types
    """Return a pattern of RE2; it is compiled once.

    Args:
        text: the pattern.
        extra: the extra that the caller needs it for.

    Raises:
        InvalidExpression: it cannot be read.
        MissingExtra: RE2 is not installed.
    """
    try:
        import re2  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra("a pattern", extra) from error
    options = re2.Options()
    options.log_errors = False  # it would write to standard error
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidExpression(text, f"as a pattern of RE2: {_problem(error)}") from None


def _problem(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    problem = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    if problem.startswith("invalid perl operator"):
        return f"{problem}; RE2 has no look-around"
    return f"{problem}; RE2 has no back references" if problem.startswith("invalid escape") else problem
