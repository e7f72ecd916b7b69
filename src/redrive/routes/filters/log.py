# SPDX-License-Identifier: MIT
"""The filter that logs a line for each event."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from redrive.broker import Message
from redrive.printable import one_line
from redrive.routes.parts import ChoiceSetting, EventFilter, LegFacts, TextSetting, setting

logger = logging.getLogger("redrive.routes.events")

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class LogFilter(EventFilter):
    """Logs one line for each event and passes it: a text, the event's id and its route.

    The logger is ``redrive.routes.events``. A replay logs the line again.
    """

    kind: ClassVar[str] = "log"

    text: str = setting(TextSetting(), "what the line begins with", "event")
    level: Literal["debug", "info", "warning", "error"] = setting(
        ChoiceSetting(tuple(_LEVELS)), "the level of the line: debug, info, warning or error", "info"
    )

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Log the event; return it."""
        level = _LEVELS[self.level]
        if logger.isEnabledFor(level):
            fields = {"event_id": leg.event_id, "application": leg.application, "route": leg.route}
            line = one_line(f"{self.text}: {message.id or leg.event_id} on route {leg.application}/{leg.route}", 2_000)
            logger.log(level, "%s", line, extra={"redrive": {**fields, "attempt": leg.attempt}})
        return (message,)
