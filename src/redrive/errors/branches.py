# SPDX-License-Identifier: MIT
"""The base of all errors, and its three branches: your code, this message, something outside."""


class RedriveError(Exception):
    """The base of every error that Redrive itself raises.

    Attributes:
        code: names the error in output, logs and APIs. It stays the same when a class is renamed, and
            ``redrive.error_codes`` derives exit statuses and HTTP statuses from it.
    """

    code: str = "error"

    def __init_subclass__(cls, *, code: "str | None" = None) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("redrive.errors."):
            cls.__module__ = "redrive.errors"  # where users import it from; failures are grouped by this name
        if code is not None:
            cls.code = code


class UsageError(RedriveError, code="usage-error"):
    """Your code or your settings are wrong; trying again changes nothing."""


class MessageError(RedriveError, code="message-error"):
    """Something is wrong with this message, or with your right to it; others are not affected."""


class Unavailable(RedriveError, code="unavailable"):
    """Something outside did not answer as it should; the same call may work later."""


RedriveError.__module__ = "redrive.errors"  # as of every class below it
