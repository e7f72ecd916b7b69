# SPDX-License-Identifier: MIT
"""The tag of a recovered copy: which failed message it is, and in which operation it was sent. Pure: no I/O.

A tag is sealed with the ledger's key over everything that makes the copy *that* copy: operation, failed message, the
queue it was sent to, its message id, its body. So a forged tag is invalid, and a genuine tag is invalid on another
message: one that a handler passed on, one in another queue, one with another id or body.
"""

import hmac
import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from redrive.broker import Message
from redrive.broker.rules import digest_of, source_queue

_FORM = re.compile(r"([1-9][0-9]{0,17})\.([1-9][0-9]{0,17})\.([ce])\.([0-9a-f]{32})", re.ASCII)
_COPY, _EDITED = "c", "e"
KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Tag:
    """What a valid tag says.

    Attributes:
        operation: the operation that sent the copy.
        failure: the number of the failed message that it is a copy of.
        is_edited: whether the copy was edited; then it is a message of its own.
    """

    operation: int
    failure: int
    is_edited: bool = False


def seal(tag: Tag, key: bytes, *, queue: str, message: Message) -> str:
    """Return the tag of a copy that is sent to a queue."""
    kind = _EDITED if tag.is_edited else _COPY
    mark = _mark(tag, key, source_queue(queue), message.id or "", digest_of(message.body))
    return f"{tag.operation}.{tag.failure}.{kind}.{mark}"


def read_tag(text: object, key: bytes, *, queue: str, message_id: str, digest: str) -> Tag | None:
    """Return what a tag says, if it was sealed for this queue, this message id and this body; None otherwise."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    tag = Tag(int(found[1]), int(found[2]), is_edited=found[3] == _EDITED)
    is_true = hmac.compare_digest(found[4], _mark(tag, key, source_queue(queue), message_id, digest))
    return tag if is_true else None


def _mark(tag: Tag, key: bytes, queue: str, message_id: str, digest: str) -> str:
    sealed = blake2b(key=key, digest_size=16)
    for part in (str(tag.operation), str(tag.failure), str(tag.is_edited), queue, message_id, digest):
        data = part.encode(errors="backslashreplace")
        sealed.update(len(data).to_bytes(8, "big"))  # so that no two lists of parts look alike
        sealed.update(data)
    return sealed.hexdigest()
