# SPDX-License-Identifier: MIT
"""Writes the table of endpoints in docs/reference/http-api.md, from what the modules of the API declare.

Run it after a change to one of them: ``python -m tools.api_tables``. A test compares.
"""

import inspect
import re
from itertools import groupby
from pathlib import Path
from typing import Any

from redrive.server.api import ROUTERS
from redrive.server.api.endpoint import PREFIX

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "http-api.md"
_REACH = {"queues": "its queues", "whole": "no", "nothing": "yes"}
_MARK = "endpoints"


def endpoints() -> list[Any]:
    """Return all endpoints, in the order in which they are declared."""
    return [route for router in ROUTERS for route in router.routes]


def table() -> str:
    """Return the table: a part for each tag, a line for each endpoint."""
    parts: list[str] = []
    for tag, found in groupby(sorted(endpoints(), key=lambda route: route.tags[0]), key=lambda route: route.tags[0]):
        rows = [_row(route) for route in found]
        heads = "| request | role | limited to queues | what it does |\n| --- | --- | --- | --- |"
        parts.append(f"### {str(tag).capitalize()}\n\n{heads}\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _row(route: Any) -> str:  # noqa: ANN401 - a route of FastAPI
    extra = route.openapi_extra
    path = route.path_format.removeprefix(PREFIX)
    said = (inspect.getdoc(route.endpoint) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    (method,) = route.methods
    return f"| `{method} {path}` | {extra['x-redrive-role']} | {_REACH[extra['x-redrive-reach']]} | {said} |"


def with_table(page: str) -> str:
    """Return the page with the table as it is now."""
    pattern = rf"(<!-- {_MARK}:begin -->\n).*?(<!-- {_MARK}:end -->)"
    return re.sub(pattern, lambda found: f"{found[1]}\n{table()}\n\n{found[2]}", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
