# SPDX-License-Identifier: MIT
"""Which failed message a failure belongs to, if no tag says so. Pure: no I/O, no clock, no randomness.

Ids of messages need not be unique, and any program may write headers. So a failed message is identified by everything
that makes it *that* message: the queue it failed in, its id, its body, its properties and headers. Messages that differ
in any of these have separate records. Messages that are equal in all of them cannot be distinguished, and are one
record with several attempts.
"""

from datetime import datetime
from functools import lru_cache
from hashlib import blake2b

from redrive.broker import Message
from redrive.broker.rules import source_queue
from redrive.recovery.failure_formats import Failure

_OURS = ("redrive", "dead-letter")
"""The formats whose programs leave all other headers unchanged. Other frameworks add headers of their own."""


def failure_id(failure: Failure, message: Message, digest: str) -> str:
    """Return the id of the failed message that a failure without a tag belongs to.

    Args:
        failure: what the message says about its failure.
        message: the message without that.
        digest: the digest of its body.
    """
    texts = (message.content_type, message.subject, message.correlation_id, message.reply_to, message.to)
    known: list[object] = [failure.queue, message.id, digest, *texts, message.session_id]
    if failure.vocabulary in _OURS:
        known += sorted(message.headers.items())
    return blake2b(repr(known).encode(errors="backslashreplace"), digest_size=16).hexdigest()


def exact_key(queue: str, sequence: int, enqueued_at: datetime) -> str:
    """Return the key of one failure of a message: different for each failure, the same in every delivery.

    For engines that move a message in one transaction, so that each failure is there once.

    Args:
        queue: the error queue or dead-letter queue that it is in.
        sequence: its number there.
        enqueued_at: when it was sent there.
    """
    # A dead letter keeps its number. The time distinguishes a queue from one that was deleted and declared again.
    return f"{source_queue(queue)}#{sequence}{_time(enqueued_at)}"


@lru_cache(maxsize=256)  # many are sent at once
def _time(enqueued_at: datetime) -> str:
    return f"@{enqueued_at.timestamp():.6f}"
