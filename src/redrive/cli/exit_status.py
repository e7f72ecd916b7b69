# SPDX-License-Identifier: MIT
"""What an error means to a person and to a script: one sentence that names the fix, one exit status, in every command.

Pure: no I/O.
"""

from enum import IntEnum

from redrive.error_codes import statuses_of
from redrive.errors import (
    InvalidFilter,
    OperationConflict,
    QueueConflict,
    QueueNotFound,
    RedriveError,
    SessionRequired,
    StorageReadOnly,
)
from redrive.printable import one_line


class ExitStatus(IntEnum):
    """The exit statuses of all commands."""

    ERROR = 1
    NOT_UNDERSTOOD = 2
    NOT_FOUND = 3
    """No message has that id or number, no operation that number."""
    NOTHING_CHOSEN = 4
    NO_QUEUE = 5
    IN_THE_WAY = 6
    """An operation has the messages, its state does not allow it, or a queue is there with other settings."""
    REDIRECT_REFUSED = 7
    NOT_ALL = 8
    """The operation is over, and some messages failed again or could not be sent."""
    STOPPED = 9
    """The operation was paused or cancelled, by its canaries or by a person."""
    INTERRUPTED = 130


def status_of(error: RedriveError) -> ExitStatus:
    """Return the exit status of an error."""
    return ExitStatus(statuses_of(error.code).exit_status)


def advice(error: RedriveError) -> str:
    """Return what went wrong, and which command mends it."""
    match error:
        case InvalidFilter():
            told = _pointed_out(error)
        case OperationConflict(operation=number, problem=problem):
            verb = "watch" if "wait for it" in problem else "show"
            told = f"{one_line(error)}\n  redrive operations {verb} {number}"
        case QueueNotFound(queue=queue):
            told = f"there is no queue {queue!r}; redrive queues shows those there are, redrive queues declare adds one"
        case QueueConflict(queue=queue, differences=differences):
            found = ", ".join(f"{name} is {now!r}, not {asked!r}" for name, (now, asked) in differences.items())
            options = " ".join(_option(name, asked) for name, (_, asked) in differences.items())
            told = f"queue {queue!r} is there already: {found}; change it: redrive queues update {queue} {options}"
        case SessionRequired(queue=queue):
            told = f"queue {queue!r} has sessions: name one with --session; redrive peek {queue} --json shows them"
        case StorageReadOnly():
            told = f"{one_line(error)}\n  looking needs that, too: to look at a file of somebody else, copy it first"
        case _:
            told = one_line(error, 2_000)
    return told


def _option(name: str, value: object) -> str:
    flag = name.replace("_", "-")
    words = {None: "none", True: "yes", False: "no"}
    return f"--{flag} {words[value] if value is None or isinstance(value, bool) else value}"


def _pointed_out(error: InvalidFilter) -> str:
    """Return the filter, and below it where it cannot be understood."""
    before, behind = one_line(error.text[: error.position], 500), one_line(error.text[error.position :], 500)
    term, _, problem = error.problem.partition(": ")
    mark = f"{' ' * len(before)}{'^' * max(1, len(one_line(term)))}"
    return f"the filter cannot be understood\n  {before}{behind}\n  {mark} {one_line(problem or term)}"
