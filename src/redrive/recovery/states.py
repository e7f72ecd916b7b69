# SPDX-License-Identifier: MIT
"""Layer 5 as four transition tables: a failed message, its part in an operation, a batch, an operation. Pure: no I/O.

Every change that the ledger stores is an event in one of these tables, and so is every first state. The SQL of the
engines gets its conditions and its new states from them, so what is not in a table is not stored; the diagrams in the
documentation are drawn from them.

A message's *claim* is its part in an operation, while that is ``PENDING`` or ``FORWARDED``: one at a time. So a claim
is never released by a step of its own that could be forgotten: whatever ends the part ends the claim.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final, TypeAlias, TypeVar


class Status(IntEnum):
    """Where a failed message stands. The numbers are stored; they never change."""

    UNRESOLVED = 1
    RETRY_ISSUED = 2
    RESOLVED = 3
    ARCHIVED = 4

    @property
    def word(self) -> str:
        """Its name for people."""
        return self.name.lower().replace("_", "-")


class Outcome(IntEnum):
    """What became of one message in one operation. The numbers are stored; they never change."""

    PENDING = 1
    FORWARDED = 2
    SUCCEEDED = 3
    FAILED_AGAIN = 4
    CLOSED = 5
    """A person resolved or archived it after it was forwarded."""
    SUPERSEDED = 6
    """It was forwarded, never heard of again, and a later operation took it over."""
    DONE = 7
    """It was archived, restored or resolved by the operation."""
    SKIPPED = 8
    FAILED = 9
    """It could not be staged or sent, and is unresolved again."""
    CANCELLED = 10

    @property
    def word(self) -> str:
        """Its name for people."""
        return self.name.lower().replace("_", "-")


class BatchState(IntEnum):
    """How far a batch is. A batch only ever moves forward, and is deleted when it is done."""

    MARKING = 1
    STAGING = 2
    FORWARDING = 3
    DONE = 4


class OperationState(IntEnum):
    """How far an operation is. The numbers are stored; they never change."""

    SCHEDULED = 1
    RUNNING = 2
    WATCHING = 3
    """Its canaries are on their way; the rest waits for what becomes of them."""
    PAUSED = 4
    CANCELLING = 5
    CANCELLED = 6
    COMPLETED = 7

    @property
    def word(self) -> str:
        """Its name for people."""
        return self.name.lower()


class FailureEvent(Enum):
    """What can happen to a failed message."""

    FAIL_FIRST = "fails"
    FAIL = "fails again"
    STAGE = "is staged"
    REVERT = "is not sent after all"
    CONFIRM = "succeeds"
    REPLACE = "is replaced by its edited copy"
    RESOLVE = "is resolved by a person"
    ARCHIVE = "is archived"
    RESTORE = "is restored"


class PartEvent(Enum):
    """What can happen to a message's part in an operation."""

    CLAIM = "is claimed"
    FORWARD = "is forwarded"
    CONFIRM = "succeeds"
    FAIL = "fails again"
    CLOSE = "is closed by a person"
    SUPERSEDE = "is taken over"
    DO = "is changed"
    SKIP = "is skipped"
    EJECT = "cannot be sent"
    CANCEL = "is cancelled"


class BatchEvent(Enum):
    """What can happen to a batch."""

    MAKE = "is made"
    TAKE_BACK = "takes back what was staged"
    CLAIM = "claims its messages"
    STAGE = "is staged"
    FINISH = "has nothing left to do"


class OperationEvent(Enum):
    """What can happen to an operation."""

    REQUEST = "is requested"
    REQUEST_LATER = "is requested for later"
    FIND_NOTHING = "finds nothing"
    COME_DUE = "comes due"
    WATCH = "has sent its canaries"
    APPROVE = "canaries did well"
    STOP = "canaries did badly"
    PAUSE = "is paused"
    RESUME = "is resumed"
    RESUME_EARLY = "is resumed before its time"
    HALT = "cannot be worked on"
    CANCEL = "is cancelled"
    FINISH = "has nothing left to do"


S = TypeVar("S", bound=IntEnum)
E = TypeVar("E", bound=Enum)
Table: TypeAlias = Mapping[tuple[S, E], S]

_M, _ME = Status, FailureEvent
FIRST_STATUS: Final[dict[FailureEvent, Status]] = {_ME.FAIL_FIRST: _M.UNRESOLVED}
"""How the record of a failed message begins."""

MESSAGES: Final[dict[tuple[Status, FailureEvent], Status]] = {
    (_M.UNRESOLVED, _ME.FAIL): _M.UNRESOLVED,
    (_M.UNRESOLVED, _ME.STAGE): _M.RETRY_ISSUED,
    (_M.UNRESOLVED, _ME.CONFIRM): _M.RESOLVED,  # a copy of an earlier operation succeeds while a later one begins
    (_M.UNRESOLVED, _ME.REPLACE): _M.ARCHIVED,
    (_M.UNRESOLVED, _ME.RESOLVE): _M.RESOLVED,
    (_M.UNRESOLVED, _ME.ARCHIVE): _M.ARCHIVED,
    (_M.RETRY_ISSUED, _ME.FAIL): _M.UNRESOLVED,
    (_M.RETRY_ISSUED, _ME.REVERT): _M.UNRESOLVED,
    (_M.RETRY_ISSUED, _ME.CONFIRM): _M.RESOLVED,
    (_M.RETRY_ISSUED, _ME.REPLACE): _M.ARCHIVED,
    (_M.RETRY_ISSUED, _ME.RESOLVE): _M.RESOLVED,
    (_M.RETRY_ISSUED, _ME.ARCHIVE): _M.ARCHIVED,
    (_M.RESOLVED, _ME.FAIL): _M.UNRESOLVED,
    (_M.RESOLVED, _ME.RESTORE): _M.UNRESOLVED,
    (_M.ARCHIVED, _ME.FAIL): _M.UNRESOLVED,
    (_M.ARCHIVED, _ME.RESTORE): _M.UNRESOLVED,
}
"""What comes of an event for a failed message. A pair that is not here changes nothing."""

_O, _OE = Outcome, PartEvent
FIRST_OUTCOME: Final[dict[PartEvent, Outcome]] = {
    _OE.CLAIM: _O.PENDING,
    _OE.SKIP: _O.SKIPPED,  # another operation has it, or it has changed since the request
    _OE.CANCEL: _O.CANCELLED,  # the operation was cancelled before the message's turn
}
"""How a message's part in an operation begins, when its turn comes."""

PARTS: Final[dict[tuple[Outcome, PartEvent], Outcome]] = {
    (_O.PENDING, _OE.FORWARD): _O.FORWARDED,
    (_O.PENDING, _OE.CONFIRM): _O.SUCCEEDED,  # the consumer was faster than our own note that it was forwarded
    (_O.PENDING, _OE.FAIL): _O.FAILED_AGAIN,  # same
    (_O.PENDING, _OE.DO): _O.DONE,
    (_O.PENDING, _OE.SKIP): _O.SKIPPED,
    (_O.PENDING, _OE.EJECT): _O.FAILED,
    (_O.PENDING, _OE.CANCEL): _O.CANCELLED,
    (_O.FORWARDED, _OE.CONFIRM): _O.SUCCEEDED,
    (_O.FORWARDED, _OE.FAIL): _O.FAILED_AGAIN,
    (_O.FORWARDED, _OE.CLOSE): _O.CLOSED,
    (_O.FORWARDED, _OE.SUPERSEDE): _O.SUPERSEDED,
    (_O.CLOSED, _OE.CONFIRM): _O.SUCCEEDED,  # the copy is still on its way when a person closes it
    (_O.CLOSED, _OE.FAIL): _O.FAILED_AGAIN,
    (_O.SUPERSEDED, _OE.CONFIRM): _O.SUCCEEDED,  # and when a later operation takes over
    (_O.SUPERSEDED, _OE.FAIL): _O.FAILED_AGAIN,
}
"""What comes of an event for a message's part in an operation. A pair that is not here changes nothing."""

_B, _BE = BatchState, BatchEvent
FIRST_BATCH_STATE: Final[dict[BatchEvent, BatchState]] = {
    _BE.MAKE: _B.MARKING,
    _BE.TAKE_BACK: _B.STAGING,  # of a batch that was being forwarded when its operation was paused
}
"""How a batch begins."""

BATCHES: Final[dict[tuple[BatchState, BatchEvent], BatchState]] = {
    (_B.MARKING, _BE.CLAIM): _B.STAGING,
    (_B.MARKING, _BE.FINISH): _B.DONE,
    (_B.STAGING, _BE.STAGE): _B.FORWARDING,
    (_B.STAGING, _BE.FINISH): _B.DONE,
    (_B.FORWARDING, _BE.FINISH): _B.DONE,
}
"""What comes of an event for a batch. A pair that is not here cannot happen."""

_P, _PE = OperationState, OperationEvent
FIRST_OPERATION_STATE: Final[dict[OperationEvent, OperationState]] = {
    _PE.REQUEST: _P.RUNNING,
    _PE.REQUEST_LATER: _P.SCHEDULED,
    _PE.FIND_NOTHING: _P.COMPLETED,
}
"""How an operation begins."""

OPERATIONS: Final[dict[tuple[OperationState, OperationEvent], OperationState]] = {
    (_P.SCHEDULED, _PE.COME_DUE): _P.RUNNING,
    (_P.SCHEDULED, _PE.PAUSE): _P.PAUSED,
    (_P.SCHEDULED, _PE.HALT): _P.PAUSED,
    (_P.SCHEDULED, _PE.CANCEL): _P.CANCELLING,
    (_P.RUNNING, _PE.WATCH): _P.WATCHING,
    (_P.RUNNING, _PE.PAUSE): _P.PAUSED,
    (_P.RUNNING, _PE.HALT): _P.PAUSED,
    (_P.RUNNING, _PE.CANCEL): _P.CANCELLING,
    (_P.RUNNING, _PE.FINISH): _P.COMPLETED,
    (_P.WATCHING, _PE.APPROVE): _P.RUNNING,
    (_P.WATCHING, _PE.STOP): _P.PAUSED,
    (_P.WATCHING, _PE.PAUSE): _P.PAUSED,
    (_P.WATCHING, _PE.HALT): _P.PAUSED,
    (_P.WATCHING, _PE.CANCEL): _P.CANCELLING,
    (_P.PAUSED, _PE.RESUME): _P.RUNNING,
    (_P.PAUSED, _PE.RESUME_EARLY): _P.SCHEDULED,
    (_P.PAUSED, _PE.CANCEL): _P.CANCELLING,
    (_P.CANCELLING, _PE.FINISH): _P.CANCELLED,
}
"""What comes of an event for an operation. A pair that is not here is refused."""

SETTLED: Final = (Status.RESOLVED, Status.ARCHIVED)
"""Nothing more is to be done with the message, unless it fails again or is restored."""

CLAIMS: Final = (Outcome.PENDING, Outcome.FORWARDED)
"""While a message's part is one of these, no other operation has it."""

SENT: Final = (Outcome.FORWARDED, Outcome.SUCCEEDED, Outcome.FAILED_AGAIN, Outcome.CLOSED, Outcome.SUPERSEDED)
"""The message has left for its destination, whatever became of it."""

SPENT: Final = (Outcome.SUCCEEDED, Outcome.FAILED_AGAIN)
"""The copy has succeeded or failed. Its tag counts for that once; what bears it afterwards is another message."""

ENDED: Final = (OperationState.CANCELLED, OperationState.COMPLETED)
AT_WORK: Final = (OperationState.RUNNING, OperationState.WATCHING)
"""Batches of an operation in one of these states are staged and forwarded."""
