# SPDX-License-Identifier: MIT
"""Whether an error that a handler raised says that the message's body is bad. Pure: no I/O, no clock.

The same error may be about something else: a web service that is down may answer with something that is not JSON, and
a later attempt succeeds. So the check compares what the error carries, the value that could not be decoded, with the
body.

- ``json.JSONDecodeError``, and the errors of other libraries that resemble it, carry the document.
- ``UnicodeDecodeError`` carries the bytes.
- pydantic's ``ValidationError`` carries each value that it refuses, and the path to it.
"""

import json
from collections.abc import Iterable
from typing import Any


def blames_body(error: Exception, body: bytes) -> bool:
    """Say whether an error is about this body. If that is not certain, the answer is no."""
    try:
        return _blames_body(error, body)
    except Exception:  # noqa: BLE001 - an unknown error whose attributes may raise
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
    """Say whether the body has each refused value at the path that the error names."""
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
    """Return a body as JSON decoders read it."""
    try:
        return body.decode(json.detect_encoding(body), "surrogatepass")
    except UnicodeDecodeError:
        return body.decode(errors="backslashreplace")
