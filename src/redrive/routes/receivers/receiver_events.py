# SPDX-License-Identifier: MIT
"""The events that receivers report about their sources."""

import logging
from dataclasses import dataclass

from redrive.routes.events import ReceiverEvent


@dataclass(frozen=True, slots=True)
class EventGivenUp(ReceiverEvent):
    """A receiver has given up on an event that its source cannot set aside, and goes on with the next one.

    Attributes:
        event_id: the event's id; it says where the event is in its source.
        reason: why.
    """

    name = "redrive.routes.event_given_up"
    level = logging.ERROR

    event_id: str
    reason: str

    def __str__(self) -> str:
        return f"{self.receiver}: event {self.event_id} was given up: {self.reason}"


@dataclass(frozen=True, slots=True)
class SourceFault(ReceiverEvent):
    """Something is wrong at the source of a receiver. The receiver goes on.

    Attributes:
        problem: what is wrong, and what to do.
    """

    name = "redrive.routes.source_fault"
    level = logging.ERROR

    problem: str

    def __str__(self) -> str:
        return f"{self.receiver}: {self.problem}"
