# SPDX-License-Identifier: MIT
"""Headers as texts, for servers whose messages have nothing else, and back. Pure: no I/O, no clock.

What is no text is written as JSON, such as ``true``; what comes back is a text. The properties of a message go with its
headers, under names such as ``correlation-id``.
"""

import json
from collections.abc import Iterable
from typing import Final

from redrive.broker import Message

KEY: Final = "idempotency-key"
"""Names a delivery: the same event for the same route has the same key in every attempt."""

_CONTENT_TYPE: Final = "content-type"
_PROPERTIES: Final = ("content_type", "subject", "correlation_id", "reply_to", "to", "session_id")
_LONGEST: Final = 1_024


def header_texts(message: Message, key: str) -> dict[str, str]:
    """Return the headers and the properties of a message as texts, and the key of its delivery."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in message.headers.items()}
    for name in _PROPERTIES:
        value = getattr(message, name)
        if value is not None:
            texts[name.replace("_", "-")] = value
    return texts | {KEY: key}


def message_of(body: bytes, message_id: str, texts: Iterable[tuple[str, str]], subject: str | None = None) -> Message:
    """Return an event of what a server has delivered: a content type is one, and all else are headers.

    Args:
        body: its body.
        message_id: its id.
        texts: its headers.
        subject: what it is about.

    Raises:
        InvalidMessage: it cannot be sent on.
    """
    headers: dict[str, str] = {}
    content_type: str | None = None
    for name, text in texts:
        if name.lower() == _CONTENT_TYPE and is_property(text):
            content_type = text
        elif name:
            headers[name] = text
    return Message(body, id=message_id, content_type=content_type, subject=subject, headers=headers)


def is_property(text: str) -> bool:
    """Whether a text can be an id, or another property of a message."""
    return 1 <= len(text) <= _LONGEST and "\0" not in text
