# SPDX-License-Identifier: MIT
"""Recognises failures that are alike by the text of their properties, without decoding it. Pure: no I/O, no clock.

What a failure says is read in ``failure_formats``, and ``alike_failures`` finds out what it shares with others. Here is
a memory of texts: where two are equal but for the message's own headers, the time, what the exception said, and the end
of the trace, which repeats that, the failures are alike, and what was found for the first holds for the second. Nothing
here knows what a header means. A text that is not recognised is decoded and read as any other message is.

The text is JSON as engines store it. In JSON, a quotation mark inside of a text has a backslash before it. So a comma
and a quotation mark, followed by the beginning of a name, are the end of one header and the beginning of the next.
"""

from datetime import UTC, datetime
from functools import lru_cache
from json import JSONDecoder
from typing import Any, Final, NamedTuple

from redrive.broker import Message
from redrive.broker.headers import FAILED, FAILED_AT, FAILED_EXCEPTION_MESSAGE, FAILED_STACK_TRACE
from redrive.broker.port import StoredMessage, unsealed
from redrive.broker.rules import digest_of
from redrive.recovery.alike_failures import Alike
from redrive.recovery.arrivals import AlikeArrival, Arrival
from redrive.recovery.failure_formats import LONGEST_TEXT, LONGEST_TRACE, stored_text
from redrive.recovery.header_values import as_instant
from redrive.recovery.identity import exact_key, failure_id

_NEXT, _FIRST = f',"{FAILED}', f'{{"{FAILED}'
_AT, _SAID, _TRACE = (
    f'{name.removeprefix(FAILED)}":"' for name in (FAILED_AT, FAILED_EXCEPTION_MESSAGE, FAILED_STACK_TRACE)
)
_PLACES: Final = 8
"""With the message's own headers at 0, these three are at 2, 5 and 7, in the order in which a worker writes them."""

_NEWLINE, _ENDS = '\\n"', "}}"
_MOST_KNOWN: Final = 500
"""How many texts are remembered; a group of failures has a few."""

_MOST_TRACES: Final = 10
"""How many traces of failures that are equal in everything else; there is one, unless they are different in each."""

_decoded = JSONDecoder().raw_decode


@lru_cache(maxsize=256)
def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


_OpenArrival = unsealed(AlikeArrival)


class _Text(NamedTuple):
    """The text of a message's properties, divided.

    Attributes:
        key: what it has in common with the texts of failures that are alike, beside the trace.
        own: the properties without the headers of the failure, as a text.
        properties: the same, decoded.
        at: the header that says when it failed, and ``_AT`` before it.
        said: what the exception said, in JSON, and its name before it.
        trace: the trace up to what the exception said, in JSON, and its name before it.
        end: how many newlines follow what the exception said.
    """

    key: tuple[object, ...]
    own: str
    properties: dict[str, Any]
    at: str
    said: str
    trace: str
    end: int


class AlikeTexts:
    """A memory of the texts of failures that are alike."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], list[tuple[str, Alike]]] = {}
        self._many = 0

    def read(self, stored: StoredMessage, queue: str) -> AlikeArrival | None:
        """Return the failure of a message that is recognised; None: it has to be decoded.

        Args:
            stored: the message.
            queue: the queue it was found in.
        """
        text = _divided(stored, queue)
        if text is None:
            return None
        for trace, alike in self._known.get(text.key, ()):  # one or two: the key also says where it was raised
            if trace == text.trace:
                return _arrival(stored, queue, text, alike)
        return None

    def learn(self, stored: StoredMessage, arrival: Arrival) -> None:
        """Remember the text of a message that was decoded and read, if others may be alike.

        Args:
            stored: the message.
            arrival: what was read.
        """
        alike = arrival.alike
        text = None if alike is None or arrival.tag is not None else _divided(stored, arrival.source)
        if alike is None or text is None:
            return
        names = tuple([FAILED + each.partition('"')[0] for each in _pieces(stored.properties or "")[1:]])
        own = text.properties["headers"]
        if alike.names != names or list(arrival.message.headers.items()) != list(own.items()):
            return  # a header of the failure is among the message's own, or the other way round
        if _value(f'"{text.trace[len(_TRACE) :]}"') != alike.trace:
            return
        if self._many >= _MOST_KNOWN:
            self._known.clear()
            self._many = 0
        traces = self._known.setdefault(text.key, [])
        if len(traces) < _MOST_TRACES:
            self._many += 1
            traces.append((text.trace, alike))


def _pieces(properties: str, most: int = -1) -> list[str]:
    """Divide the text of properties: the message's own, and each header of the failure without what all begin with."""
    pieces = properties.split(_NEXT, most)
    if _FIRST in pieces[0]:  # it has no headers of its own
        own, _, first = pieces[0].partition(_FIRST)
        pieces[:1] = (own + "{", first)
    return pieces


def _divided(stored: StoredMessage, queue: str) -> _Text | None:
    """Divide the text of a message's properties; None if it is not as a worker writes it."""
    if stored.properties is None or stored.dead_letter is not None or not stored.id:
        return None
    pieces = _pieces(stored.properties, _PLACES)
    if len(pieces) < _PLACES:
        return None
    own, first, at, reason, kind, said, source, trace, *rest = pieces
    if not (at.startswith(_AT) and said.startswith(_SAID) and trace.startswith(_TRACE)):
        return None
    end, newlines = said[len(_SAID) :], 0
    if trace.endswith(_NEWLINE):
        end, newlines = end[:-1] + _NEWLINE, 1
    if not trace.endswith(end) or at[-1] != '"' or end[-1] != '"' or len(trace) > LONGEST_TRACE:
        return None
    own += _ENDS
    properties = _value(own)
    if type(properties) is not dict or type(headers := properties.get("headers")) is not dict or "ttl" in properties:
        return None
    key = (source, queue, properties.get("subject"), tuple(headers), first, reason, kind, *rest)
    return _Text(key, own, properties, at, said, trace[: -len(end)], newlines)


def _arrival(stored: StoredMessage, queue: str, text: _Text, alike: Alike) -> AlikeArrival | None:
    """Return the failure of a message, from what it shares with others and from its own values."""
    said, at = text.said[len(_SAID) : -1], text.at[len(_AT) : -1]
    if '"' in said or "\\" in said or not said.isprintable():  # otherwise it is what it says, as it mostly is
        said = _value(text.said[len(_SAID) - 1 :])
    if not said or "\n" in said or stored_text(said, LONGEST_TEXT) != said or "\\" in at:
        return None
    try:
        message = Message.stored(stored.body, stored.id, text.properties)
        enqueued_at = _instant(stored.enqueued_at)
    except (TypeError, ValueError, OverflowError):
        return None  # it is damaged, which is found out when all of it is decoded
    arrival = _OpenArrival()
    arrival.id = failure_id(alike.failure, message, digest_of(message.body))
    arrival.key = exact_key(queue, stored.sequence, enqueued_at)
    arrival.failed_at = as_instant(at) or enqueued_at
    arrival.message, arrival.source, arrival.alike = message, queue, alike
    arrival.properties = text.own if message.headers else None
    arrival.at, arrival.said, arrival.end = at, said, text.end
    arrival.__class__ = AlikeArrival
    return arrival  # type: ignore[no-any-return]  # now it is one


def _value(text: str) -> Any:  # noqa: ANN401 - whatever there is
    """Return what JSON says; None if it is none."""
    try:
        value, end = _decoded(text)
    except (ValueError, RecursionError):
        return None
    return value if end == len(text) else None
