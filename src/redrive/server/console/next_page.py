# SPDX-License-Identifier: MIT
"""Pages of lists: where the next one is. Pure: no I/O, no clock."""

from starlette.responses import Response


def next_address(response: Response) -> str:
    """Return the address of the next page, as an endpoint has said it in ``Link``; empty if this is the last one."""
    return response.headers.get("link", "").partition(">")[0].removeprefix("<")
