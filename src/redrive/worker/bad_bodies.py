# SPDX-License-Identifier: MIT
"""Whether an error that a handler raised says that the message's body is bad. Pure: no I/O, no clock.

The same error may be about something else: the answer of a web service that is out of order is no JSON either, and will
be again. So what counts is what the error is about: these errors carry what could not be decoded.

- ``json.JSONDecodeError``, and those of other libraries made like it, carry the document.
- ``UnicodeDecodeError`` carries the bytes.
- pydantic's ``ValidationError`` carries each value that it refuses, and where that is.
"""

import json
from collections.abc import Iterable
from typing import Any


def blames_body(error: Exception, body: bytes) -> bool:
    """Say whether an error is about this body; if that cannot be told, it is not."""
    try:
        return _blames_body(error, body)
    except Exception:  # noqa: BLE001 - an error of a stranger, that cannot even be looked at
        return False


def _blames_body(error: Exception, body: bytes) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return error.object == body
    if _is_of_pydantic(error):
        return _refuses_body(error.errors(include_url=False, include_context=False), body)  # type: ignore[attr-defined]
    document = getattr(error, "doc", None) if isinstance(error, ValueError) else None
    return isinstance(document, str) and document == _text(body)


def _is_of_pydantic(error: Exception) -> bool:
    kinds = type(error).__mro__
    return any(kind.__name__ == "ValidationError" and kind.__module__.startswith("pydantic") for kind in kinds)


def _refuses_body(problems: Iterable[dict[str, Any]], body: bytes) -> bool:
    """Say whether what was refused is in the body, and there where it was refused."""
    try:
        whole: Any = json.loads(body)
    except (ValueError, RecursionError):
        whole = _text(body)
    return all(problem["input"] == body or _is_at(whole, problem) for problem in problems)


def _is_at(whole: Any, problem: dict[str, Any]) -> bool:  # noqa: ANN401 - JSON
    found = whole
    for step in problem["loc"]:
        is_item = isinstance(found, list) and isinstance(step, int) and step < len(found)
        if not is_item and not (isinstance(found, dict) and step in found):
            break  # it is missing here, or the step names one of several types
        found = found[step]
    return type(found) is type(problem["input"]) and bool(found == problem["input"])


def _text(body: bytes) -> str:
    """Return a body as those who decode JSON read it."""
    try:
        return body.decode(json.detect_encoding(body), "surrogatepass")
    except UnicodeDecodeError:
        return body.decode(errors="backslashreplace")
