# SPDX-License-Identifier: MIT
"""The commands of ``redrive``."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from redrive import __version__
from redrive.cli import (
    dead,
    failed,
    ingesting,
    messages,
    operations,
    queues,
    recovering,
    redirects,
    screen,
    wording,
    working,
)
from redrive.cli.demo import run_demo
from redrive.cli.screen import AsJson
from redrive.errors import RedriveError
from redrive.printable import one_line
from redrive.retry import Backoff, Policies

app = typer.Typer(
    name="redrive",
    help="Five layers of retry on one durable broker. Today: retrying calls, durable queues, recovery in bulk.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
policies_app = typer.Typer(help="Look at named retry policies before a program uses them.", no_args_is_help=True)
app.add_typer(queues.app, name="queues")
app.command()(messages.send)
app.command()(messages.receive)
app.command()(messages.peek)
app.command()(messages.cancel)
app.add_typer(dead.app, name="dead")
app.command()(working.worker)
app.command()(ingesting.ingest)
app.add_typer(failed.app, name="failed")
app.command()(recovering.recover)
app.command()(recovering.edit)
app.command()(recovering.archive)
app.command()(recovering.restore)
app.command()(recovering.resolve)
app.add_typer(operations.app, name="operations")
app.add_typer(redirects.app, name="redirects")
app.add_typer(policies_app, name="policies")

PolicyFile = Annotated[Path, typer.Argument(help="A policy file, .toml or .xml.", show_default=False)]


def command_line() -> Any:  # noqa: ANN401 - a command of the click that typer brings along
    """Return the whole command line, as it is run."""
    whole = typer.main.get_command(app)
    _tidy(whole)
    return whole


def _tidy(command: Any) -> None:  # noqa: ANN401 - same
    """Let flags be shown without a type: ``--yes <bool>`` would look as if it took a value."""
    help_option = command.get_help_option(typer.Context(command))
    for each in (*command.params, help_option):
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    for each in getattr(command, "commands", {}).values():
        _tidy(each)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer's signature for a flag
    if wanted:
        screen.say(f"redrive {__version__}")
        raise typer.Exit


@app.callback()
def _redrive(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    *,
    fast: Annotated[bool, typer.Option("--fast", help="Do not wait between attempts.")] = False,
) -> None:
    """Watch calls being retried, messages being redelivered and failures being recovered, in a few seconds."""
    run_demo(screen.out(markup=True), fast=fast)


@policies_app.command("check")
def check_policies(file: PolicyFile, *, as_json: AsJson = False) -> None:
    """Say whether a policy file can be used; name the line and the fix if not."""
    policies = _load(file)
    if as_json:
        screen.print_json({"file": str(file), "default": policies.default, "policies": list(policies.names)})
    else:
        many = wording.count(len(policies.names), "policy")
        screen.say(f"{file}: {many}, default {policies.default!r}: good")


@policies_app.command("preview")
def preview_policies(
    file: PolicyFile,
    name: Annotated[str | None, typer.Argument(help="One policy; all of them by default.", show_default=False)] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show how long each policy waits: the shortest, the middle and the longest for every attempt."""
    policies = _load(file)
    try:
        chosen = {each: policies[each] for each in ([name] if name else policies.names)}
    except RedriveError as error:
        raise screen.failure(error) from None
    previews = {each: policy.preview() for each, policy in chosen.items() if isinstance(policy, Backoff)}
    if as_json:
        screen.print_json({each: [list(wait) for wait in preview.waits] for each, preview in previews.items()})
        return
    for each, policy in chosen.items():
        screen.out().print(Text.assemble((one_line(each), "bold"), f"  {one_line(repr(policy))}"))
        if each in previews:
            screen.print_table(_preview_table(previews[each].waits))
            screen.out().print(f"all waits together: at most {previews[each].worst:.3g} s\n")
        else:
            screen.out().print("waits as long as the server asks\n")


def _preview_table(waits: tuple[tuple[float, ...], ...]) -> Table:
    table = screen.table("after attempt", "shortest", "middle", "longest")
    for attempt, wait in enumerate(waits, start=1):
        table.add_row(str(attempt), *(f"{seconds:.3g} s" for seconds in wait))
    return table


def _load(file: Path) -> Policies:
    try:
        return Policies.load(file, reload_every=None)
    except RedriveError as error:
        raise screen.failure(error) from None
