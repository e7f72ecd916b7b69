# SPDX-License-Identifier: MIT
"""Pages of lists: how many at once, where the next one begins, and where that is said.

A list is a JSON array, as the command line prints it. If there may be more, the header ``Link`` has the address of the
next page (RFC 8288): ``</api/v1/failures?cursor=…>; rel="next"``.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeVar, cast
from urllib.parse import urlencode

from fastapi import Depends, Query, Request, Response

from redrive.server.api.cursors import Position, read_cursor, write_cursor

T = TypeVar("T")
P = TypeVar("P", int, str)

LARGEST_NUMBER: Final = 2**63 - 1
"""Numbers are stored in 64 bits."""

MOST: Final = 1_000
"""So many are in a page at most."""

Limit = Annotated[int, Query(ge=1, le=MOST, description="How many at most.")]
Cursor = Annotated[str, Query(max_length=3_000, description="Where the page begins: from Link of the page before.")]

After = Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="Begin after this number.")]
Before = Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="Begin before this number; 0: with the newest.")]

PAGED: Final[dict[int | str, Any]] = {
    200: {
        "headers": {
            "Link": {
                "description": 'The address of the next page, as <…>; rel="next". Without it, this is the last one.',
                "schema": {"type": "string"},
            }
        }
    }
}
"""What the document says about a list with pages."""


LOOKED_UNTIL: Final = "Redrive-Looked-Until"
"""The header of a search that was ended: how far it got."""

SEARCHED: Final[dict[int | str, Any]] = {
    200: {
        "headers": {
            **PAGED[200]["headers"],
            "Redrive-Looked-Until": {
                "description": "A search for text ended here; what comes after this place was not looked at yet.",
                "schema": {"type": "string"},
                "example": "2026-11-01T10:00:00Z/17",
            },
        }
    }
}
"""What the document says about a list that may be the result of a search."""


class _Page:
    """One page of a list.

    Attributes:
        limit: how many at most.
    """

    def __init__(self, request: Request, response: Response, limit: int, cursor: str) -> None:
        self.limit = limit
        self._request, self._response, self._cursor = request, response, cursor
        self._asked = [
            (name, value) for name, value in request.query_params.multi_items() if name not in ("cursor", "limit")
        ]
        self._question = f"{request.url.path}?{urlencode(sorted(self._asked), errors='surrogatepass')}"

    def after(self, otherwise: P) -> P:
        """Return the position that the page begins after.

        Args:
            otherwise: the position of a first page, which says what a position in this list is.
        """
        if not self._cursor:
            return otherwise
        return cast("P", read_cursor(self._question, self._cursor, type(otherwise)))

    def of(self, found: Sequence[T], position: Position | None) -> Sequence[T]:
        """Return a page, and say where the next one is if this one is full.

        Args:
            found: what is in it.
            position: the last place of it.
        """
        if position is not None and len(found) >= self.limit:
            self.goes_on(position)
        return found

    def goes_on(self, position: Position, *, looked_until: bool = False) -> None:
        """Say that there may be more after a position.

        Args:
            position: the position.
            looked_until: whether that is so because a search was ended.
        """
        if looked_until:
            self._response.headers[LOOKED_UNTIL] = str(position)
        query = [*self._asked, ("limit", str(self.limit)), ("cursor", write_cursor(self._question, position))]
        path = self._request.url.path
        self._response.headers["link"] = f'<{path}?{urlencode(query, errors="surrogatepass")}>; rel="next"'


async def _page(request: Request, response: Response, limit: Limit = 100, cursor: Cursor = "") -> _Page:
    return _Page(request, response, limit, cursor)


Page = Annotated[_Page, Depends(_page)]
"""The parameter ``page`` of an endpoint that returns a list."""


def first_page(request: Request, limit: int = 100) -> _Page:
    """Return the first page of a list, for code that asks an endpoint and needs no more of it."""
    return _Page(request, Response(), limit, "")
