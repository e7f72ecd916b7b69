# SPDX-License-Identifier: MIT
"""Reading an exception: where it was raised, and its traceback without the worker's own frames."""

import traceback
from types import TracebackType

_OURS = ("redrive.worker.", "redrive.retry.")


def source_of(error: BaseException) -> str:
    """Return where an exception was raised: module, function and line; empty if it was never raised."""
    innermost = error.__traceback__
    if innermost is None:
        return ""
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    module = innermost.tb_frame.f_globals.get("__name__", "?")
    return f"{module}.{innermost.tb_frame.f_code.co_qualname}:{innermost.tb_lineno}"


def trace_of(error: BaseException) -> str:
    """Return the traceback as Python prints it, with all causes, from the handler on."""
    told = traceback.TracebackException(type(error), error, _from_handler(error.__traceback__), compact=True)
    return "".join(told.format())


def _from_handler(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the first frame that is not ours; the whole if all are."""
    at = trace
    while at is not None:
        if not str(at.tb_frame.f_globals.get("__name__", "")).startswith(_OURS):
            return at
        at = at.tb_next
    return trace
