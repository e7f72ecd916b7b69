# SPDX-License-Identifier: MIT
"""The exit statuses of all commands. Pure: no I/O."""

from enum import IntEnum

from redrive.error_codes import statuses_of
from redrive.errors import RedriveError


class ExitStatus(IntEnum):
    """What a command ends with; docs/reference/cli.md explains each to users."""

    ERROR = 1
    NOT_UNDERSTOOD = 2
    NOT_FOUND = 3
    """No message has that id or number, no operation that number, no route that name."""
    NOTHING_CHOSEN = 4
    NO_QUEUE = 5
    CONFLICT = 6
    """An operation has the messages, a state does not allow the change, or a queue exists with other settings."""
    REDIRECT_REFUSED = 7
    NOT_ALL = 8
    """The work has ended, and some messages failed again or could not be sent."""
    STOPPED = 9
    """The operation was paused or cancelled, by its canaries or by a person."""
    INTERRUPTED = 130


def status_of(error: RedriveError) -> ExitStatus:
    """Return the exit status of an error."""
    return ExitStatus(statuses_of(error.code).exit_status)
