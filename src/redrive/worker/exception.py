# SPDX-License-Identifier: MIT
"""Where an exception was raised, its traceback without the worker's own frames, and where a handler is now."""

import sys
import traceback
from types import CoroutineType, FrameType, TracebackType
from typing import Any

_OURS = ("redrive.worker.", "redrive.retry.", "redrive.broker.decode")


def source_of(error: BaseException) -> str:
    """Return where an exception was raised: module, function and line; empty if it was never raised."""
    innermost = error.__traceback__
    if innermost is None:
        return ""
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    return _place(innermost.tb_frame, innermost.tb_lineno)


def place_of(running: "int | CoroutineType[Any, Any, Any]") -> str:
    """Return where a thread or a coroutine is now: module, function and line; empty if it has ended.

    If it is inside Python's standard library, this is the caller of the library, which says more.
    """
    frames = _thread_frames(running) if isinstance(running, int) else _coroutine_frames(running)
    innermost = next((frame for frame in frames if not _is_of_python(frame)), frames[0] if frames else None)
    return "" if innermost is None else _place(innermost, innermost.f_lineno)


def _thread_frames(thread: int) -> list[FrameType]:
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]  # documented, in spite of its name
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _coroutine_frames(coroutine: "CoroutineType[Any, Any, Any]") -> list[FrameType]:
    frames: list[FrameType] = []
    inner: object = coroutine
    while isinstance(inner, CoroutineType):
        frames = frames if inner.cr_frame is None else [inner.cr_frame, *frames]
        inner = inner.cr_await
    return frames


def _is_of_python(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in sys.stdlib_module_names


def _place(frame: FrameType, line: int | None) -> str:
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}:{line}"


def trace_of(error: BaseException) -> str:
    """Return the traceback as Python prints it, with all causes, from the handler on."""
    report = traceback.TracebackException(type(error), error, _from_handler(error.__traceback__), compact=True)
    return "".join(report.format())


def _from_handler(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the first frame that is not the worker's; the whole if all are."""
    at = trace
    while at is not None:
        if not str(at.tb_frame.f_globals.get("__name__", "")).startswith(_OURS):
            return at
        at = at.tb_next
    return trace
