# SPDX-License-Identifier: MIT
"""The command line: all commands under one name."""

from typing import Annotated, Any

import typer

from redrive import __version__
from redrive.cli.commands import (
    attention,
    dead,
    demo,
    failed,
    history,
    ingest,
    messages,
    operations,
    pipeline,
    policies,
    queues,
    recover,
    redirects,
    routes,
    serve,
    tokens,
    topics,
    trace,
    users,
    worker,
    workers,
)
from redrive.cli.output import console
from redrive.remote import TOKEN_VARIABLE

SERVER_VARIABLE = "REDRIVE_SERVER"

app = typer.Typer(
    name="redrive",
    help="Five layers of retry on one durable broker. Today: retries, durable queues, routes, pipelines, recovery.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_QUEUES, _ROUTES, _RECOVERY, _MORE = "Queues and messages", "Routes and pipelines", "Failed messages", "More"
_SERVER = "Server"
for _command in (messages.send, messages.receive, messages.peek, messages.cancel, worker.worker, workers.workers):
    app.command(rich_help_panel=_QUEUES)(_command)
app.add_typer(queues.app, name="queues", rich_help_panel=_QUEUES)
app.add_typer(topics.app, name="topics", rich_help_panel=_QUEUES)
app.add_typer(dead.app, name="dead", rich_help_panel=_QUEUES)
app.add_typer(routes.app, name="routes", rich_help_panel=_ROUTES)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=_ROUTES)
for _command in (ingest.ingest, recover.recover, recover.edit, recover.archive, recover.restore, recover.resolve):
    app.command(rich_help_panel=_RECOVERY)(_command)
app.add_typer(failed.app, name="failed", rich_help_panel=_RECOVERY)
app.add_typer(operations.app, name="operations", rich_help_panel=_RECOVERY)
app.add_typer(redirects.app, name="redirects", rich_help_panel=_RECOVERY)
app.command(rich_help_panel=_MORE)(history.history)
app.command(rich_help_panel=_MORE)(trace.trace)
app.command(rich_help_panel=_MORE)(attention.attention)
app.add_typer(policies.app, name="policies", rich_help_panel=_MORE)
app.command(rich_help_panel=_SERVER)(serve.serve)
app.add_typer(tokens.app, name="tokens", rich_help_panel=_SERVER)
app.add_typer(users.app, name="users", rich_help_panel=_SERVER)
app.command(rich_help_panel=_MORE)(demo.demo)


def command_line() -> Any:  # noqa: ANN401 - a command of the click that typer brings along
    """Return the whole command line, as it is run."""
    whole = typer.main.get_command(app)
    _hide_types(whole)
    return whole


def _hide_types(command: Any) -> None:  # noqa: ANN401 - same
    """Show flags and arguments without a type in the help: ``--yes <bool>`` would look as if it took a value."""
    help_option = command.get_help_option(typer.Context(command))
    for each in (*command.params, help_option):
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
        if each.param_type_name == "argument":
            each.display_type_rich = _no_type
    for each in getattr(command, "commands", {}).values():
        _hide_types(each)


def _no_type(ctx: object) -> None:
    """Show no type."""


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer's signature for a flag
    if wanted:
        console.say(f"redrive {__version__}")
        raise typer.Exit


def _through(server: str) -> dict[str, Any]:
    """Return defaults for all commands that let them ask a server, where they would open a database."""

    def below(command: Any) -> dict[str, Any]:  # noqa: ANN401 - as command_line
        commands = getattr(command, "commands", {})
        return {"url": server, **{name: below(each) for name, each in commands.items()}}

    return below(typer.main.get_command(app))


@app.callback()
def _redrive(
    context: typer.Context,
    *,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            envvar=SERVER_VARIABLE,
            help=f"Ask a server (redrive serve) instead of a database, with the token in ${TOKEN_VARIABLE}.",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    if server is not None:
        context.default_map = _through(server)
