# SPDX-License-Identifier: MIT
"""The names of all headers that Redrive adds to messages; no other file spells one. Pure: no I/O.

The texts below the names are the table in docs/reference/headers.md; ``python -m tools.header_table`` writes it.
"""

from typing import Final

OWN_HEADERS: Final = "redrive-"
"""How the name of each of them begins."""

# --- On a message that was sent while another one was handled

PARENT: Final = "redrive-parent"
"""the id of that other message, its parent"""

# --- On a message that is being redelivered

DELAYED_RETRIES: Final = "redrive-delayed-retries"
"""how many delayed redeliveries it has had"""

EARLIER_DELIVERIES: Final = "redrive-earlier-deliveries"
"""how often it was delivered before the last of them"""

ATTEMPT_TRACE: Final = "redrive-attempt-trace"
"""the ``traceparent`` of the span of the last attempt that failed, in programs that use OpenTelemetry"""

# --- On the leg of a route

ROUTE_DELIVERED: Final = "redrive-route-delivered"
"""which parts of a split event were delivered, so that a replay leaves them out: ``0,2``"""

ROUTE_EXHAUSTED: Final = "redrive-route-exhausted"
"""why a leg that was not stored before failed, until it is moved to the dead letters"""

# --- On a message that a worker has moved to an error queue or a dead-letter queue

FAILED: Final = "redrive-failed-"

FAILED_QUEUE: Final = "redrive-failed-queue"
"""the queue it failed in"""

FAILED_AT: Final = "redrive-failed-at"
"""when it failed for the last time, ISO 8601 in UTC"""

FAILED_REASON: Final = "redrive-failed-reason"
"""why it was moved: ``MaxDelayedRetries``, ``MaxImmediateRetries``, ``Poison``, or what your own decision said"""

FAILED_EXCEPTION_TYPE: Final = "redrive-failed-exception-type"
"""the exception's class, with its module"""

FAILED_EXCEPTION_MESSAGE: Final = "redrive-failed-exception-message"
"""what the exception said, at most 1,000 characters"""

FAILED_EXCEPTION_SOURCE: Final = "redrive-failed-exception-source"
"""where it was raised: module, function and line"""

FAILED_STACK_TRACE: Final = "redrive-failed-stack-trace"
"""the traceback with all causes, at most 8,000 characters"""

FAILED_IMMEDIATE_RETRIES: Final = "redrive-failed-immediate-retries"
"""how many redeliveries came at once"""

FAILED_DELAYED_RETRIES: Final = "redrive-failed-delayed-retries"
"""how many came after a delay"""

FAILED_HOST: Final = "redrive-failed-host"
"""the machine"""

FAILED_WORKER: Final = "redrive-failed-worker"
"""the worker's name"""

# --- On a message that recovery sends again

RECOVERY: Final = "redrive-recovery-"

RECOVERY_TAG: Final = "redrive-recovery-tag"
"""operation and number of the failed message, sealed for this queue, this message id and this body"""

RECOVERY_STAGING: Final = "redrive-recovery-staging"
"""while it is staged: the attempt at staging it belongs to"""

RECOVERY_TO: Final = "redrive-recovery-to"
"""while it is staged: the queue it goes to"""

# --- On the confirmation that such a message was handled, beside its tag

RECOVERY_QUEUE: Final = "redrive-recovery-queue"
"""the queue that the message was received from"""

RECOVERY_MESSAGE: Final = "redrive-recovery-message"
"""its message id"""

RECOVERY_DIGEST: Final = "redrive-recovery-digest"
"""the SHA-256 of its body, in hexadecimal"""

RECOVERY_HANDLED_AT: Final = "redrive-recovery-handled-at"
"""when it was handled, in ISO 8601"""
