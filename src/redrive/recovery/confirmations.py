# SPDX-License-Identifier: MIT
"""What a message says that confirms the success of a recovered one. Pure: no I/O, no clock."""

from datetime import UTC, datetime

from redrive.broker import Received
from redrive.broker.headers import (
    RECOVERY_DIGEST,
    RECOVERY_HANDLED_AT,
    RECOVERY_MESSAGE,
    RECOVERY_QUEUE,
    RECOVERY_TAG,
)
from redrive.recovery.arrivals import Confirmation
from redrive.recovery.tags import read_tag


def read_confirmation(received: Received, key: bytes) -> Confirmation | None:
    """Return what a message confirms; None if it is no confirmation, or not sealed with the key."""
    headers = received.headers
    queue, message_id, digest = (headers.get(name) for name in (RECOVERY_QUEUE, RECOVERY_MESSAGE, RECOVERY_DIGEST))
    if not isinstance(queue, str) or not isinstance(message_id, str) or not isinstance(digest, str):
        return None
    tag = read_tag(headers.get(RECOVERY_TAG), key, queue=queue, message_id=message_id, digest=digest)
    if tag is None:
        return None
    return Confirmation(
        failure=tag.failure,
        operation=tag.operation,
        at=_instant(headers.get(RECOVERY_HANDLED_AT)) or received.enqueued_at,
    )


def _instant(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
