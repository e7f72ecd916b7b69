# SPDX-License-Identifier: MIT
"""The confirmation that a recovered message was handled, sent in the transaction that completes it. Pure: no I/O.

A copy that layer 5 sends carries a tag. The tag is valid only for the queue that the copy was sent to, its message id
and its body. So the confirmation repeats these three as they were *received*: a message that a handler makes from a
recovered one, with the same headers, confirms nothing. A consumer that is not a worker sends the same confirmation.
"""

from datetime import datetime

from redrive.broker import Headers, Message, Send
from redrive.broker.headers import (
    ATTEMPT_TRACE,
    DELAYED_RETRIES,
    EARLIER_DELIVERIES,
    RECOVERY,
    RECOVERY_DIGEST,
    RECOVERY_HANDLED_AT,
    RECOVERY_MESSAGE,
    RECOVERY_QUEUE,
    RECOVERY_TAG,
)
from redrive.broker.rules import CONFIRMATIONS, digest_of, source_queue


def confirmation_of(message: Message, queue: str, at: datetime) -> list[Send]:
    """Return the effect that confirms that a message was handled; nothing if it is not a recovered copy.

    Args:
        message: the message, as it was received.
        queue: the queue that it was received from.
        at: when it was handled.
    """
    tag = message.headers.get(RECOVERY_TAG)
    if not isinstance(tag, str) or not tag:
        return []
    headers = {
        RECOVERY_TAG: tag,
        RECOVERY_QUEUE: source_queue(queue),
        RECOVERY_MESSAGE: message.id,
        RECOVERY_DIGEST: digest_of(message.body),
        RECOVERY_HANDLED_AT: at.isoformat(),
    }
    return [Send(CONFIRMATIONS, Message(b"", headers=headers))]


def unbound(headers: Headers) -> Headers:
    """Return headers without those that belong to this message in this queue, for a new message made from it."""
    bound = (ATTEMPT_TRACE, DELAYED_RETRIES, EARLIER_DELIVERIES)
    if not any(name.startswith(RECOVERY) or name in bound for name in headers):
        return headers
    return {name: value for name, value in headers.items() if not name.startswith(RECOVERY) and name not in bound}
