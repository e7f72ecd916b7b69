# SPDX-License-Identifier: MIT
"""The events that receivers report about servers outside."""

import logging
from dataclasses import dataclass

from redrive.routes.events import ReceiverEvent


@dataclass(frozen=True, slots=True)
class SourceLost(ReceiverEvent):
    """The source of a receiver does not answer as it should. The receiver keeps trying.

    Attributes:
        problem: why, without anything secret.
        delay: seconds until the next attempt.
    """

    name = "redrive.routes.source_lost"
    level = logging.WARNING

    problem: str
    delay: float

    def __str__(self) -> str:
        return f"{self.receiver} cannot be read: {self.problem}; next attempt in {self.delay:.3g} s"


@dataclass(frozen=True, slots=True)
class SourceBack(ReceiverEvent):
    """The source of a receiver answers again."""

    name = "redrive.routes.source_back"

    def __str__(self) -> str:
        return f"{self.receiver} can be read again"


@dataclass(frozen=True, slots=True)
class EventSetAside(ReceiverEvent):
    """An event was moved to the dead letters that its source has, outside this broker; a person should look at it.

    Attributes:
        event_id: the event's id.
        place: where it is now.
        reason: why.
    """

    name = "redrive.routes.event_set_aside"
    level = logging.ERROR

    event_id: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.receiver}: event {self.event_id} was moved to {self.place}: {self.reason}"
