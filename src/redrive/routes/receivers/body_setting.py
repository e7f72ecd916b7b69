# SPDX-License-Identifier: MIT
"""The body of an event that a setting states. Pure: no I/O, no clock."""

import json
from dataclasses import dataclass, replace

from redrive.broker import Headers, Message
from redrive.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class EventBodySetting:
    """The body of an event: a text, which is the body as it is, or JSON values, which are kept as their text."""

    def checked(self, name: str, value: object) -> str:
        """Return the body as a text."""
        try:
            text = value if isinstance(value, str) else json.dumps(value, allow_nan=False, separators=(",", ":"))
            text.encode()
        except (TypeError, ValueError, RecursionError) as error:  # a lone surrogate is a ValueError
            raise InvalidSetting(name, value, f"must be a text or JSON values: {error}") from None
        return text


def stated_event(body: str, event_id: str, headers: Headers | None = None) -> Message:
    """Return the event with a stated body. Its content type is JSON, if that is what the body is."""
    message = Message.of(body, id=event_id, headers=headers or {})
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return message
    return replace(message, content_type="application/json")
