# SPDX-License-Identifier: MIT
"""Options that take a length of time or an instant."""

from datetime import UTC, datetime

from redrive import duration
from redrive.cli.exit_status import ExitStatus
from redrive.cli.output import console
from redrive.clock import system_clock, utc
from redrive.errors import RedriveError


def seconds(option: str, text: str | None) -> float | None:
    """Return the seconds that an option states; None for ``none`` or if it is not there."""
    if text is None or text.lower() == "none":
        return None
    try:
        number = float(text)
    except ValueError:
        number = _parsed(option, text)
    if not 0 <= number < float("inf"):
        problem = f"--{option} {text!r}: write 0 or more seconds, or 100ms, 30s, 2m, 1h, 1d"
        raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
    return number


def instant(option: str, text: str) -> datetime:
    """Return the instant that an option states; without a time zone it is in UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        problem = f"--{option} {text!r}: write a date such as 2026-11-01T22:00Z"
        raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def moment(option: str, text: str | None) -> datetime | None:
    """Return the instant that an option states as a date, or as a length of time before now."""
    if text is None:
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return utc(system_clock.time() - (seconds(option, text) or 0.0))
    return instant(option, text)


def _parsed(option: str, text: str) -> float:
    try:
        return duration.parse(option, text)
    except RedriveError as error:
        raise console.failure(error) from None
