# SPDX-License-Identifier: MIT
"""Models of records, made from their dataclasses: what a view has, with the words of the docstring.

A view of a record has its fields (``record_view``), so its model need not be written down: it is made of the fields,
their types and the section *Attributes* of the docstring. A new field of a record is in the document at once.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import Field, create_model

from redrive.server.api.models import Instant, ViewModel

Word = Callable[[Any], str]

EXAMPLES: Final[Mapping[str, Any]] = {
    "actor": "ann (10.0.0.7)",
    "at": "2031-05-04T09:30:00+00:00",
    "attempts": 3,
    "count": 412,
    "destination": "lab",
    "exception_message": "the warehouse does not answer",
    "exception_type": "builtins.ConnectionError",
    "group": "3f2a9c4e5b6d7081",
    "message_id": "order-17",
    "message_type": "order.placed",
    "number": 17,
    "operation": 7,
    "pipeline": "reports",
    "queue": "orders",
    "reason": "the warehouse is back",
    "source": "error",
    "subject": "group:3f2a9c4e5b6d7081",
    "title": "ConnectionError in shop.orders.ship",
}
"""What a field of a record looks like, by its name."""

_ATTRIBUTE: Final = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)


def word_of(value: Enum) -> str:
    """Return what the views of recovery call a state."""
    return str(getattr(value, "word", value.value))


def lower_name(value: Enum) -> str:
    """Return what the views of pipelines call a state."""
    return value.name.lower()


@cache
def record_model(kind: type, name: str = "", word: Word = word_of, leave_out: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - a model
    """Return the model of a record.

    Args:
        kind: its dataclass.
        name: what the document calls it; empty: as the dataclass is called.
        word: what its views call a state.
        leave_out: fields that its views do not have.
    """
    said = _said(kind)
    shape: dict[str, Any] = {
        each: (model_type(hint, word), Field(description=said.get(each), examples=_examples(each, hint)))
        for each, hint in get_type_hints(kind).items()
        if each in {field.name for field in fields(kind)} and each not in leave_out
    }
    return create_model(name or kind.__name__, __base__=ViewModel, __doc__=_first_line(kind), **shape)


def model_type(hint: Any, word: Word = word_of) -> Any:  # noqa: ANN401, PLR0911 - types, and a line for each kind of them
    """Return the type that a view has where a record has this one."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(model_type(each, word) for each in arguments)]  # noqa: UP007 - they are known at run time only
    if origin is Literal:
        return hint
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, model_type(arguments[1], word)]  # type: ignore[misc]  # known at run time only
    if isinstance(origin, type) and issubclass(origin, Sequence):
        inner = {model_type(each, word) for each in arguments if each is not Ellipsis}
        return list[Union[tuple(inner)]]  # type: ignore[misc]  # noqa: UP007 - as above
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Literal[tuple(word(each) for each in hint)]
    if hint is datetime:
        return Instant
    return record_model(hint, word=word) if isinstance(hint, type) and is_dataclass(hint) else hint


def _examples(name: str, hint: Any) -> list[Any] | None:  # noqa: ANN401 - a type
    if name not in EXAMPLES or get_origin(hint) not in (None, Union, UnionType):
        return None
    wanted = {"str": str, "int": int}.get(str(getattr(hint, "__name__", "")), str)
    return [EXAMPLES[name]] if isinstance(EXAMPLES[name], wanted) else None


def _said(kind: type) -> dict[str, str]:
    text = inspect.getdoc(kind) or ""
    found = _ATTRIBUTE.findall(text.partition("Attributes:\n")[2])
    return {name: _sentence(" ".join(said.split())) for name, said in found}


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
