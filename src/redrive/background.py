# SPDX-License-Identifier: MIT
"""Work in the background that no caller waits for: whatever goes wrong, it goes on, and the log says so."""

import logging
from types import TracebackType

from redrive.errors import RedriveError
from redrive.printable import one_line

_MOST_CHARACTERS = 300


class KeepGoing:
    """Lets a loop go on after an error: use it in a ``with`` block around each attempt.

    Work that ended without a word would be missed when it is too late. Errors in a row are logged once: a loop that
    tries ten times a second would fill the disk.

    Args:
        logger: gets the errors.
        what: says in the log what could not be done; "upkeep failed".
        level: how an error of Redrive is logged. Any other one is a fault of a program, and always an error.
    """

    def __init__(self, logger: logging.Logger, what: str, *, level: int = logging.WARNING) -> None:
        self._logger = logger
        self._what = what
        self._level = level
        self.has_failed = False

    def __enter__(self) -> None:
        """Begin an attempt."""

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        """End it; an ``Exception`` is logged and goes no further."""
        if error is not None and not isinstance(error, Exception):
            return False
        if error is not None and not self.has_failed:
            self._log(error)
        self.has_failed = error is not None
        return True

    def _log(self, error: Exception) -> None:
        if isinstance(error, RedriveError):
            text = one_line(error, _MOST_CHARACTERS)
            self._logger.log(self._level, "%s and will be tried again: %s", self._what, text)
        else:
            self._logger.error("%s with an unexpected error and will be tried again", self._what, exc_info=error)
