# SPDX-License-Identifier: MIT
"""Calls that were retried, and did not succeed in time."""

from redrive.errors.branches import Unavailable


class CircuitOpen(Unavailable, code="circuit-open"):
    """A circuit breaker refused the call, because the service behind it keeps failing.

    Attributes:
        breaker: the breaker's name.
        retry_after: seconds until it lets a call through again.
    """

    def __init__(self, breaker: str, retry_after: float) -> None:
        super().__init__(breaker, retry_after)
        self.breaker = breaker
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"circuit breaker {self.breaker!r} is open; come back in {self.retry_after:.3g} s"


class AttemptTimeout(Unavailable, TimeoutError, code="attempt-timeout"):
    """One attempt was cut off because it took longer than ``attempt_timeout``.

    Attributes:
        operation: what was called.
        timeout: its limit in seconds.
    """

    def __init__(self, operation: str, timeout: float) -> None:
        super().__init__()
        self.args = (operation, timeout)  # given to OSError, two arguments would be an errno and its text
        self.operation = operation
        self.timeout = timeout

    def __str__(self) -> str:
        return f"an attempt of {self.operation} was cut off after {self.timeout:.3g} s (attempt_timeout)"


class DeadlineExceeded(Unavailable, TimeoutError, code="deadline-exceeded"):
    """The running attempt was cut off because the time for all attempts together was over.

    Attributes:
        operation: what was called.
        deadline: the limit for all attempts together, in seconds.
    """

    def __init__(self, operation: str, deadline: float) -> None:
        super().__init__()
        self.args = (operation, deadline)  # as in AttemptTimeout
        self.operation = operation
        self.deadline = deadline

    def __str__(self) -> str:
        return f"{self.operation} was cut off: its {self.deadline:.3g} s for all attempts are over (deadline)"
