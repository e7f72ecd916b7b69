# SPDX-License-Identifier: MIT
"""What each error code means outside Python: the exit status of a command, the status of a response. Pure: no I/O.

This is the only place that maps errors to statuses. The command line and the HTTP API both read it, so the same error
has the same answer everywhere.
"""

from typing import NamedTuple


class ErrorStatus(NamedTuple):
    """The statuses of an error.

    Attributes:
        exit_status: of a command that ends with it; docs/reference/cli.md lists the meanings.
        http_status: of a response that reports it.
    """

    exit_status: int
    http_status: int


STATUSES = {
    "error": ErrorStatus(1, 500),
    # the caller's code, settings or request
    "usage-error": ErrorStatus(1, 400),
    "destination-conflict": ErrorStatus(6, 409),
    "destination-not-found": ErrorStatus(3, 404),
    "failure-not-found": ErrorStatus(3, 404),
    "forbidden": ErrorStatus(1, 403),
    "group-not-found": ErrorStatus(3, 404),
    "handlers-hung": ErrorStatus(1, 500),
    "invalid-cursor": ErrorStatus(2, 400),
    "invalid-expression": ErrorStatus(2, 400),
    "invalid-filter": ErrorStatus(2, 400),
    "invalid-pipeline": ErrorStatus(2, 400),
    "invalid-request": ErrorStatus(2, 422),
    "invalid-route": ErrorStatus(2, 400),
    "invalid-setting": ErrorStatus(2, 400),
    "last-admin": ErrorStatus(6, 409),
    "missing-extra": ErrorStatus(1, 501),
    "not-a-queue": ErrorStatus(2, 409),
    "not-supported": ErrorStatus(1, 501),
    "note-not-found": ErrorStatus(3, 404),
    "operation-conflict": ErrorStatus(6, 409),
    "operation-not-found": ErrorStatus(3, 404),
    "pipeline-file-error": ErrorStatus(2, 400),
    "pipeline-not-found": ErrorStatus(3, 404),
    "policy-file-error": ErrorStatus(1, 400),
    "problem-reported": ErrorStatus(1, 502),
    "queue-conflict": ErrorStatus(6, 409),
    "question-too-slow": ErrorStatus(1, 422),
    "queue-not-found": ErrorStatus(5, 404),
    "redaction-not-found": ErrorStatus(3, 404),
    "redirect-refused": ErrorStatus(7, 409),
    "request-repeated": ErrorStatus(6, 409),
    "request-under-way": ErrorStatus(6, 409),
    "route-conflict": ErrorStatus(6, 409),
    "route-file-error": ErrorStatus(2, 400),
    "route-not-found": ErrorStatus(3, 404),
    "schema-mismatch": ErrorStatus(1, 500),
    "server-file-error": ErrorStatus(2, 400),
    "session-required": ErrorStatus(2, 400),
    "sign-in-required": ErrorStatus(1, 401),
    "storage-replaced": ErrorStatus(1, 500),
    "subscription-not-found": ErrorStatus(5, 404),
    "task-conflict": ErrorStatus(6, 409),
    "task-not-found": ErrorStatus(3, 404),
    "journey-not-found": ErrorStatus(3, 404),
    "token-not-found": ErrorStatus(3, 404),
    "topic-conflict": ErrorStatus(6, 409),
    "topic-not-found": ErrorStatus(5, 404),
    "unknown-policy": ErrorStatus(1, 404),
    "unknown-setting": ErrorStatus(2, 400),
    "user-conflict": ErrorStatus(6, 409),
    "user-not-found": ErrorStatus(3, 404),
    "view-not-found": ErrorStatus(3, 404),
    "webhook-conflict": ErrorStatus(6, 409),
    "webhook-not-found": ErrorStatus(3, 404),
    # one message
    "message-error": ErrorStatus(1, 400),
    "expression-failed": ErrorStatus(1, 422),
    "invalid-message": ErrorStatus(2, 400),
    "invalid-payload": ErrorStatus(1, 422),
    "lock-lost": ErrorStatus(1, 409),
    "message-not-found": ErrorStatus(3, 404),
    "message-too-large": ErrorStatus(1, 413),
    "session-lost": ErrorStatus(1, 409),
    "submission-conflict": ErrorStatus(6, 409),
    "submission-refused": ErrorStatus(1, 422),
    "transform-failed": ErrorStatus(2, 422),
    # something outside failed: the same request may work later
    "unavailable": ErrorStatus(1, 503),
    "attempt-timeout": ErrorStatus(1, 504),
    "circuit-open": ErrorStatus(1, 503),
    "deadline-exceeded": ErrorStatus(1, 504),
    "engine-unavailable": ErrorStatus(1, 503),
    "engine-busy": ErrorStatus(1, 503),
    "storage-damaged": ErrorStatus(1, 500),
    "storage-full": ErrorStatus(1, 507),
    "storage-read-only": ErrorStatus(1, 500),
    "lease-lost": ErrorStatus(1, 503),
    "provider-unavailable": ErrorStatus(1, 503),
    "receiver-full": ErrorStatus(1, 429),
    "too-many-attempts": ErrorStatus(1, 429),
    "too-many-streams": ErrorStatus(1, 503),
}


def statuses_of(code: str) -> ErrorStatus:
    """Return the statuses of an error's code; an unknown code has those of ``error``."""
    return STATUSES.get(code, STATUSES["error"])


def problem_type(code: str) -> str:
    """Return the ``type`` of the problem details (RFC 9457) of an error."""
    return f"urn:redrive:error:{code}"
