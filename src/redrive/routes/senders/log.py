# SPDX-License-Identifier: MIT
"""A sender that writes events to the log of the program."""

import logging
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from redrive.broker import Message
from redrive.printable import one_line
from redrive.routes.environment import PartEnvironment
from redrive.routes.outcomes import Delivered, SendOutcome
from redrive.routes.parts import ChoiceSetting, EventSender, OpenSender, WholeSetting, setting

_logger = logging.getLogger("redrive.routes.sent")
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class LogSender(EventSender):
    """Writes events to the logger ``redrive.routes.sent``, each on one line: its key and the beginning of its body.

    The log record has the key as ``redrive_key`` and the whole body as ``redrive_body``.
    """

    kind: ClassVar[str] = "log"

    level: Literal["debug", "info", "warning", "error"] = setting(
        ChoiceSetting(tuple(_LEVELS)), "the level of the log records", "info"
    )
    max_text: int = setting(WholeSetting(1, 1_000_000), "how many characters of a body are shown at most", 1_000)

    @property
    def destination(self) -> str:
        """The log."""
        return "log"

    def open(self, environment: PartEnvironment) -> OpenSender:
        """Return the sender at work."""
        return OpenLogSender(self)


class OpenLogSender:
    """A sender to the log at work."""

    def __init__(self, settings: LogSender) -> None:
        self._level = _LEVELS[settings.level]
        self._max_text = settings.max_text

    async def send(self, message: Message, key: str) -> SendOutcome:
        """Write an event to the log."""
        if _logger.isEnabledFor(self._level):
            shown = message.body[: 4 * self._max_text + 4].decode(errors="backslashreplace")  # a character: 4 bytes
            extra = {"redrive_key": key, "redrive_body": message.body}
            _logger.log(self._level, "%s: %s", one_line(key), one_line(shown, self._max_text), extra=extra)
        return Delivered()

    async def close(self) -> None:
        """Do nothing."""
