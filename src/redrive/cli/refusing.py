# SPDX-License-Identifier: MIT
"""What recovery refuses, for a person and for a script: one answer that names the way out, and one exit status each."""

from enum import IntEnum

import typer

from redrive.cli import screen
from redrive.errors import (
    FailureNotFound,
    InvalidFilter,
    InvalidSetting,
    NoteNotFound,
    OperationConflict,
    OperationNotFound,
    QueueNotFound,
    RedirectRefused,
    RedriveError,
    TransformFailed,
)


class Status(IntEnum):
    """The exit statuses of the commands of recovery."""

    ERROR = 1
    NOT_UNDERSTOOD = 2
    NOT_FOUND = 3
    """No failed message has that id, no operation that number."""
    NOTHING_CHOSEN = 4
    NO_QUEUE = 5
    IN_THE_WAY = 6
    """An operation has the messages, or its state does not allow it."""
    REDIRECT_REFUSED = 7
    NOT_ALL = 8
    """The operation is over, and some messages failed again or could not be sent."""
    STOPPED = 9
    """The operation was paused or cancelled, by its canaries or by a person."""
    INTERRUPTED = 130


def refusal(problem: str, status: Status) -> typer.Exit:
    """Say what is wrong; return what to raise."""
    return screen.refusal(problem, int(status))


def failure(error: RedriveError) -> typer.Exit:
    """Say what went wrong and what to do about it; return what to raise."""
    match error:
        case InvalidFilter():
            return refusal(_pointed_out(error), Status.NOT_UNDERSTOOD)
        case OperationConflict(operation=number):
            verb = "show" if "cannot be" in error.problem else "watch"
            return refusal(f"{error}\n  redrive operations {verb} {number}", Status.IN_THE_WAY)
        case QueueNotFound(queue=queue):
            return refusal(
                f"there is no queue {queue!r}; redrive queues shows those there are, redrive queues declare adds one",
                Status.NO_QUEUE,
            )
        case _:
            return refusal(str(error), _status(error))


def _status(error: RedriveError) -> Status:
    if isinstance(error, FailureNotFound | NoteNotFound | OperationNotFound):
        return Status.NOT_FOUND
    if isinstance(error, RedirectRefused):
        return Status.REDIRECT_REFUSED
    if isinstance(error, InvalidSetting | TransformFailed):
        return Status.NOT_UNDERSTOOD
    return Status.ERROR


def _pointed_out(error: InvalidFilter) -> str:
    """Return the filter, and below it where it cannot be understood."""
    text = screen.printable(error.text).replace("\n", " ").replace("\t", " ")
    term, _, problem = error.problem.partition(": ")
    at = len(screen.printable(error.text[: error.position]))
    return f"the filter cannot be understood\n  {text}\n  {' ' * at}{'^' * max(1, len(term))} {problem or term}"
