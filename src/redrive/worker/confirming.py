# SPDX-License-Identifier: MIT
"""Word that a recovered message was handled, sent in the transaction that completes it. Pure: no I/O, no clock.

A message that layer 5 has sent again carries where it wants to be told of, and under which name. Whoever handles it
without a worker sends the same: a message with these headers, to the queue that ``redrive-recovery-confirm`` names.
"""

from datetime import datetime
from typing import Final

from redrive.broker.engine import Send
from redrive.broker.message import Message

RECOVERY_ID: Final = "redrive-recovery-id"
"""The failed message's id; it stays the same for life."""

RECOVERY_OPERATION: Final = "redrive-recovery-operation"
"""The number of the operation that sent it."""

RECOVERY_CONFIRM: Final = "redrive-recovery-confirm"
"""The queue for word of its success."""

RECOVERY_HANDLED_AT: Final = "redrive-recovery-handled-at"
"""In the word of it: when it was handled."""


def confirmation_of(message: Message, at: datetime) -> list[Send]:
    """Return what confirms that a message was handled; nothing if nobody wants to know."""
    queue = message.headers.get(RECOVERY_CONFIRM)
    if not isinstance(queue, str) or not queue:
        return []
    told = {name: message.headers.get(name) for name in (RECOVERY_ID, RECOVERY_OPERATION)}
    return [Send(queue, Message(b"", headers={**told, RECOVERY_HANDLED_AT: at.isoformat()}))]
