# SPDX-License-Identifier: MIT
"""``redrive policies``: check a policy file, and see how long its policies wait."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from redrive.cli.options.connection import AsJson
from redrive.cli.output import console
from redrive.cli.output.sentences import count
from redrive.cli.output.table import print_table, table
from redrive.errors import RedriveError
from redrive.printable import one_line
from redrive.retry import Backoff, Policies

app = typer.Typer(help="Check a file of retry policies.", no_args_is_help=True)

PolicyFile = Annotated[Path, typer.Argument(help="A policy file, .toml or .xml.", show_default=False)]


@app.command()
def check(file: PolicyFile, *, as_json: AsJson = False) -> None:
    """Check whether a policy file is valid; if not, print the line and the fix."""
    policies = _load(file)
    if as_json:
        console.print_json({"file": str(file), "default": policies.default, "policies": list(policies.names)})
    else:
        number = count(len(policies.names), "policy")
        console.say(f"{file}: {number}, default {policies.default!r}: valid")


@app.command()
def preview(
    file: PolicyFile,
    name: Annotated[str | None, typer.Argument(help="One policy; all of them by default.", show_default=False)] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show how long each policy waits after each attempt: the shortest, the median and the longest wait."""
    policies = _load(file)
    try:
        chosen = {each: policies[each] for each in ([name] if name else policies.names)}
    except RedriveError as error:
        raise console.failure(error) from None
    previews = {each: policy.preview() for each, policy in chosen.items() if isinstance(policy, Backoff)}
    if as_json:
        console.print_json({each: [list(wait) for wait in preview.waits] for each, preview in previews.items()})
        return
    for each, policy in chosen.items():
        console.out().print(Text.assemble((one_line(each), "bold"), f"  {one_line(repr(policy))}"))
        if each in previews:
            print_table(_waits_table(previews[each].waits))
            console.out().print(f"all waits together: at most {previews[each].worst:.3g} s\n")
        else:
            console.out().print("waits as long as the server asks\n")


def _waits_table(waits: tuple[tuple[float, ...], ...]) -> Table:
    made = table("after attempt", "shortest", "median", "longest")
    for attempt, wait in enumerate(waits, start=1):
        made.add_row(str(attempt), *(f"{seconds:.3g} s" for seconds in wait))
    return made


def _load(file: Path) -> Policies:
    try:
        return Policies.load(file, reload_every=None)
    except RedriveError as error:
        raise console.failure(error) from None
