# SPDX-License-Identifier: MIT
"""Failed messages as a download: lines of JSON, or a table. They are written while they are read, page by page."""

import csv
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import fields
from io import StringIO
from typing import Final

from redrive.access import Redaction
from redrive.recovery import FailedMessage, Filter, Reader, views

NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


async def ndjson_lines(reader: Reader, chosen: Filter, redaction: Redaction) -> AsyncIterator[str]:
    """Return a line for each failed message, with everything about it but what is hidden."""
    async for each in reader.export(chosen):
        yield json.dumps(await redaction.shown(views.detail_view(each)), ensure_ascii=False) + "\n"


async def csv_lines(reader: Reader, chosen: Filter, redaction: Redaction) -> AsyncIterator[str]:
    """Return the head of a table, and a line for each failed message."""
    yield csv_line([each.name for each in fields(FailedMessage)])
    async for page in reader.pages(chosen):
        shown = await redaction.shown(views.records_view(page))
        yield "".join(csv_line(list(each.values())) for each in shown)


def csv_line(cells: list[object]) -> str:
    """Return a line of a table. A cell that a spreadsheet would take for a formula begins with an apostrophe."""
    line = StringIO()
    csv.writer(line, lineterminator="\r\n").writerow([_cell(each) for each in cells])
    return line.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value


EXPORTS: Final[Mapping[str, tuple[str, Callable[[Reader, Filter, Redaction], AsyncIterator[str]]]]] = {
    "ndjson": (NDJSON, ndjson_lines),
    "csv": (f"{CSV}; charset=utf-8", csv_lines),
}
"""The media type of each format, and what writes it."""
