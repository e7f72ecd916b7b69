# SPDX-License-Identifier: MIT
"""Failed messages, and the operations that recover them."""

from redrive.errors.branches import MessageError, UsageError


class FailureNotFound(UsageError, LookupError, code="failure-not-found"):
    """No failed message has this id.

    Attributes:
        id: what was asked for.
    """

    def __init__(self, id: str) -> None:  # noqa: A002 - it is called that everywhere
        super().__init__(id)
        self.id = id

    def __str__(self) -> str:
        return f"no failed message has the id {self.id!r}; redrive failed list shows the known ones"


class GroupNotFound(UsageError, LookupError, code="group-not-found"):
    """No group of failed messages has this id.

    Attributes:
        group: what was asked for.
    """

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return f"no group of failed messages has the id {self.group!r}; redrive failed groups shows the known ones"


class InvalidFilter(UsageError, ValueError, code="invalid-filter"):
    """A filter cannot be understood.

    Attributes:
        text: the filter.
        position: where in it, counted from 0.
        problem: what is wrong there, and what could be written instead.
    """

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(text, position, problem)
        self.text = text
        self.position = position
        self.problem = problem

    def __str__(self) -> str:
        return f"filter {self.text!r}, character {self.position + 1}: {self.problem}"


class NoteNotFound(UsageError, LookupError, code="note-not-found"):
    """No note has this number.

    Attributes:
        note: what was asked for.
    """

    def __init__(self, note: int) -> None:
        super().__init__(note)
        self.note = note

    def __str__(self) -> str:
        return f"there is no note {self.note}; redrive failed show and redrive operations show list the known ones"


class OperationNotFound(UsageError, LookupError, code="operation-not-found"):
    """No operation has this number.

    Attributes:
        operation: what was asked for.
    """

    def __init__(self, operation: int) -> None:
        super().__init__(operation)
        self.operation = operation

    def __str__(self) -> str:
        return f"there is no operation {self.operation}; redrive operations list shows the known ones"


class OperationConflict(UsageError, code="operation-conflict"):
    """A request cannot be done because of an operation that is under way, or because of its state.

    Attributes:
        operation: the number of the operation that prevents it.
        problem: why it does, and what to do.
        operations: the numbers of all operations that prevent it.
    """

    def __init__(self, operation: int, problem: str, operations: tuple[int, ...] = ()) -> None:
        super().__init__(operation, problem)
        self.operation = operation
        self.problem = problem
        self.operations = operations or (operation,)

    def __str__(self) -> str:
        return f"operation {self.operation} {self.problem}"


class RedirectRefused(UsageError, code="redirect-refused"):
    """A redirect cannot be made as requested.

    Attributes:
        queue: the queue whose failed messages were to go elsewhere.
        problem: what prevents it.
    """

    def __init__(self, queue: str, problem: str) -> None:
        super().__init__(queue, problem)
        self.queue = queue
        self.problem = problem

    def __str__(self) -> str:
        return f"failed messages of {self.queue!r} cannot be redirected: {self.problem}"


class TransformFailed(MessageError, code="transform-failed"):
    """A message cannot be changed as requested.

    Attributes:
        reason: why not.
        was_ended: whether the code that changes it was ended because it took too long, or ended its own process.
    """

    def __init__(self, reason: str, *, was_ended: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.was_ended = was_ended

    def __str__(self) -> str:
        return f"the message cannot be changed as asked: {self.reason}"


class JourneyNotFound(UsageError, LookupError, code="journey-not-found"):
    """There is no record of a message.

    Attributes:
        message_id: the message's id.
    """

    def __init__(self, message_id: str) -> None:
        super().__init__(message_id)
        self.message_id = message_id

    def __str__(self) -> str:
        return (
            f"there is no record of {self.message_id!r}: a message that is handled without trouble leaves none, unless"
            " its queue is declared with journey='all', and a record is kept for 30 days"
        )
