# SPDX-License-Identifier: MIT
"""How a message is changed before it is sent again, and the difference as text. Pure: no I/O, no clock, no randomness.

The changes are made in this order: the whole body, text in it, JSON values set, JSON values removed, headers removed,
headers set, subject, content type and reply-to, and last the function. Missing values and headers need no removing, and
missing text no replacing; every other change that cannot be made is refused with its reason.

Every number in a JSON body that is not set keeps its digits, every object its order, the body its encoding.
"""

import base64
import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from dataclasses import replace as with_changes
from typing import Any, Final, TypeAlias

from redrive.broker import Headers, HeaderValue, Message
from redrive.broker.headers import OWN_HEADERS
from redrive.broker.rules import LARGEST_MESSAGE_BYTES
from redrive.errors import InvalidMessage, InvalidSetting, TransformFailed
from redrive.recovery.json_body import HALF_PAIR, read_json, remove_values, with_value, write_json

Load: TypeAlias = Callable[[str], Callable[[Message], Message]]
"""Finds the function that is called ``package.module:function``."""

PROTECTED: Final = {
    "NServiceBus": tuple(
        f"NServiceBus.{name}Id" for name in ("Message", "Conversation", "Correlation", "OriginatingSaga")
    ),
    "MassTransit": ("MessageId", "ConversationId", "CorrelationId", "InitiatorId", "RequestId"),
    "Rebus": ("rbs2-msg-id", "rbs2-corr-id", "rbs2-in-reply-to"),
    "Celery": ("id", "root_id", "parent_id"),
    "CloudEvents": ("ce-id", "ce_id", "cloudEvents:id"),
}
"""The headers in which other frameworks keep a message's identity and correlation."""

_PROTECTED = {name.lower() for names in PROTECTED.values() for name in names}
_PROPERTIES = ("subject", "content_type", "reply_to")
_FUNCTION = r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*"
_POINTER = re.compile(r"(/([^~/]|~[01])*)*")
_MOST_LINES = 5_000

LARGEST_BODY: Final = 100 * LARGEST_MESSAGE_BYTES
"""The largest message of any queue."""

_LARGEST_TRANSFORM = 1_048_576
"""Without a whole new body: a transform is read again and again while its operation is under way."""

_LIGHT = 262_144
_LONGEST_REASON = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """How a message is changed. Without settings it changes nothing.

    Attributes:
        set_headers: headers that get a value, whether they are there or not.
        remove_headers: headers to remove.
        set_json: values in a JSON body, by JSON pointer (RFC 6901), shorter ones first. The object or list that holds
            the value must exist, the value itself need not; ``-`` is the place after the last item of a list.
        remove_json: JSON pointers to values to remove; indexes are those before any removal.
        replace: texts in a UTF-8 body, and their replacements.
        body: the whole new body.
        subject: the new subject; an empty text removes it, as for the next two.
        content_type: what the body is, as a MIME type.
        reply_to: the queue for answers.
        function: the name of a function that takes the message and returns a new one, as ``package.module:function``.
    """

    set_headers: Headers = field(default_factory=dict[str, HeaderValue])
    remove_headers: tuple[str, ...] = ()
    set_json: Mapping[str, object] = field(default_factory=dict[str, object])
    remove_json: tuple[str, ...] = ()
    replace: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    subject: str | None = None
    content_type: str | None = None
    reply_to: str | None = None
    function: str | None = None

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        for to_set, to_remove in (("set_headers", "remove_headers"), ("set_json", "remove_json")):
            both = set(getattr(self, to_set)).intersection(getattr(self, to_remove))
            if both:
                raise InvalidSetting(to_remove, min(both), f"is in {to_set} too: say one or the other")
        try:
            Message(b"", headers=self.set_headers, **{name: getattr(self, name) or None for name in _PROPERTIES})
        except InvalidMessage as error:
            raise InvalidSetting(error.field, error.value, error.allowed) from None
        self._check_size()

    def _check_size(self) -> None:
        if self.body is not None and len(self.body) > LARGEST_BODY:
            raise InvalidSetting("body", f"{len(self.body):,} bytes", f"must have {LARGEST_BODY:,} bytes at most")
        values = [_plain(getattr(self, each.name)) for each in fields(self) if each.name != "body"]
        if (size := len(json.dumps(values))) > _LARGEST_TRANSFORM:
            allowed = f"must have {_LARGEST_TRANSFORM:,} bytes at most as JSON, without the body; use a function"
            raise InvalidSetting("transform", f"{size:,} bytes", allowed)

    @property
    def is_nothing(self) -> bool:
        """Whether it changes nothing about any message."""
        return self == Transform()

    def apply(self, message: Message, load: Load | None = None) -> Message:
        """Return the changed message.

        Args:
            message: the message.
            load: finds the function by its name; required if there is one.

        Raises:
            TransformFailed: this message cannot be changed in this way; the error says why.
        """
        if self.function is not None and load is None:
            raise InvalidSetting("load", load, f"must be given, to find {self.function}")
        try:
            changed = self._without_function(message)
        except (InvalidMessage, MemoryError) as error:
            raise TransformFailed(_description(error)) from error
        if self.function is not None and load is not None:
            changed = _called(self.function, load, changed)
            check_identity(message, changed, self.function)
        if len(changed.body) > LARGEST_BODY:
            raise TransformFailed(_too_large(len(changed.body)))
        return changed

    def is_light(self, message: Message) -> bool:
        """Say whether it takes little time and memory, so that it can run in the service's own process."""
        if self.function is not None:
            return False
        if not (self.replace or self.set_json or self.remove_json):
            return True
        body = message.body if self.body is None else self.body
        growth = math.prod(max(1.0, len(new) / len(old)) for old, new in self.replace)
        steps = 1 + len(self.replace) + len(self.set_json) + len(self.remove_json)
        return len(body) * growth <= _LIGHT and (len(body) + 100) * steps <= 16 * _LIGHT

    def _without_function(self, message: Message) -> Message:
        headers = {name: value for name, value in message.headers.items() if name not in self.remove_headers}
        headers.update(self.set_headers)
        properties: dict[str, Any] = {name: getattr(self, name) for name in _PROPERTIES}
        properties = {name: value or None for name, value in properties.items() if value is not None}
        return with_changes(message, body=self._new_body(message.body), headers=headers, **properties)

    def _new_body(self, old: bytes) -> bytes:
        body = old if self.body is None else self.body
        if self.replace:
            body = _replaced(body, self.replace)
        if not self.set_json and not self.remove_json:
            return body
        try:
            return self._new_json(body)
        except RecursionError:
            raise TransformFailed("the body is JSON that is nested too deeply") from None

    def _new_json(self, body: bytes) -> bytes:
        document, encoding = read_json(body)
        before = write_json(document)
        for pointer, value in self.set_json.items():
            document = with_value(document, pointer, deepcopy(value))
        remove_values(document, self.remove_json)
        after = write_json(document)
        return body if after == before else after.encode(encoding)

    def to_json(self) -> dict[str, Any]:
        """Return the settings that it has, as JSON values; bytes are in base64."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _plain(value) for name, value in values.items() if value != getattr(Transform(), name)}

    @classmethod
    def from_json(cls, value: object) -> "Transform":
        """Return the transform that a JSON object describes; unknown keys are refused with ``InvalidSetting``."""
        if not isinstance(value, dict):
            raise InvalidSetting("transform", value, "must be an object")
        for name in value:
            if name not in _CHECKS:
                raise InvalidSetting("transform", name, f"is no key of a transform; there are {', '.join(_CHECKS)}")
        settings: dict[str, Any] = dict(value)
        try:
            if settings.get("body") is not None:
                settings["body"] = base64.b64decode(settings["body"], validate=True)
        except (TypeError, ValueError):
            raise InvalidSetting("body", settings["body"], "must be in base64") from None
        return cls(**settings)


def is_protected(header: str) -> bool:
    """Whether a header may not be changed, in whatever case it is written."""
    return header.lower().startswith(OWN_HEADERS) or header.lower() in _PROTECTED


def diff(before: Message, after: Message) -> list[str]:
    """Return the differences between two messages, in lines for people; none if they are equal."""
    lines: list[str] = []
    for each in fields(Message):
        old, new = getattr(before, each.name), getattr(after, each.name)
        if each.name not in ("body", "headers") and old != new:
            lines.append(f"{each.name}: {old!r} -> {new!r}")
    for name in dict.fromkeys((*before.headers, *after.headers)):
        there, still = name in before.headers, name in after.headers
        old, new = before.headers.get(name), after.headers.get(name)
        if not (there and still):
            lines.append(f"header {name!r} {'removed' if there else 'added'}: {old if there else new!r}")
        elif repr(old) != repr(new):  # 1 == True, but they are different values
            lines.append(f"header {name!r}: {old!r} -> {new!r}")
    return lines if before.body == after.body else [*lines, *_body_diff(before.body, after.body)]


def _body_diff(before: bytes, after: bytes) -> list[str]:
    sizes = f"{len(before):,} bytes -> {len(after):,} bytes"
    try:
        old, new = _pretty(before, after)
    except UnicodeDecodeError:
        return [f"body, which is not text: {sizes}"]
    if old == new:
        return [f"body, in its layout only: {sizes}"]
    if max(len(old), len(new)) > _MOST_LINES:  # comparing takes time in the square of the lines
        return [f"body, too long to compare: {sizes}"]
    return [f"body: {sizes}", *difflib.unified_diff(old, new, "before", "after", lineterm="")]


def _pretty(before: bytes, after: bytes) -> tuple[list[str], list[str]]:
    """Return both bodies in lines: as JSON, if both are JSON."""
    try:
        old, new = (write_json(read_json(body)[0], "\n") for body in (before, after))
    except (TransformFailed, RecursionError):
        old, new = before.decode(), after.decode()
    return old.splitlines(), new.splitlines()


def _called(name: str, load: Load, message: Message) -> Message:
    try:
        found = load(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an import may raise anything; it must only fail this message
        raise TransformFailed(f"{name} cannot be loaded: {_description(error)}") from error
    try:
        returned: object = found(message)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and GeneratorExit too: it must not end the process
        raise TransformFailed(f"{name} raised {_description(error)}") from error
    if not isinstance(returned, Message):
        raise TransformFailed(f"{name} returned {type(returned).__name__}, not a Message")
    return returned


def _description(error: BaseException) -> str:
    """Return an exception's type and text, shortened; the text may be very long, or raise."""
    kind = type(error).__name__
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - its __str__ raises
        return kind
    return f"{kind}: {said}"[:_LONGEST_REASON] if said else kind


def _too_large(size: int) -> str:
    return f"the body would have {size:,} bytes or more; no queue takes more than {LARGEST_BODY:,}"


def check_identity(before: Message, after: Message, function: str) -> None:
    """Refuse a message whose identity has changed.

    Raises:
        TransformFailed: its id has changed, or a header that identifies it.
    """
    if after.id != before.id:
        raise TransformFailed(f"{function} changed the id from {before.id!r} to {after.id!r}; it must stay")
    old, new = ({(name, repr(each.headers[name])) for name in each.headers} for each in (before, after))
    for name, _ in sorted(old ^ new):
        if is_protected(name):
            raise TransformFailed(f"{function} changed the header {name!r}; it must stay as it is")


def _replaced(body: bytes, texts: tuple[tuple[str, str], ...]) -> bytes:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise TransformFailed(f"no text can be replaced: the body is not in UTF-8, at byte {error.start:,}") from None
    for old, new in texts:
        size = len(text) + text.count(old) * (len(new) - len(old))  # known before anything is built
        if size > LARGEST_BODY:
            raise TransformFailed(_too_large(size))
        text = text.replace(old, new)
    return text.encode()


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return deepcopy(value)


def _check_names(name: str, value: object) -> tuple[str, ...]:
    names: list[Any] = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    for each in names:
        if not isinstance(each, str) or not each:
            raise InvalidSetting(name, each, "must be texts")
        if name.endswith("headers") and is_protected(each):
            raise InvalidSetting(name, each, "is Redrive's own, or identifies the message: it must stay as it is")
        if name.endswith("json") and not _POINTER.fullmatch(each):
            raise InvalidSetting(name, each, "must be JSON pointers such as /items/0/name, with ~0 for ~ and ~1 for /")
    return tuple(dict.fromkeys(names))


def _check_values(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidSetting(name, value, "must be values by their names")
    _check_names(name, [each for each in value if each != "" or name == "set_headers"])  # "" points to the whole body
    try:
        return {each: json.loads(json.dumps(value[each], allow_nan=False)) for each in sorted(value)}
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSetting(name, value, f"must have values that JSON has: {error}") from None


def _check_replace(name: str, value: object) -> tuple[tuple[str, str], ...]:
    pairs: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
    for each in pairs:
        texts = [text for text in each if isinstance(text, str)] if isinstance(each, list | tuple) else []
        if len(texts) != 2 or len(each) != 2 or not texts[0] or HALF_PAIR.search("".join(texts)):
            raise InvalidSetting(name, each, "must be pairs of texts: the old text and the new one")
    return tuple((old, new) for old, new in pairs)


def _optional(kind: type, allowed: str, shape: str = ".*") -> Callable[[str, object], object]:
    def check(name: str, value: object) -> object:
        is_one = isinstance(value, kind) and (not isinstance(value, str) or re.fullmatch(shape, value, re.DOTALL))
        if value is None or is_one:
            return value
        raise InvalidSetting(name, value, f"must be {allowed}, or None")

    return check


_CHECKS: dict[str, Callable[[str, object], object]] = {
    "set_headers": _check_values,
    "remove_headers": _check_names,
    "set_json": _check_values,
    "remove_json": _check_names,
    "replace": _check_replace,
    "body": _optional(bytes, "bytes"),
    "subject": _optional(str, "a text"),
    "content_type": _optional(str, "a text"),
    "reply_to": _optional(str, "a text"),
    "function": _optional(str, "the name of a function, such as shop.mending:add_currency", _FUNCTION),
}
