# SPDX-License-Identifier: MIT
"""Hiding what people must not see in messages: by the name of a header, a place in a JSON body, or a pattern.

It is done to everything that leaves the process: answers of the API, exports, previews and the command line. What is
stored stays as it is.

Neither a pattern nor a message may keep the process busy. Patterns are those of RE2, whose searches take time in
proportion to the text. A text may still have a match at every letter, each found by a search to its end, so what is
shown at once is searched for a limited time, and what is left then is hidden as a whole.
"""

import asyncio
import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Any, Final

from redrive.broker.views import View
from redrive.clock import Clock, system_clock
from redrive.errors import InvalidExpression, InvalidSetting
from redrive.pattern import compiled_pattern

HIDDEN: Final = "[hidden]"
"""What stands where something was hidden."""

_LONGEST: Final = 1_000
_OWN_WORDS: Final = frozenset(
    {"body_encoding", "kind", "state", "status", "outcome", "journey", "metric", "at", "since"}
)
_OWN_TIMES: Final = ("_at", "_until")
_LARGEST_PATTERN: Final = 2_000
_PATIENCE_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionRules:
    """What is hidden.

    Attributes:
        headers: names of headers whose values are hidden, whatever their letters' case; ``*`` is any letters:
            ``authorization``, ``x-*-token``.
        pointers: places in JSON bodies (RFC 6901) whose values are hidden: ``/card/number``; ``*`` is every key, or
            every element of a list: ``/people/*/name``.
        patterns: regular expressions of RE2; what they match is hidden in bodies, headers and the texts of exceptions.
    """

    headers: tuple[str, ...] = ()
    pointers: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("headers", "pointers", "patterns"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        for pointer in self.pointers:
            if not pointer.startswith("/"):
                raise InvalidSetting("pointers", pointer, "must be a JSON pointer: /card/number")
        for pattern in self.patterns:
            _compiled(pattern)

    def __bool__(self) -> bool:
        return bool(self.headers or self.pointers or self.patterns)

    def and_also(self, other: "RedactionRules") -> "RedactionRules":
        """Return these rules and others."""
        return RedactionRules(
            headers=(*self.headers, *other.headers),
            pointers=(*self.pointers, *other.pointers),
            patterns=(*self.patterns, *other.patterns),
        )


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(each, str) and 0 < len(each) <= _LONGEST for each in value):
        return tuple(value)
    raise InvalidSetting(name, value, f'must be a list of texts of at most {_LONGEST:,} characters: ["…"]')


def _compiled(pattern: str) -> Any:  # noqa: ANN401 - the library has no types
    try:
        found = compiled_pattern(pattern, "server")
    except InvalidExpression as error:
        raise InvalidSetting("patterns", pattern, f"must be a regular expression: {error.problem}") from None
    if found.programsize > _LARGEST_PATTERN:
        problem = f"is too large: it has {found.programsize:,} steps, and {_LARGEST_PATTERN:,} is the most"
        raise InvalidSetting("patterns", pattern, f"{problem}; repeat less in it")
    return found


class _Patience:
    """How long may be searched.

    Args:
        clock: what it goes by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends = clock.monotonic() + _PATIENCE_S

    @property
    def is_over(self) -> bool:
        """Whether that time is over."""
        return self._clock.monotonic() >= self._ends


class Redaction:
    """Hides what rules say, in everything that is shown.

    Args:
        rules: the rules.
        clock: what limits the time of a search.

    Attributes:
        rules: the same.
    """

    def __init__(self, rules: RedactionRules, clock: Clock = system_clock) -> None:
        self.rules = rules
        self._clock = clock
        self._names = [re.compile(translate(each.lower())) for each in rules.headers]
        self._pointers = [_keys(each) for each in rules.pointers]
        self._patterns = [_compiled(each) for each in rules.patterns]

    def __bool__(self) -> bool:
        return bool(self.rules)

    def text(self, text: str) -> str:
        """Return a text without what patterns match."""
        return self._text(text, _Patience(self._clock))

    def headers(self, headers: Mapping[str, Any]) -> dict[str, Any]:
        """Return headers, with their names and without the values that are hidden."""
        return self._headers(headers, _Patience(self._clock))

    def body(self, body: bytes) -> bytes:
        """Return a body without what is hidden; one without anything to hide is returned as it is, byte for byte."""
        return self._body(body, _Patience(self._clock))

    def changes(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of a difference between bodies or headers.

        A line of a difference does not say which place of a body it is from. So all of them are hidden, but for their
        signs, if there are rules for places or for headers.
        """
        return self._changes(lines, _Patience(self._clock))

    def view(self, view: Any) -> Any:  # noqa: ANN401 - whatever a view has
        """Return a view without what is hidden: in its bodies, its headers and all its texts."""
        return self._view(view, _Patience(self._clock)) if self.rules else view

    async def shown(self, view: Any) -> Any:  # noqa: ANN401 - as view
        """Return a view as ``view`` does; other tasks go on meanwhile."""
        return await asyncio.to_thread(self.view, view) if self.rules.patterns else self.view(view)

    async def shown_body(self, body: bytes) -> bytes:
        """Return a body as ``body`` does; other tasks go on meanwhile."""
        return await asyncio.to_thread(self.body, body) if self.rules.patterns else self.body(body)

    def _text(self, text: str, patience: _Patience) -> str:
        data = text.encode(errors="surrogatepass")
        for pattern in self._patterns:
            data = _without(pattern, data, patience)
        return data.decode(errors="surrogatepass")

    def _headers(self, headers: Mapping[str, Any], patience: _Patience) -> dict[str, Any]:
        return {
            name: HIDDEN if self._is_hidden(name) else self._plain(value, patience) for name, value in headers.items()
        }

    def _body(self, body: bytes, patience: _Patience) -> bytes:
        if self._pointers and (shown := self._without_places(body)) is not None:
            body = shown
        if self._patterns:
            # every byte is a letter of Latin-1, so that a body which is no text is searched, too
            encoding = "utf-8" if _is_utf8(body) else "latin-1"
            body = self._text(body.decode(encoding), patience).encode(encoding)
        return body

    def _changes(self, lines: Sequence[str], patience: _Patience) -> list[str]:
        if self._pointers or self._names:
            return [f"{line[:1]} {HIDDEN}" if line[:1] in {"+", "-", " "} else line for line in lines]
        return [self._text(line, patience) for line in lines]

    def _view(self, view: Any, patience: _Patience) -> Any:  # noqa: ANN401 - as view
        if isinstance(view, dict):
            return self._object(view, patience)
        if isinstance(view, list | tuple):
            return [self._view(each, patience) for each in view]
        return self._plain(view, patience)

    def _object(self, view: View, patience: _Patience) -> View:
        shown: View = {}
        for name, value in view.items():
            if name == "headers" and isinstance(value, dict):
                shown[name] = self._headers(value, patience)
            elif name == "body" and isinstance(value, str):
                shown[name] = self._shown_body(value, view.get("body_encoding"), patience)
            elif name in _OWN_WORDS or name.endswith(_OWN_TIMES):
                shown[name] = value  # words and times of ours, which programs read: no message chooses them
            elif name == "changes" and isinstance(value, list):
                shown[name] = self._changes(value, patience)
            else:
                shown[name] = self._view(value, patience)
        return shown

    def _shown_body(self, text: str, encoding: object, patience: _Patience) -> str:
        if encoding == "base64":
            return base64.b64encode(self._body(base64.b64decode(text), patience)).decode()
        return self._body(text.encode(errors="surrogatepass"), patience).decode(errors="surrogatepass")

    def _plain(self, value: Any, patience: _Patience) -> Any:  # noqa: ANN401 - a text, or something without letters
        return self._text(value, patience) if isinstance(value, str) else value

    def _is_hidden(self, name: str) -> bool:
        return any(each.match(name.lower()) for each in self._names)

    def _without_places(self, body: bytes) -> bytes | None:
        """Return a JSON body without the values at some places; None: it is not JSON, or has none of them."""
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return None
        if not sum([_hide(value, keys) for keys in self._pointers]):
            return None
        return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def _without(pattern: Any, data: bytes, patience: _Patience) -> bytes:  # noqa: ANN401 - a pattern of RE2
    """Return a text without what a pattern matches; nothing of it, if searching takes too long."""
    kept: list[bytes] = []
    end = 0
    for found in pattern.finditer(data):
        kept += [data[end : found.start()], HIDDEN.encode()]
        end = found.end()
        if patience.is_over:
            return HIDDEN.encode()
    return HIDDEN.encode() if patience.is_over else b"".join([*kept, data[end:]])


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _keys(pointer: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def _hide(value: Any, keys: Sequence[str]) -> int:  # noqa: ANN401 - whatever JSON has
    """Hide what is at a place, and return how many values that were."""
    key, *rest = keys
    found: list[Any] = []
    if isinstance(value, dict):
        found = list(value) if key == "*" else [key] if key in value else []
    elif isinstance(value, list):
        is_there = key.isascii() and key.isdecimal() and int(key) < len(value)
        found = list(range(len(value))) if key == "*" else [int(key)] if is_there else []
    if rest:
        return sum([_hide(value[each], rest) for each in found])
    for each in found:
        value[each] = HIDDEN
    return len(found)
