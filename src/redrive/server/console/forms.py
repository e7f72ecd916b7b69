# SPDX-License-Identifier: MIT
"""Forms of the pages: what was typed, the token of the session, and the key that makes pressing twice one request."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.requests import HTTPConnection

from redrive.errors import InvalidRequest
from redrive.server.api.endpoint import KnownCaller, called
from redrive.server.door import CSRF_HEADER

M = TypeVar("M", bound=BaseModel)

CSRF_FIELD: Final = "csrf"
KEY_FIELD: Final = "key"
_MOST_FIELDS: Final = 10_000


class Form(Mapping[str, str]):
    """What was typed into a form: each field once, the first of several; ``all`` returns all of them.

    Args:
        pairs: names and values.
    """

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._first: dict[str, str] = {}
        for name, value in pairs:
            self._first.setdefault(name, value.replace("\r\n", "\n"))

    def __getitem__(self, name: str) -> str:
        return self._first[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def all(self, name: str) -> list[str]:
        """Return every value of a field."""
        return [value for each, value in self._pairs if each == name]

    def text(self, name: str, otherwise: str = "") -> str:
        """Return a field without blanks around it; if it is empty or missing, something else."""
        return self.get(name, "").strip() or otherwise

    def whole(self, name: str) -> int | None:
        """Return a field as a whole number, with or without separators; None if it is empty.

        Raises:
            InvalidRequest: it is not one.
        """
        given = self.text(name)
        try:
            return int(given.replace(",", "")) if given else None
        except ValueError:
            raise InvalidRequest(name, f"{given!r} is no whole number") from None

    def number(self, name: str) -> float | None:
        """Return a field as a number; None if it is empty.

        Raises:
            InvalidRequest: it is not one.
        """
        given = self.text(name)
        try:
            return float(given.replace(",", "")) if given else None
        except ValueError:
            raise InvalidRequest(name, f"{given!r} is no number") from None

    @property
    def key(self) -> str | None:
        """The idempotency key of the form; None if it has none."""
        return self.text(KEY_FIELD) or None


async def form_of(request: Request) -> Form:
    """Return the form of a request.

    Raises:
        InvalidRequest: it has none.
    """
    try:
        body = (await request.body()).decode()
        pairs = parse_qsl(body, keep_blank_values=True, strict_parsing=bool(body), max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise InvalidRequest("body", "this is no form of a page") from None
    return Form(pairs)


async def _posted(request: Request) -> KnownCaller:
    """Return who sends a form; the form has the token of the session in a field, as it can send no header."""
    form = await form_of(request)
    request.state.form = form
    shown: HTTPConnection = request
    if CSRF_FIELD in form and CSRF_HEADER not in request.headers:
        given = (CSRF_HEADER.encode(), form[CSRF_FIELD].encode(errors="replace"))
        shown = HTTPConnection({**request.scope, "headers": [*request.scope["headers"], given]})
    return await called(request, shown)


Poster = Annotated[KnownCaller, Depends(_posted)]
"""Who sends a form: the parameter ``caller`` of every form."""


async def _form(caller: Poster) -> Form:
    form: Form = caller.request.state.form
    return form


Posted = Annotated[Form, Depends(_form)]
"""The form: a parameter beside ``caller``."""


def model_of(model: type[M], /, **given: Any) -> M:
    """Return a model of the API, made of what was typed.

    Raises:
        InvalidRequest: it is not valid; the sentence says why.
    """
    try:
        return model(**given)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidRequest(".".join(str(each) for each in first["loc"]), str(first["msg"])) from None
