# SPDX-License-Identifier: MIT
"""Writes the tables of docs/reference/transports.md, from the classes of transports.

Run it after a change to one of them: ``python -m tools.transport_tables``. A test compares.
"""

import dataclasses
from pathlib import Path

from redrive.pipeline import Transport
from redrive.pipeline.transports import transport_class, transport_kinds
from tools.route_tables import said, settings_table

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "transports.md"
ABILITIES = {
    "call": ("if you say so: `deduplicates`", "with a function `probe`", "at least once", ""),
    "email": ("no", "no", "at least once", ""),
    "file": ("yes", "yes", "effectively once", ""),
    "http": ("if you say so: `deduplicates`", "with `probe_url`", "at least once", "`pipeline`"),
    "queue": ("yes", "not needed", "exactly once", ""),
    "s3": ("yes", "yes", "effectively once", "`s3`"),
    "sftp": ("yes", "yes", "effectively once", "`sftp`"),
    "topic": ("yes", "not needed", "exactly once", ""),
}
"""Whether a repetition is dropped, whether the destination can be asked, the guarantee without a setting, the extra."""

_HEADS = ("kind", "class", "drops a repetition", "can be asked", "guarantee", "extra")


def own_transports() -> dict[str, type[Transport]]:
    """Return the classes of Redrive's own transports, by their kinds."""
    found = {kind: transport_class(kind) for kind in transport_kinds()}
    return {kind: part for kind, part in found.items() if part.__module__.startswith("redrive.")}


def tables() -> dict[str, str]:
    """Return what stands between the marks, by the names of the marks."""
    rows = [[f"[`{kind}`](#{kind})", f"`{each.__name__}`", *ABILITIES[kind]] for kind, each in own_transports().items()]
    lines = [list(_HEADS), ["---"] * len(_HEADS), *rows]
    overview = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return {"overview": overview, "transports": "\n".join(map(_section, own_transports().values()))}


def _section(part: type[Transport]) -> str:
    title = f"### {part.kind}\n\n`{part.__name__}`. "
    return f"{title}{said(part)}\n\n{settings_table(dataclasses.fields(part))}"


def with_tables(page: str) -> str:
    """Return the page with its tables between their marks."""
    for mark, written in tables().items():
        begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n\n{written}\n{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
