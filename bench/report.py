"""Tables for the terminal and for the documentation, and the shape of the machine they were measured on."""

import os
import platform
import time
from pathlib import Path
from typing import NamedTuple

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


class Table(NamedTuple):
    """A title, and rows of text under headers."""

    title: str
    headers: list
    rows: list


def as_text(table):
    """Return a table for the terminal."""
    lines = [table.headers, *table.rows]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(cells))
        for cells in (list(zip(line, widths, strict=True)) for line in lines)
    ]
    return "\n".join([table.title, "-" * len(table.title), *(line.rstrip() for line in shown), ""])


def as_markdown(table):
    """Return a table for a page; our own rows stand out."""
    rows = [[f"**{cell}**" if row[0].startswith("redrive") else cell for cell in row] for row in table.rows]
    rule = ["---", *("---:" for _ in table.headers[1:])]
    lines = ["| " + " | ".join(cells) + " |" for cells in [table.headers, rule, *rows]]
    return "\n".join([f"### {table.title}", "", *lines, ""])


def write_between_marks(page, text):
    """Put a text between the marks of a page, in place of what is there."""
    path = Path(page)
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} needs the lines {BEGIN} and {END}, for the tables to go between them")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")


def machine():
    """Return what matters of the machine, and nothing that names it."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def _cpu():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else "unknown"
