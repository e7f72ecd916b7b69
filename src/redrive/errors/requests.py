# SPDX-License-Identifier: MIT
"""Requests to the server, and what it reports."""

from redrive.errors.branches import Unavailable, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class ServerFileError(UsageError, code="server-file-error"):
    """A file with settings of the server cannot be used.

    Attributes:
        source: the file, or None for a text.
        line: the line at fault, counted from 1.
        problem: what is wrong there and how to correct it.
    """

    def __init__(self, source: "Path | None", line: int, problem: str) -> None:
        super().__init__(source, line, problem)
        self.source = source
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source or 'settings of the server'}, line {self.line}: {self.problem}"


class InvalidRequest(UsageError, ValueError, code="invalid-request"):
    """A request over HTTP does not have the form it must have.

    Attributes:
        place: where: ``body.rate``, ``query.limit``; empty: the whole request.
        problem: what is wrong there.
    """

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)
        self.place = place
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" if self.place else self.problem


class InvalidCursor(UsageError, ValueError, code="invalid-cursor"):
    """A cursor does not come from the page before, or comes from a page of another list."""

    def __str__(self) -> str:
        return "this cursor does not belong to this list; use the address in Link of the page before, unchanged"


class QuestionTooSlow(UsageError, code="question-too-slow"):
    """A question could not be answered in the time that it may take (``seconds``); it was ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"this takes longer than {self.seconds:g} s; narrow the filter, for example with queue:, group:, age<1d"


class RequestRepeated(UsageError, code="request-repeated"):
    """A request with this key was made before; it was not made again.

    Attributes:
        key: the key.
    """

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"a request with the key {self.key!r} was made before; the audit trail says what came of it"


class RequestUnderWay(RequestRepeated, code="request-under-way"):
    """A request with this key is being worked on, or its server ended a moment ago."""

    def __str__(self) -> str:
        return f"a request with the key {self.key!r} is being worked on; make it again in a minute, to see its end"


class ProblemReported(UsageError, code="problem-reported"):
    """A server has refused a request, and says why.

    Attributes:
        code: the code of the error, as the server reports it.
        detail: what is wrong.
        fix: what to do about it, if the server says so.
        status: the HTTP status.
    """

    def __init__(self, code: str, detail: str, fix: "str | None", status: int) -> None:
        super().__init__(code, detail, fix, status)
        self.code = code
        self.detail = detail
        self.fix = fix
        self.status = status

    def __str__(self) -> str:
        return self.detail if not self.fix or self.fix in self.detail else f"{self.detail}; {self.fix}"


class TooManyStreams(Unavailable, code="too-many-streams"):
    """The server has as many streams of events as it may have.

    Attributes:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most

    def __str__(self) -> str:
        return f"there are {self.most:,} streams of events already; come back later, or ask every few seconds instead"


class ViewNotFound(UsageError, LookupError, code="view-not-found"):
    """No saved view has this ``number``."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return f"there is no saved view {self.number}; list them: GET /api/v1/views"


class WebhookNotFound(UsageError, LookupError, code="webhook-not-found"):
    """No webhook has this name.

    Attributes:
        webhook: the name.
    """

    def __init__(self, webhook: str) -> None:
        super().__init__(webhook)
        self.webhook = webhook

    def __str__(self) -> str:
        return f"there is no webhook {self.webhook!r}; list them: redrive webhooks"


class WebhookConflict(UsageError, code="webhook-conflict"):
    """A webhook of this name exists already.

    Attributes:
        webhook: the name.
    """

    def __init__(self, webhook: str) -> None:
        super().__init__(webhook)
        self.webhook = webhook

    def __str__(self) -> str:
        return f"webhook {self.webhook!r} exists already; remove it first: redrive webhooks remove {self.webhook}"
