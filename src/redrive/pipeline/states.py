# SPDX-License-Identifier: MIT
"""Layer 4 as three transition tables: a task, a shipment of a send task, a slot of a destination. Pure: no I/O.

Every change that the ledger stores is an event in one of these tables, and so is every first state. The SQL of the
engines gets its conditions and its new states from them; the diagrams in the documentation are drawn from them.
"""

from enum import Enum, IntEnum
from typing import Final


class TaskState(IntEnum):
    """Where a task stands. The numbers are stored; they never change."""

    READY = 1
    """It is to be done when it is due: a message for it is in the queue of its stage."""
    WAITING = 2
    """It waits for a slot of its destination."""
    DONE = 3
    FAILED = 4
    """It is not tried again by itself. Its message is among the dead letters of its stage."""
    EXPIRED = 5
    """It has waited for longer than the backstop of its destination."""
    UNKNOWN = 6
    """Something of it was sent, and it is unknown whether that has arrived."""
    CANCELLED = 7

    @property
    def word(self) -> str:
        """Its name for people."""
        return self.name.lower()


class TaskEvent(Enum):
    """What can happen to a task."""

    ACCEPT = "is accepted"
    OUTPUT = "is made for a destination"
    OUTPUT_FOR_SLOT = "is made for a slot"
    FINISH = "is done"
    RETRY = "is tried again later"
    FAIL = "fails for good"
    DOUBT = "has an unknown outcome"
    EXPIRE = "has waited too long"
    REVIVE = "is revived for a slot"
    RERUN = "is run again"
    RESOLVE_SENT = "is said to have arrived"
    CANCEL = "is cancelled"


class ShipmentState(IntEnum):
    """Where a shipment stands. The numbers are stored; they never change."""

    PENDING = 1
    """It is to be sent, for the first time or again."""
    INTENT = 2
    """It is being sent. If the process that sends it has died, it may have arrived or not."""
    SENT = 3
    REFUSED = 4
    """The destination would refuse it again, or all retries are used up."""
    UNKNOWN = 5

    @property
    def word(self) -> str:
        """Its name for people."""
        return self.name.lower()


class ShipmentEvent(Enum):
    """What can happen to a shipment."""

    MAKE = "is made"
    BEGIN = "is about to be sent"
    ARRIVE = "has arrived"
    DELAY = "has certainly not arrived"
    REFUSE = "is refused"
    DOUBT = "may have arrived or not"
    AGAIN = "is to be sent again"


class SlotState(IntEnum):
    """Where a slot stands. The numbers are stored; they never change."""

    OPEN = 1
    SERVED = 2
    FAILED = 3
    """Its tasks wait for the next slot."""

    @property
    def word(self) -> str:
        """Its name for people."""
        return self.name.lower()


class SlotEvent(Enum):
    """What can happen to a slot."""

    OPEN = "comes"
    SERVE = "is served"
    FAIL = "cannot be served"


_T, _TE = TaskState, TaskEvent
FIRST_TASK_STATE: Final[dict[TaskEvent, TaskState]] = {
    _TE.ACCEPT: _T.READY,
    _TE.OUTPUT: _T.READY,
    _TE.OUTPUT_FOR_SLOT: _T.WAITING,
}
"""How a task begins."""

TASKS: Final[dict[tuple[TaskState, TaskEvent], TaskState]] = {
    (_T.READY, _TE.FINISH): _T.DONE,
    (_T.READY, _TE.RETRY): _T.READY,
    (_T.READY, _TE.FAIL): _T.FAILED,
    (_T.READY, _TE.DOUBT): _T.UNKNOWN,
    (_T.READY, _TE.CANCEL): _T.CANCELLED,
    (_T.WAITING, _TE.FINISH): _T.DONE,
    (_T.WAITING, _TE.FAIL): _T.FAILED,  # it breaks the merge
    (_T.WAITING, _TE.EXPIRE): _T.EXPIRED,
    (_T.WAITING, _TE.CANCEL): _T.CANCELLED,
    (_T.FAILED, _TE.RERUN): _T.READY,
    (_T.FAILED, _TE.REVIVE): _T.WAITING,
    (_T.FAILED, _TE.RESOLVE_SENT): _T.DONE,
    (_T.FAILED, _TE.CANCEL): _T.CANCELLED,
    (_T.EXPIRED, _TE.REVIVE): _T.WAITING,
    (_T.EXPIRED, _TE.CANCEL): _T.CANCELLED,
    (_T.UNKNOWN, _TE.RERUN): _T.READY,
    (_T.UNKNOWN, _TE.RESOLVE_SENT): _T.DONE,
    (_T.UNKNOWN, _TE.FAIL): _T.FAILED,
    (_T.UNKNOWN, _TE.CANCEL): _T.CANCELLED,
    (_T.DONE, _TE.RERUN): _T.READY,  # sent again on purpose
    (_T.CANCELLED, _TE.RERUN): _T.READY,
    (_T.CANCELLED, _TE.REVIVE): _T.WAITING,
}
"""What comes of an event for a task. A pair that is not here is refused."""

_S, _SE = ShipmentState, ShipmentEvent
FIRST_SHIPMENT_STATE: Final[dict[ShipmentEvent, ShipmentState]] = {_SE.MAKE: _S.PENDING}
"""How a shipment begins."""

SHIPMENTS: Final[dict[tuple[ShipmentState, ShipmentEvent], ShipmentState]] = {
    (_S.PENDING, _SE.BEGIN): _S.INTENT,
    (_S.INTENT, _SE.BEGIN): _S.INTENT,  # of a process that has died
    (_S.UNKNOWN, _SE.BEGIN): _S.INTENT,  # the destination drops what it has, or is looked at before
    (_S.INTENT, _SE.ARRIVE): _S.SENT,
    (_S.INTENT, _SE.DELAY): _S.PENDING,
    (_S.INTENT, _SE.REFUSE): _S.REFUSED,
    (_S.INTENT, _SE.DOUBT): _S.UNKNOWN,
    (_S.UNKNOWN, _SE.ARRIVE): _S.SENT,
    (_S.UNKNOWN, _SE.REFUSE): _S.REFUSED,
    (_S.UNKNOWN, _SE.AGAIN): _S.PENDING,
    (_S.REFUSED, _SE.ARRIVE): _S.SENT,
    (_S.REFUSED, _SE.AGAIN): _S.PENDING,
    (_S.SENT, _SE.AGAIN): _S.PENDING,
    (_S.PENDING, _SE.AGAIN): _S.PENDING,
    (_S.PENDING, _SE.ARRIVE): _S.SENT,  # a person says so
    (_S.PENDING, _SE.REFUSE): _S.REFUSED,
}
"""What comes of an event for a shipment. A pair that is not here is refused."""

_L, _LE = SlotState, SlotEvent
FIRST_SLOT_STATE: Final[dict[SlotEvent, SlotState]] = {_LE.OPEN: _L.OPEN}
"""How a slot begins."""

SLOTS: Final[dict[tuple[SlotState, SlotEvent], SlotState]] = {
    (_L.OPEN, _LE.SERVE): _L.SERVED,
    (_L.OPEN, _LE.FAIL): _L.FAILED,
}
"""What comes of an event for a slot. A pair that is not here is refused."""

UNFINISHED: Final = (TaskState.READY, TaskState.WAITING)
"""The task is done by itself when it is due."""

TROUBLED: Final = (TaskState.FAILED, TaskState.EXPIRED, TaskState.UNKNOWN)
"""A person has to look at the task."""

ENDED_TASKS: Final = (TaskState.DONE, TaskState.CANCELLED)
"""Nothing more is to be done with the task."""
