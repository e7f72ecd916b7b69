# SPDX-License-Identifier: MIT
"""The copies of a failed message on its way back: staged, then forwarded. Pure: no I/O, no clock, no randomness."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from redrive.broker import Complete, Effect, Message, Received, Send
from redrive.broker.headers import PARENT, RECOVERY_STAGING, RECOVERY_TAG, RECOVERY_TO
from redrive.broker.rules import digest_of
from redrive.recovery.records import Batch, Staged
from redrive.recovery.tags import Tag, read_tag, seal

NOT_STAGED: Final = "it was in the staging queue {queue!r}, but recovery did not put it there"
"""Why a message that recovery did not put into a staging queue is set aside."""


def destination_of(staged: Staged, batch: Batch, redirects: Mapping[str, str]) -> str:
    """Return where a message goes: where the operation says, a redirect, or the queue it failed in."""
    return batch.plan.redirect or redirects.get(staged.queue, staged.queue)


def staged_copy(staged: Staged, batch: Batch, to: str, key: bytes) -> Message:
    """Return the copy for the staging queue.

    Args:
        staged: the failed message, changed as its operation asks.
        batch: the batch that it is sent with.
        to: the queue that it goes to.
        key: the ledger's key, which seals its tag.
    """
    message = staged.message
    edited = edited_id(staged.id, batch.operation) if batch.plan.is_edit else None
    # without a time to live: a copy that expires while staged would count as sent
    headers = {**message.headers, RECOVERY_STAGING: batch.staging_id, RECOVERY_TO: to}
    copy = message.relabelled(headers if edited is None else {**headers, PARENT: message.id or staged.id}, edited)
    tag = seal(Tag(batch.operation, staged.failure, is_edited=batch.plan.is_edit), key, queue=to, message=copy)
    return copy.relabelled({**copy.headers, RECOVERY_TAG: tag})


def edited_id(id_: str, operation: int) -> str:
    """Return the message id of an edited copy: the same, however often it is staged."""
    return blake2b(f"{operation}\0{id_}".encode(), digest_size=16).hexdigest()


def forwarded_copy(message: Message) -> Message:
    """Return the copy for the destination."""
    return message.relabelled({name: value for name, value in message.headers.items() if name not in _STAGED_ONLY})


_STAGED_ONLY = (RECOVERY_STAGING, RECOVERY_TO)


@dataclass(frozen=True, slots=True)
class Sorted:
    """What was found in a staging queue.

    Attributes:
        mine: copies of the batch, with their failures' numbers.
        strays: copies of other attempts at staging, or of messages that are done already.
        foreign: messages that recovery did not stage.
    """

    mine: Sequence[tuple[Received, int]]
    strays: Sequence[Received]
    foreign: Sequence[Received]


def sort(page: Sequence[Received], batch: Batch | None, pending: Collection[int], key: bytes) -> Sorted:
    """Sort the messages found in a staging queue by what must be done with them.

    Args:
        page: what was found.
        batch: the batch that is being forwarded; None: none is, and every copy is a stray.
        pending: the numbers of its messages that are to be forwarded.
        key: the ledger's key; a message without its seal was not staged by recovery, whatever its headers say.
    """
    mine: list[tuple[Received, int]] = []
    strays: list[Received] = []
    foreign: list[Received] = []
    seen: set[int] = set()
    for each in page:
        tag = _tag_of(each, key)
        if tag is None:
            foreign.append(each)
        elif _is_of(batch, each, tag) and tag.failure in pending and tag.failure not in seen:
            seen.add(tag.failure)
            mine.append((each, tag.failure))
        else:
            strays.append(each)
    return Sorted(mine, strays, foreign)


def _tag_of(staged: Received, key: bytes) -> Tag | None:
    headers, to = staged.headers, staged.headers.get(RECOVERY_TO)
    if not isinstance(headers.get(RECOVERY_STAGING), str) or not isinstance(to, str):
        return None
    return read_tag(headers.get(RECOVERY_TAG), key, queue=to, message_id=staged.id, digest=digest_of(staged.body))


def _is_of(batch: Batch | None, staged: Received, tag: Tag) -> bool:
    return (
        batch is not None and tag.operation == batch.operation and staged.headers[RECOVERY_STAGING] == batch.staging_id
    )


def forwarding(received: Received) -> list[Effect]:
    """Return the effects that forward a copy; first the send, so that nothing is lost without transactions."""
    send = Send(str(received.headers[RECOVERY_TO]), forwarded_copy(received.message), even_if_seen=True)
    return [send, *(Complete(lock) for lock in (received.lock,) if lock is not None)]
