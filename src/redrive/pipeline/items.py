# SPDX-License-Identifier: MIT
"""What the functions of a pipeline get and return. Pure: no I/O, no clock, no randomness."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from redrive.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a sender submits.

    Attributes:
        body: its bytes.
        key: names it: a submission with the same key and body is accepted once.
        content_type: what the bytes are.
        headers: what the sender says of it, by names in lower case.
    """

    body: bytes
    key: str | None = None
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in a pipeline that is delivered, or not, by itself.

    Attributes:
        id: its id, which it keeps through all stages.
        body: its bytes.
        index: its place in the task that a function was given, counted from 1.
        parent_body: the body that it came with.
    """

    id: str
    body: bytes
    index: int
    parent_body: bytes | None = field(default=None, repr=False, compare=False)

    def with_body(self, body: bytes | str) -> "Item":
        """Return the same item with other bytes: translated for a destination, for instance."""
        return Item(self.id, _bytes(body), self.index, self.body if self.parent_body is None else self.parent_body)


@dataclass(frozen=True, slots=True)
class Report:
    """What a process function gets: the items of one submission.

    Attributes:
        task: the id of the task.
        items: the items.
        attempt: which attempt this is, counted from 1.
    """

    task: str
    items: tuple[Item, ...]
    attempt: int = 1

    @property
    def body(self) -> bytes:
        """The bytes of the only item."""
        if len(self.items) != 1:
            raise UsageError(f"this report has {len(self.items)} items; read each with report.items")
        return self.items[0].body


@dataclass(frozen=True, slots=True)
class Output:
    """What a process function yields: items for a destination.

    Attributes:
        destination: the name of the destination.
        items: items of the report, as they are or with other bytes.
    """

    destination: str
    items: Sequence[Item]

    def __post_init__(self) -> None:
        listed = [self.items] if isinstance(self.items, Item) else list(self.items)
        for item in listed:
            if not isinstance(item, Item):
                wrong = f"not {type(item).__name__}: item.with_body(bytes)"
                raise UsageError(f"the items of an output must be items of the report, {wrong}")
        object.__setattr__(self, "items", tuple(listed))


@dataclass(frozen=True, slots=True)
class Body:
    """What a merge function may return: one shipment, and which items are in it.

    Attributes:
        content: its bytes.
        items: the items that are in it; empty: all that were given.
        content_type: what the bytes are.
    """

    content: bytes | str
    items: Sequence[Item] = ()
    content_type: str | None = None


ReceiveFunction: TypeAlias = Callable[[Submission], Iterable[bytes | str]]
"""Checks a submission, and takes it apart into items; it raises ``SubmissionRefused`` for what it does not accept."""

ProcessFunction: TypeAlias = Callable[[Report], Any]
"""Returns or yields outputs; it may be async."""

MergeFunction: TypeAlias = Callable[[Sequence[Item]], Any]
"""Returns bytes, a text, a ``Body``, or several of these; it may be async."""


def bodies_of(returned: object) -> list[Body]:
    """Return what a merge function has returned as bodies."""
    if isinstance(returned, bytes | str):
        return [Body(returned)]
    if isinstance(returned, Body):
        return [returned]
    if isinstance(returned, Iterable):
        return [body for each in returned for body in bodies_of(each)]
    raise UsageError(f"a merge function must return bytes, a text or Body, not {type(returned).__name__}")


def _bytes(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if not isinstance(body, bytes):
        raise UsageError(f"the body of an item must be bytes or a text, not {type(body).__name__}")
    return body


def parts_of(returned: object) -> list[bytes]:
    """Return what a receive function has returned as the bodies of items."""
    if isinstance(returned, bytes | str):
        return [_bytes(returned)]
    if isinstance(returned, Iterable):
        return [_bytes(each) for each in returned]
    raise UsageError(f"a receive function must return the bodies of items, not {type(returned).__name__}")
