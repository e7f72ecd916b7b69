# SPDX-License-Identifier: MIT
"""Children and parents: what is sent while a message is handled is a child of that message, and names it in a header.

A worker notes which message is handled in a context variable, so that whatever its handler calls may send.
"""

from contextvars import ContextVar

from redrive.broker.headers import PARENT
from redrive.broker.message import Message

_handled: ContextVar[str | None] = ContextVar("redrive_handled", default=None)

note_handled = _handled.set
"""Note which message the current task handles, by its id."""

handled = _handled.get
"""Return the id of the message that is being handled; None: none is."""


def child_of(parent: str | None, message: Message) -> Message:
    """Return a message that names its parent. What has the parent's own id is the same message, which goes on."""
    if parent is None or message.id == parent or message.headers.get(PARENT) == parent:
        return message
    return message.with_headers({**message.headers, PARENT: parent})
