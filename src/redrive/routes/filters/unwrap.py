# SPDX-License-Identifier: MIT
"""The filter that takes a body out of an envelope. Pure: no I/O, no clock, no randomness."""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from redrive.broker import Message
from redrive.errors import ExpressionFailed
from redrive.routes.event_values import EventValues, PathSetting, kind_word, with_json
from redrive.routes.parts import ChoiceSetting, EventFilter, LegFacts, setting


@dataclass(frozen=True, slots=True)
class UnwrapFilter(EventFilter):
    """Makes a value in the event its body, such as the ``Message`` of a notification.

    A text becomes the body as it is, in UTF-8 or decoded, with no content type, since it may be anything; every other
    value becomes a JSON body. If nothing is there, that is a permanent error.
    """

    kind: ClassVar[str] = "unwrap"

    path: str = setting(PathSetting(), "a JMESPath to what becomes the body: body.Message")
    encoding: Literal["none", "base64"] = setting(
        ChoiceSetting(("none", "base64")), "how a text is encoded there: none or base64", "none"
    )

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Return the event with its new body."""
        found = EventValues(message).required(self.path)
        if self.encoding == "base64":
            return (replace(message, body=self._decoded(found), content_type=None),)
        if isinstance(found, str):
            return (replace(message, body=self._utf_8(found), content_type=None),)
        return (with_json(message, found),)

    def _decoded(self, found: object) -> bytes:
        if not isinstance(found, str):
            raise ExpressionFailed(self.path, f"its result is {kind_word(found)}, and base64 is a text")
        try:
            return b64decode(found, validate=True)
        except ValueError as error:
            raise ExpressionFailed(self.path, f"its result is no base64: {error}") from error

    def _utf_8(self, found: str) -> bytes:
        try:
            return found.encode()
        except UnicodeEncodeError:
            raise ExpressionFailed(
                self.path, "its result has half of a surrogate pair, which is no character"
            ) from None
