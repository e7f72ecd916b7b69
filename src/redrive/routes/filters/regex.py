# SPDX-License-Identifier: MIT
"""The filter that lets through what a pattern is found in. Pure: no I/O, no clock, no randomness.

Patterns are those of RE2 (https://github.com/google/re2/wiki/Syntax): searching takes time in proportion to the text,
whatever the pattern is. There is no look-around, and there are no back references.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from redrive.broker import Message
from redrive.errors import InvalidSetting
from redrive.pattern import compiled_pattern
from redrive.routes.event_values import PathSetting, plain_bytes, value_at
from redrive.routes.parts import EventFilter, FlagSetting, LegFacts, TextSetting, setting


@dataclass(frozen=True, slots=True)
class RegexFilter(EventFilter):
    """Passes the events in which a pattern is found, and consumes the others.

    A number, a list or an object is searched as JSON. Nothing is found in what is missing.
    """

    kind: ClassVar[str] = "regex"

    pattern: str = setting(
        TextSetting("must be a pattern, such as '^ERROR'"), "a pattern of RE2: ^(?P<level>ERROR|WARN)"
    )
    path: str | None = setting(PathSetting(), "a JMESPath to what is searched; without it, the whole body", None)
    negate: bool = setting(FlagSetting(), "pass the events in which the pattern is not found", default=False)
    headers: bool = setting(FlagSetting(), "add what the named groups of the pattern found as headers", default=False)

    def check(self) -> None:
        """See that the pattern can be read, and that there are groups if they are wanted."""
        groups = compiled_pattern(self.pattern).groupindex
        if self.headers and not groups:
            raise InvalidSetting(
                "headers", self.headers, "needs a pattern with named groups, such as (?P<level>[A-Z]+)"
            )
        if self.headers and self.negate:
            raise InvalidSetting("headers", self.headers, "needs negate = false: otherwise the groups find nothing")

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Return the event, perhaps with more headers, if the pattern is found in it."""
        found = self._search(message)
        if self.negate:
            return () if found else (message,)
        if not found:
            return ()
        return (_with_groups(message, found),) if self.headers else (message,)

    def _search(self, message: Message) -> Any:  # noqa: ANN401 - a match of RE2, or None
        if self.path is None:
            return compiled_pattern(self.pattern).search(message.body)
        value = value_at(message, self.path)
        return None if value is None else compiled_pattern(self.pattern).search(plain_bytes(value))


def _with_groups(message: Message, found: Any) -> Message:  # noqa: ANN401 - a match of RE2
    groups = {name: text.decode(errors="replace") for name, text in found.groupdict().items() if text is not None}
    return replace(message, headers={**message.headers, **groups})
