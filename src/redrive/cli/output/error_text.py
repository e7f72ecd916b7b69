# SPDX-License-Identifier: MIT
"""What a command says about an error: what is wrong, and the command that fixes it. Pure: no I/O."""

from redrive.errors import (
    InvalidFilter,
    NotAQueue,
    OperationConflict,
    QueueConflict,
    QueueNotFound,
    RedriveError,
    SessionRequired,
    StorageReadOnly,
    TopicConflict,
    TopicNotFound,
)
from redrive.printable import one_line


def error_text(error: RedriveError) -> str:
    """Return what went wrong, and which command fixes it."""
    match error:
        case InvalidFilter():
            text = _filter_text(error)
        case OperationConflict(operation=number, problem=problem):
            verb = "watch" if "wait for it" in problem else "show"
            text = f"{one_line(error)}\n  redrive operations {verb} {number}"
        case QueueNotFound(queue=queue, similar=similar):
            near = "" if similar is None else f"did you mean {similar!r}? "
            text = (
                f"there is no queue {queue!r}; {near}redrive queues lists all queues, redrive queues declare adds one"
            )
        case TopicNotFound(topic=topic, is_queue=False):
            text = f"there is no topic {topic!r}; redrive topics lists all topics, redrive topics declare adds one"
        case QueueConflict(queue=queue, differences=differences):
            kind = "topic" if isinstance(error, TopicConflict) else "queue"
            found = ", ".join(f"{name} is {now!r}, not {asked!r}" for name, (now, asked) in differences.items())
            options = " ".join(_option(name, asked) for name, (_, asked) in differences.items())
            text = f"{kind} {queue!r} already exists: {found}; change it: redrive {kind}s update {queue} {options}"
        case NotAQueue(topic=topic):
            text = (
                f"{topic!r} is a topic, not a queue; redrive topics show {topic} lists the queues of its subscriptions"
            )
        case SessionRequired(queue=queue):
            text = f"queue {queue!r} has sessions: name one with --session; redrive peek {queue} --json shows them"
        case StorageReadOnly():
            text = (
                f"{one_line(error)}\n  commands that only read need write access, too: copy the file and read the copy"
            )
        case _:
            text = one_line(error, 2_000)
    return text


def _option(name: str, value: object) -> str:
    words = {None: "none", True: "yes", False: "no"}
    return f"--{name.replace('_', '-')} {words[value] if value is None or isinstance(value, bool) else value}"


def _filter_text(error: InvalidFilter) -> str:
    """Return the filter, and below it a caret where it is wrong."""
    before, behind = one_line(error.text[: error.position], 500), one_line(error.text[error.position :], 500)
    term, _, problem = error.problem.partition(": ")
    mark = f"{' ' * len(before)}{'^' * max(1, len(one_line(term)))}"
    return f"the filter is not valid\n  {before}{behind}\n  {mark} {one_line(problem or term)}"
