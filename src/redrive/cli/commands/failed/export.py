# SPDX-License-Identifier: MIT
"""``redrive failed export``: write failed messages to a file."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from redrive.cli.open import OpenRecovery, with_recovery
from redrive.cli.options.connection import RecoveryConnection
from redrive.cli.options.filter import FilterOptions
from redrive.cli.options.groups import grouped
from redrive.cli.options.sources import Sources
from redrive.cli.output import console, sentences
from redrive.cli.output.progress import progress_bar
from redrive.printable import one_line
from redrive.recovery import views


@grouped
def export(
    which: FilterOptions,
    sources: Sources,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of standard output.")
    ] = Path("-"),
    connection: RecoveryConnection,
) -> None:
    """Write failed messages as lines of JSON, each with all details.

    A line has the same as show --json: headers and body, attempts with stack
    traces, operations, notes. A body that is not text is in base64. The file,
    or some lines of it, can be given to --ids-from.

    Examples:
      redrive failed export --output failed.jsonl
      redrive failed export queue:orders | jq -r .message.body
    """
    is_stdout = str(output) == "-"

    async def write(opened: OpenRecovery) -> int:
        chosen = await which.chosen(opened)
        total = await opened.recovery.count(chosen)
        with progress_bar() as bar, _output_file(output) as file:
            task = bar.add_task("writing", total=total)
            async for each in opened.recovery.export(chosen):
                file.write(console.json_line(views.detail_view(each)) + "\n")
                bar.advance(task)
            return int(bar.tasks[task].completed)

    try:
        written = with_recovery(connection, write, sources, check=which.check)
    except OSError as error:
        raise console.refusal(one_line(f"{output} cannot be written: {error.strerror}")) from None
    if connection.as_json and not is_stdout:
        console.print_json({"exported": written, "output": str(output)})
    elif not is_stdout:
        console.say(f"wrote {sentences.count(written, 'failed message')} to {output}")


@contextmanager
def _output_file(output: Path) -> Generator[TextIO]:
    """Open a file for writing; it appears when it is complete, or not at all."""
    if str(output) == "-":
        yield sys.stdout
        return
    part = output.with_name(f"{output.name}.part")
    try:
        with part.open("w", encoding="utf-8", errors="backslashreplace") as file:
            yield file
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
