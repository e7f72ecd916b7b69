# SPDX-License-Identifier: MIT
"""Who sends a request, and what they may do."""

from redrive.errors.branches import Unavailable, UsageError


class SignInRequired(UsageError, code="sign-in-required"):
    """A request does not say who it is from, or says it in a way that does not count (any more).

    Attributes:
        problem: what is wrong.
    """

    def __init__(self, problem: str = "this needs a valid token") -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.problem}; send a token as: Authorization: Bearer TOKEN, or sign in"


class Forbidden(UsageError, PermissionError, code="forbidden"):
    """The principal may not do this.

    Attributes:
        action: what it was: ``queues.delete``.
        problem: what is missing.
        fix: who can do it, or what to ask for.
    """

    def __init__(self, action: str, problem: str, fix: str) -> None:
        super().__init__()
        self.args = (action, problem, fix)  # given to OSError, they would be an errno and its text
        self.action = action
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.action} is not allowed: {self.problem}; {self.fix}"


class TokenNotFound(UsageError, LookupError, code="token-not-found"):
    """No token has this id.

    Attributes:
        token: the id.
    """

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token

    def __str__(self) -> str:
        return f"there is no token {self.token!r}; list them: redrive tokens"


class UserNotFound(UsageError, LookupError, code="user-not-found"):
    """No user has this name.

    Attributes:
        user: the name.
    """

    def __init__(self, user: str) -> None:
        super().__init__(user)
        self.user = user

    def __str__(self) -> str:
        return f"there is no user {self.user!r}; list them: redrive users"


class UserConflict(UsageError, code="user-conflict"):
    """A user of this name exists already.

    Attributes:
        user: the name.
    """

    def __init__(self, user: str) -> None:
        super().__init__(user)
        self.user = user

    def __str__(self) -> str:
        return f"user {self.user!r} exists already; change it: redrive users password {self.user}"


class LastAdmin(UsageError, code="last-admin"):
    """Without this user or token there would be no admin left, and no one could sign in to add another.

    Attributes:
        name: the user, or the id of the token.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"{self.name!r} is the last admin, and without one no one can let others in; "
            "add another admin first, or say that it is meant: --even-last, ?even_last=true"
        )


class RedactionNotFound(UsageError, LookupError, code="redaction-not-found"):
    """No stored rule of redaction has this number.

    Attributes:
        number: the number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return f"there is no rule of redaction {self.number}; list them: redrive redactions"


class TooManyAttempts(Unavailable, code="too-many-attempts"):
    """There were too many attempts to sign in.

    Attributes:
        retry_after: seconds until the next attempt is looked at.
    """

    def __init__(self, retry_after: float) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"too many attempts to sign in; come back in {self.retry_after:.0f} s"


class ProviderUnavailable(Unavailable, code="provider-unavailable"):
    """The provider that signs people in does not answer, or not as it must.

    Attributes:
        issuer: the provider.
        problem: what is wrong.
    """

    def __init__(self, issuer: str, problem: str) -> None:
        super().__init__(issuer, problem)
        self.issuer = issuer
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the provider {self.issuer} cannot be used: {self.problem}; sign in with name and password, or come back"
        )
