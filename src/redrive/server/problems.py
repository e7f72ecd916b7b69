# SPDX-License-Identifier: MIT
"""Errors as problem details (RFC 9457): what is wrong, and what to do about it.

An error of Redrive has the status and the code that ``redrive.error_codes`` says, here and on the command line. What
is not expected is 500 without a word about the inside, which is in the log.
"""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from redrive.broker.views import View
from redrive.error_codes import problem_type, statuses_of
from redrive.errors import (
    CircuitOpen,
    Forbidden,
    InvalidRequest,
    QueueConflict,
    QueueNotFound,
    RedriveError,
    SignInRequired,
    TooManyAttempts,
    TopicConflict,
    TopicNotFound,
    Unavailable,
)
from redrive.http.listener import Packet, Receive, Send
from redrive.printable import one_line

_logger = logging.getLogger("redrive.server")

MEDIA_TYPE: Final = "application/problem+json"
_LONGEST: Final = 4_000
_RETRY_AFTER_S: Final = 2
_OF_FRAMEWORK: Final[Mapping[int, tuple[str, str]]] = {
    404: ("unknown-path", "see /api/v1/openapi.json for the paths there are"),
    405: ("wrong-method", "see the header Allow for the methods there are"),
    413: ("body-too-large", "send less at once"),
    415: ("unknown-media-type", "send JSON with Content-Type: application/json"),
    421: ("unknown-host", "call it by the address it listens at, or add the name to hosts in redrive.toml"),
}


def problem(status: int, code: str, detail: str, fix: str | None) -> View:
    """Return problem details.

    Args:
        status: the status of the response.
        code: names the error for programs.
        detail: what is wrong, for people.
        fix: what to do about it; None if nothing is known.
    """
    return {
        "type": problem_type(code),
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": one_line(detail, _LONGEST),
        "code": code,
        "fix": None if fix is None else one_line(fix, _LONGEST),
    }


def problem_of(error: RedriveError) -> View:
    """Return the problem details of an error."""
    return problem(statuses_of(error.code).http_status, error.code, str(error), fix_of(error))


def fix_of(error: RedriveError) -> str | None:
    """Return what a client of the API can do about an error."""
    match error:
        case QueueNotFound(similar=str(similar)):
            return f"did you mean {similar!r}?"
        case QueueNotFound(queue=queue):
            return f"declare it: PUT /api/v1/queues/{queue}"
        case TopicNotFound(topic=topic, is_queue=False):
            return f"declare it: PUT /api/v1/topics/{topic}"
        case QueueConflict(queue=queue):
            kind = "topics" if isinstance(error, TopicConflict) else "queues"
            return f"change it: PATCH /api/v1/{kind}/{queue}"
        case Forbidden(fix=fix):
            return fix
        case _:
            return str(error).partition("; ")[2] or None  # an error's text says first what is wrong


def response_of(error: RedriveError) -> JSONResponse:
    """Return the response that reports an error."""
    found = problem_of(error)
    headers: dict[str, str] = {}
    if isinstance(error, SignInRequired):
        headers["www-authenticate"] = 'Bearer realm="redrive"'
    if isinstance(error, CircuitOpen | TooManyAttempts):
        headers["retry-after"] = str(int(error.retry_after) + 1)
    elif isinstance(error, Unavailable):
        headers["retry-after"] = str(_RETRY_AFTER_S)
    return answer(found, headers)


class ProblemResponse(JSONResponse):
    """Problem details: JSON for programs, a page for people who look at pages.

    Args:
        found: the problem details.
        headers: more headers.
    """

    def __init__(self, found: View, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(found, found["status"], headers=dict(headers or {}), media_type=MEDIA_TYPE)
        self._found = found

    async def __call__(self, scope: Packet, receive: Receive, send: Send) -> None:
        """Send it."""
        from redrive.server.console.refusals import is_for_page, refusal_page

        if not is_for_page(scope):
            await super().__call__(scope, receive, send)
            return
        kept = {name: value for name, value in self.headers.items() if name in ("retry-after", "allow")}
        await refusal_page(self._found, scope, kept)(scope, receive, send)


def answer(found: View, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response with problem details."""
    return ProblemResponse(found, headers)


def framework_problem(status: int, detail: str = "") -> View:
    """Return the problem details of what the framework refuses before anything of ours is asked."""
    code, fix = _OF_FRAMEWORK.get(status, (HTTPStatus(status).phrase.lower().replace(" ", "-"), None))
    return problem(status, code, detail or HTTPStatus(status).phrase, fix)


def internal_problem() -> View:
    """Return the problem details of an error that is not expected; they say nothing about the inside."""
    text = "this is an error in the server, not in the request"
    return problem(500, "internal-error", text, "the log of the server has the traceback")


def add_handlers(app: FastAPI) -> None:
    """Let an application report errors as problem details; ``Guard`` does it for what is not expected."""
    app.add_exception_handler(RedriveError, _redrive_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)


async def _redrive_error(_: Request, error: Exception) -> JSONResponse:
    found = cast("RedriveError", error)
    if statuses_of(found.code).http_status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _logger.warning("a request ended with %s: %s", found.code, one_line(found, _LONGEST))
    return response_of(found)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    found: list[dict[str, Any]] = list(cast("RequestValidationError", error).errors())
    first = found[0] if found else {"loc": (), "msg": "the request is not valid"}
    refused = InvalidRequest(".".join(str(each) for each in first["loc"]), str(first["msg"]))
    return answer({**problem_of(refused), "fix": "see /api/v1/openapi.json for the form of this request"})


async def _refused(_: Request, error: Exception) -> JSONResponse:
    refused = cast("HTTPException", error)
    return answer(framework_problem(refused.status_code, str(refused.detail)), refused.headers)
