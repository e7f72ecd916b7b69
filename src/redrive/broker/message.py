# SPDX-License-Identifier: MIT
"""Messages: what a program sends, and what it gets back. Pure: no I/O, no clock, no randomness."""

from collections.abc import Hashable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypedDict, Unpack

from redrive import duration
from redrive.broker.encode import Encodable, check_encodable, encoded
from redrive.broker.lifecycle import State
from redrive.errors import InvalidMessage, InvalidSetting

HeaderValue: TypeAlias = str | int | float | bool | None
Headers: TypeAlias = Mapping[str, HeaderValue]

_LONGEST_TEXT = 1_024
_MOST_BITS = 1_024
"""Of a whole number in a header: as large as a float may be. Python refuses to write much larger ones."""

_LEAST, _MOST = -(2**63), 2**63 - 1
"""Between these is nearly every whole number in a header: no closer look is needed."""

_TEXTS = ("content_type", "subject", "correlation_id", "reply_to", "to", "session_id")
_NO_TEXTS = (None,) * len(_TEXTS)


class MessageProperties(TypedDict, total=False):
    """What a message may have beside its body."""

    id: str | None
    content_type: str | None
    subject: str | None
    correlation_id: str | None
    reply_to: str | None
    to: str | None
    ttl: float | timedelta | None
    session_id: str | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send.

    Attributes:
        body: what it carries.
        id: names it, for tracing and duplicate detection; a message without one is given a random one when it is sent.
        content_type: what the body is, as a MIME type.
        subject: what it is about, such as the name of its type.
        correlation_id: what it answers or belongs to.
        reply_to: the queue for answers.
        to: whom it is meant for.
        ttl: seconds it is worth delivering; the queue's own limit counts if that is shorter.
        session_id: the ordered group it belongs to.
        headers: the application's own: texts, numbers, booleans and None, by name.
    """

    body: bytes
    _: KW_ONLY
    id: str | None = None
    content_type: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    to: str | None = None
    ttl: float | timedelta | None = None
    session_id: str | None = None
    headers: Headers = field(default_factory=dict[str, HeaderValue])

    def __post_init__(self) -> None:
        if not isinstance(self.body, bytes):
            raise InvalidMessage("body", type(self.body).__name__, f"must be bytes; {json_hint(self.body)}")
        if self.id is not None:
            check_text("id", self.id)
        texts = (self.content_type, self.subject, self.correlation_id, self.reply_to, self.to, self.session_id)
        if texts != _NO_TEXTS:  # mostly there are none, and this is made for every message
            for name, text in zip(_TEXTS, texts, strict=True):
                if text is not None:
                    check_text(name, text)
        if self.ttl is not None:
            try:
                object.__setattr__(self, "ttl", duration.seconds("ttl", self.ttl))
            except InvalidSetting as error:
                raise InvalidMessage(error.setting, error.value, error.allowed) from None
        if self.headers or type(self.headers) is not dict:
            check_headers(self.headers)

    @classmethod
    def of(cls, payload: "Message | Encodable", **properties: Unpack[MessageProperties]) -> "Message":
        """Return a message whose body is made of something, as ``send`` makes it: ``Message.of(order, id="o-1")``.

        Bytes are the body as it is and a text is UTF-8; JSON values, dataclasses, pydantic and msgspec models are JSON.

        Raises:
            InvalidMessage: it cannot be sent.
        """
        if isinstance(payload, Message):
            return replace(payload, **properties) if properties else payload
        body, content_type = encoded(payload)
        return cls(body, **(MessageProperties(content_type=content_type) | properties))

    @classmethod
    def plain(cls, body: bytes, message_id: str) -> "Message":
        """Return a message that is nothing but a body and an id, both of which were checked when it was sent."""
        message = _OpenMessage()
        message.body = body
        message.id = message_id
        message.content_type = message.subject = message.correlation_id = message.reply_to = message.to = None
        message.ttl = message.session_id = None
        message.headers = {}
        message.__class__ = cls
        return message  # type: ignore[no-any-return]  # now it is one

    @classmethod
    def stored(cls, body: bytes, message_id: str, properties: dict[str, Any]) -> "Message":
        """Return a message of what was stored when it was sent, and was checked then.

        Args:
            body: its body.
            message_id: its id.
            properties: whatever else there is, by name.
        """
        message = _OpenMessage()
        message.body = body
        message.id = message_id
        message.ttl = properties.pop("ttl", None)
        message.headers = properties.pop("headers", {})
        message.content_type = message.correlation_id = message.reply_to = message.to = message.session_id = None
        message.subject = properties.pop("subject", None)
        if properties:  # mostly there are only headers and a subject
            for name in _TEXTS:
                setattr(message, name, properties.pop(name, getattr(message, name)))
        if properties or type(message.headers) is not dict or type(body) is not bytes:
            raise TypeError("it has properties that no message has")
        message.__class__ = cls
        return message  # type: ignore[no-any-return]  # now it is one

    def relabelled(self, headers: Headers, message_id: str | None = None) -> "Message":
        """Return the same message with other headers, which are known to be good, and without a time to live.

        Args:
            headers: all its headers.
            message_id: its id; None: the one it has.
        """
        message = self._copy()
        if message_id is not None:
            message.id = message_id
        message.ttl = None
        message.headers = headers
        message.__class__ = Message
        return message  # type: ignore[no-any-return]  # now it is one

    def with_headers(self, headers: Headers) -> "Message":
        """Return the same message with other headers, which are known to be good."""
        message = self._copy()
        message.headers = headers
        message.__class__ = Message
        return message  # type: ignore[no-any-return]  # now it is one

    def with_id(self, message_id: str) -> "Message":
        """Return the same message with an id that is known to be good."""
        message = self._copy()
        message.id = message_id
        message.__class__ = Message
        return message  # type: ignore[no-any-return]  # now it is one

    def _copy(self) -> Any:  # noqa: ANN401 - a message whose fields can still be set
        """Return a copy to be changed. Nothing in it needs to be checked again."""
        message = _OpenMessage()
        message.body, message.id, message.ttl, message.headers = self.body, self.id, self.ttl, self.headers
        message.content_type, message.subject, message.reply_to = self.content_type, self.subject, self.reply_to
        message.correlation_id, message.to, message.session_id = self.correlation_id, self.to, self.session_id
        return message

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but a body and an id."""
        texts = (self.content_type, self.subject, self.correlation_id, self.reply_to, self.to, self.session_id)
        return texts == _NO_TEXTS and self.ttl is None and not self.headers

    @property
    def ttl_s(self) -> float | None:
        """The time to live in seconds."""
        return None if self.ttl is None else float(self.ttl)  # type: ignore[arg-type]  # __post_init__ made it a number


Payload: TypeAlias = Message | Encodable
"""What can be sent: a message, or just what its body is made of."""


def unsealed(kind: type) -> Any:  # noqa: ANN401 - a class whose instances are filled field by field
    """Return a class with the fields of a frozen one, to fill an instance and then to assign its ``__class__``.

    That makes the real thing in a third of the time that its constructor takes, and checks nothing.
    """
    return type(f"Unsealed{kind.__name__}", (), {"__slots__": kind.__slots__})  # type: ignore[attr-defined]


_OpenMessage = unsealed(Message)


@dataclass(frozen=True, slots=True)
class Lock:
    """The right to settle one message, for a while. A call that settles passes it; one that has ended is refused.

    Attributes:
        queue: where the message is.
        sequence: its sequence number there.
        token: what makes this lock different from every other on that message: a value of the engine's own, which is
            only compared.
    """

    queue: str
    sequence: int
    token: Hashable


@dataclass(frozen=True, slots=True)
class DeadLetterInfo:
    """Why a message is in a dead-letter queue.

    Attributes:
        reason: a word for programs, such as ``MaxDeliveryCountExceeded``.
        description: a sentence for people.
        source: the queue it came from.
    """

    reason: str
    description: str
    source: str


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it is in a queue.

    Attributes:
        message: what was sent.
        queue: where it is.
        sequence: its number there, never used twice; what is sent later has a higher one.
        state: what it is doing.
        enqueued_at: when it was sent.
        delivery_count: how often it has been locked, this time included.
        lock: the right to settle it; None if it was only looked at, or deleted as it was received.
        locked_until: when that right ends.
        due_at: when a scheduled message becomes available.
        expires_at: when it is no longer worth delivering.
        dead_letter_info: why it is in a dead-letter queue, if it is in one.
    """

    message: Message
    queue: str
    sequence: int
    state: State
    enqueued_at: datetime
    delivery_count: int
    lock: Lock | None = None
    locked_until: datetime | None = None
    due_at: datetime | None = None
    expires_at: datetime | None = None
    dead_letter_info: DeadLetterInfo | None = None

    @property
    def body(self) -> bytes:
        """What the message carries."""
        return self.message.body

    @property
    def id(self) -> str:
        """The message's id."""
        return self.message.id or ""

    @property
    def headers(self) -> Headers:
        """The application's headers."""
        return self.message.headers


def json_hint(payload: object) -> str:
    """Return how to make bytes of something."""
    if isinstance(payload, str):
        return "encode it: text.encode()"
    if isinstance(payload, bytearray | memoryview):
        return "copy it: bytes(data)"
    return "make it with Message.of(order), which sends JSON"


def check_headers(headers: Headers) -> None:
    """See that every header is something every engine can store."""
    if not isinstance(headers, Mapping):
        raise InvalidMessage("headers", type(headers).__name__, "must be a dict of names and values")
    for name, value in headers.items():
        kind = type(value)
        if kind is str:
            is_usual = value.isascii()  # type: ignore[union-attr]  # it is a text
        else:
            is_usual = kind is bool or value is None or (kind is int and _LEAST <= value <= _MOST)  # type: ignore[operator]
        if not (is_usual and type(name) is str and name and name.isascii()):  # nearly every header is usual
            _check_header(name, value)


def check_text(name: str, text: object) -> None:
    """See that a text is one that every engine can store."""
    if not isinstance(text, str) or not text or len(text) > _LONGEST_TEXT:
        raise InvalidMessage(name, text, f"must be a text of 1 to {_LONGEST_TEXT:,} characters")
    if "\0" in text:
        raise InvalidMessage(name, text, "must not have a NUL character: not every engine can store it")
    check_encodable(name, text)


def _check_header(name: object, value: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidMessage("headers", name, "names must be texts")
    check_encodable(f"the name of header {name!r}", name)
    if isinstance(value, str):
        check_encodable(f"header {name!r}", value)
    elif isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124 - NaN
        raise InvalidMessage(f"header {name!r}", value, "must be finite: JSON has no NaN or infinity")
    elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise InvalidMessage(
            f"header {name!r}", f"{value.bit_length():,} bits", f"must have {_MOST_BITS:,} bits at most"
        )
    elif value is not None and not isinstance(value, int | float | bool):
        raise InvalidMessage(f"header {name!r}", value, "must be a text, a number, a boolean or None")
