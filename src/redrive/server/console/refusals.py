# SPDX-License-Identifier: MIT
"""What people see when something is refused, missing, taken or away: a sentence and what to do, never a traceback.

These pages have no frame, because they must be there when the database is not.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response

from redrive.broker.views import View
from redrive.http.listener import Packet
from redrive.server.console.browser_names import THEME
from redrive.server.console.subjects import link
from redrive.server.console.template_environment import Moment, render

_NOT_PAGES: Final = ("/api/", "/static/", "/metrics", "/live", "/ready")
_TITLES: Final = {
    400: "This cannot be done as it was asked",
    403: "You may not do this",
    404: "This is not here",
    405: "This cannot be opened",
    409: "Something else has it",
    410: "This is gone",
    413: "This is too large",
    422: "This cannot be done as it was asked",
    429: "Too many attempts",
    500: "An error in the server",
    503: "The database does not answer",
}
_NEVER: Final = Moment(datetime.fromtimestamp(0, UTC))


def is_for_page(scope: Packet) -> bool:
    """Say whether a request is that of a person who looks at pages, not that of a program."""
    path: str = scope.get("path", "")
    return not path.startswith(_NOT_PAGES) and "text/html" in Headers(scope=scope).get("accept", "")


def refusal_page(problem: View, scope: Packet, headers: Mapping[str, str]) -> Response:
    """Return the page about a problem; who has not signed in is sent to the form for that.

    Args:
        problem: the problem details.
        scope: the request.
        headers: more headers.
    """
    status: int = problem["status"]
    if status == HTTPStatus.UNAUTHORIZED:
        query = scope.get("query_string", b"").decode("latin-1")
        here = scope["path"] + (f"?{query}" if query else "")
        return RedirectResponse(link("/login", next=here if scope["method"] == "GET" else ""), HTTPStatus.SEE_OTHER)
    cookies = HTTPConnection(scope).cookies
    theme = cookies.get(THEME, "")
    context = {
        "problem": problem,
        "title": _TITLES.get(status, problem["title"]),
        "theme": theme if theme in ("light", "dark") else "",
        "is_away": status == HTTPStatus.SERVICE_UNAVAILABLE,
    }
    return HTMLResponse(render("refusal.html", context, _NEVER), status, headers=dict(headers))
