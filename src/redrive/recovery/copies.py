# SPDX-License-Identifier: MIT
"""The copies of a failed message on its way back: staged, then forwarded. Pure: no I/O, no clock, no randomness.

============================  =====================================================================================
``redrive-recovery-id``       the failed message's id, for life: whatever happens to the copy goes to its record
``redrive-recovery-operation``  the operation that sent it
``redrive-recovery-confirm``  the queue for word of its success
``redrive-recovery-edit-of``  of a copy that a person edited: the id of the failed message it was made of
``redrive-recovery-staging``  while it is staged: the attempt at staging it belongs to
``redrive-recovery-to``       while it is staged: where it goes
============================  =====================================================================================
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from redrive.broker.engine import Complete, DeadLetter, Effect, Send
from redrive.broker.message import Message, Received
from redrive.recovery.records import Batch, Staged
from redrive.worker.confirming import RECOVERY_CONFIRM, RECOVERY_ID, RECOVERY_OPERATION

EDIT_OF: Final = "redrive-recovery-edit-of"
STAGING: Final = "redrive-recovery-staging"
DESTINATION: Final = "redrive-recovery-to"

STAGING_QUEUE: Final = "redrive.staging/"
"""A lane's staging queue is called so, and its destination."""

CONFIRMATIONS: Final = "redrive.confirmations"

FOREIGN: Final = "NotStaged"
"""The reason of a dead letter in a staging queue: nobody staged it."""


def failure_id(message_id: str, queue: str) -> str:
    """Return the id of a failed message: the same message that fails in two queues is two failures."""
    return blake2b(f"{queue}\0{message_id}".encode(errors="backslashreplace"), digest_size=16).hexdigest()


def staging_queue(lane: str) -> str:
    """Return the name of a lane's staging queue."""
    return STAGING_QUEUE + lane


def destination_of(staged: Staged, batch: Batch, redirects: Mapping[str, str]) -> str:
    """Return where a message goes: where the operation says, a redirect, or the queue it failed in."""
    return batch.plan.redirect or redirects.get(staged.queue, staged.queue)


def staged_copy(
    staged: Staged, batch: Batch, to: str, load: Callable[[str], Callable[..., Any]] | None = None
) -> Message:
    """Return the copy for the staging queue.

    Raises:
        TransformFailed: the message cannot be changed as it was asked.
    """
    message = staged.message
    if batch.plan.transform is not None:
        message = batch.plan.transform.apply(message, load)
    headers = {
        **message.headers,
        RECOVERY_ID: staged.id,
        RECOVERY_OPERATION: batch.operation,
        STAGING: batch.staging_id,
        DESTINATION: to,
    }
    edited = None
    if batch.plan.is_edit:
        headers[EDIT_OF] = staged.id
        edited = edited_id(staged.id, batch.operation)
    return message.relabelled(headers, edited)  # without a time to live: what expires while staged would count as sent


def edited_id(id_: str, operation: int) -> str:
    """Return the message id of an edited copy: the same, however often it is staged."""
    return blake2b(f"{operation}\0{id_}".encode(), digest_size=16).hexdigest()


def forwarded_copy(message: Message) -> Message:
    """Return the copy for the destination."""
    headers = dict(message.headers)
    for name in (STAGING, DESTINATION):
        headers.pop(name, None)
    headers[RECOVERY_CONFIRM] = CONFIRMATIONS
    return message.relabelled(headers)


@dataclass(frozen=True, slots=True)
class Sorted:
    """What was found in a staging queue.

    Attributes:
        mine: copies of the batch, with their failures' numbers.
        strays: copies of other attempts at staging, or of what is done already.
        foreign: what is no copy of ours at all.
    """

    mine: Sequence[tuple[Received, int]]
    strays: Sequence[Received]
    foreign: Sequence[Received]


def sort(page: Sequence[Received], staging_id: str | None, pending: Mapping[str, int]) -> Sorted:
    """Say what is to be done with what was found in a staging queue."""
    mine: list[tuple[Received, int]] = []
    strays: list[Received] = []
    foreign: list[Received] = []
    seen: set[int] = set()
    for each in page:
        headers = each.headers
        number = pending.get(str(headers.get(RECOVERY_ID)))
        if not isinstance(headers.get(STAGING), str) or not isinstance(headers.get(DESTINATION), str):
            foreign.append(each)
        elif headers[STAGING] == staging_id and number is not None and number not in seen:
            seen.add(number)
            mine.append((each, number))
        else:
            strays.append(each)
    return Sorted(mine, strays, foreign)


def forwarding(received: Received) -> list[Effect]:
    """Return the effects that forward a copy; sent first, so that nothing is lost where they are not one."""
    send = Send(str(received.headers[DESTINATION]), forwarded_copy(received.message), even_if_seen=True)
    return [send, *(Complete(lock) for lock in (received.lock,) if lock is not None)]


def putting_away(found: Sorted) -> list[Effect]:
    """Return the effects that drop strays, and set aside what nobody staged."""
    strays: list[Effect] = [Complete(each.lock) for each in found.strays if each.lock is not None]
    told = "it is no copy of a failed message; move it to where it belongs"
    return strays + [DeadLetter(each.lock, FOREIGN, told) for each in found.foreign if each.lock is not None]
