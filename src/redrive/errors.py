# SPDX-License-Identifier: MIT
"""Every error Redrive raises: the name says what is wrong, the text says what to do, the fields carry the figures.

RedriveError            - the base of them all
  UsageError            - your code or your settings: change them
    InvalidSetting      - an argument outside what it may be
    MissingExtra        - an optional dependency is not installed
    PolicyFileError     - a policy file that cannot be used
    UnknownPolicy       - a policy name that no file defines
  Unavailable           - the world outside: the same call may work later
    AttemptTimeout      - one attempt took longer than it may
    CircuitOpen         - a circuit breaker refused the call
    DeadlineExceeded    - the time for all attempts ran out in the middle of one
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "AttemptTimeout",
    "CircuitOpen",
    "DeadlineExceeded",
    "InvalidSetting",
    "MissingExtra",
    "PolicyFileError",
    "RedriveError",
    "Unavailable",
    "UnknownPolicy",
    "UsageError",
]


class RedriveError(Exception):
    """The base of every error that Redrive itself raises."""


class UsageError(RedriveError):
    """Your code or your settings are wrong; trying again changes nothing."""


class InvalidSetting(UsageError, ValueError):
    """A setting has a value it may not have.

    Attributes:
        setting: its name, as you wrote it.
        value: what it was given.
        allowed: what it may be, in words.
    """

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        super().__init__(setting, value, allowed)
        self.setting = setting
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        shown = repr(self.value)
        if len(shown) > 80:  # a 10 kB value must not become a 10 kB error
            shown = f"{shown[:77]}..."
        return f"{self.setting}={shown}: {self.allowed}"


class MissingExtra(UsageError, ImportError):
    """A feature needs a package that is not installed.

    Attributes:
        feature: what needs it.
        extra: the extra of Redrive that brings it.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(feature, extra)
        self.feature = feature
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.feature} needs the extra '{self.extra}': pip install 'redrive[{self.extra}]'"


class PolicyFileError(UsageError):
    """A policy file cannot be used; the policies in force before it still are.

    Attributes:
        source: the file, or None for a text.
        line: the line at fault, counted from 1.
        problem: what is wrong there and how to mend it.
    """

    def __init__(self, source: "Path | None", line: int, problem: str) -> None:
        super().__init__(source, line, problem)
        self.source = source
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source or 'policies'}, line {self.line}: {self.problem}"


class UnknownPolicy(UsageError, LookupError):
    """No policy has this name.

    Attributes:
        name: the name asked for.
        known: the names there are.
    """

    def __init__(self, name: str, known: "tuple[str, ...]") -> None:
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return f"no policy is called {self.name!r}; the file defines: {', '.join(self.known) or 'none'}"


class Unavailable(RedriveError):
    """Something outside did not answer as it should; the same call may work later."""


class CircuitOpen(Unavailable):
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


class AttemptTimeout(Unavailable, TimeoutError):
    """One attempt was cut off because it took longer than ``attempt_timeout``.

    Attributes:
        operation: what was called.
        timeout: the seconds it was given.
    """

    def __init__(self, operation: str, timeout: float) -> None:
        super().__init__()
        self.args = (operation, timeout)  # given to OSError, two arguments would be an errno and its text
        self.operation = operation
        self.timeout = timeout

    def __str__(self) -> str:
        return f"an attempt of {self.operation} was cut off after {self.timeout:.3g} s (attempt_timeout)"


class DeadlineExceeded(Unavailable, TimeoutError):
    """The running attempt was cut off because the time for all attempts together was over.

    Attributes:
        operation: what was called.
        deadline: the seconds that all attempts together were given.
    """

    def __init__(self, operation: str, deadline: float) -> None:
        super().__init__()
        self.args = (operation, deadline)  # as in AttemptTimeout
        self.operation = operation
        self.deadline = deadline

    def __str__(self) -> str:
        return f"{self.operation} was cut off: its {self.deadline:.3g} s for all attempts are over (deadline)"
