# SPDX-License-Identifier: MIT
"""The command line: all commands under one name."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

import redrive
from redrive.cli.output import console
from redrive.remote import TOKEN_VARIABLE

SERVER_VARIABLE = "REDRIVE_SERVER"

_QUEUES, _ROUTES, _RECOVERY, _MORE = "Queues and messages", "Routes and pipelines", "Failed messages", "More"
_SERVER = "Server"


class _Place(NamedTuple):
    """Where a command or a group of commands is: in the help, and in the code."""

    panel: str
    module: str
    attribute: str = "app"


_PLACES = {
    "send": _Place(_QUEUES, "messages", "send"),
    "receive": _Place(_QUEUES, "messages", "receive"),
    "peek": _Place(_QUEUES, "messages", "peek"),
    "cancel": _Place(_QUEUES, "messages", "cancel"),
    "worker": _Place(_QUEUES, "worker", "worker"),
    "workers": _Place(_QUEUES, "workers", "workers"),
    "ingest": _Place(_RECOVERY, "ingest", "ingest"),
    "recover": _Place(_RECOVERY, "recover", "recover"),
    "edit": _Place(_RECOVERY, "recover", "edit"),
    "archive": _Place(_RECOVERY, "recover", "archive"),
    "restore": _Place(_RECOVERY, "recover", "restore"),
    "resolve": _Place(_RECOVERY, "recover", "resolve"),
    "history": _Place(_MORE, "history", "history"),
    "trace": _Place(_MORE, "trace", "trace"),
    "attention": _Place(_MORE, "attention", "attention"),
    "serve": _Place(_SERVER, "serve", "serve"),
    "demo": _Place(_MORE, "demo", "demo"),
    "queues": _Place(_QUEUES, "queues"),
    "topics": _Place(_QUEUES, "topics"),
    "dead": _Place(_QUEUES, "dead"),
    "routes": _Place(_ROUTES, "routes"),
    "pipeline": _Place(_ROUTES, "pipeline"),
    "failed": _Place(_RECOVERY, "failed"),
    "operations": _Place(_RECOVERY, "operations"),
    "redirects": _Place(_RECOVERY, "redirects"),
    "policies": _Place(_MORE, "policies"),
    "tokens": _Place(_SERVER, "tokens"),
    "users": _Place(_SERVER, "users"),
    "redactions": _Place(_SERVER, "redactions"),
    "webhooks": _Place(_SERVER, "webhooks"),
}


class _Commands(Mapping[str, Any]):
    """The commands by name. Each is imported when it is asked for: all of them take a second."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a command of the click that typer brings along
        if name not in self._made:
            self._made[name] = _made(name, _PLACES[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


def _made(name: str, place: _Place) -> Any:  # noqa: ANN401 - same
    """Import a command or a group, and return it as typer makes it."""
    found = getattr(import_module(f"redrive.cli.commands.{place.module}"), place.attribute)
    around = typer.Typer()
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name, rich_help_panel=place.panel)
    else:
        around.command(name, rich_help_panel=place.panel)(found)
    made = typer.main.get_group(around).commands[name]
    _hide_types(made)
    return made


class _Redrive(TyperGroup):
    """All commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands()  # type: ignore[assignment]  # nothing is added to them


app = typer.Typer(
    name="redrive",
    cls=_Redrive,
    help="Five layers of retry on one durable broker. Today: retries, durable queues, routes, pipelines, recovery.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def command_line() -> Any:  # noqa: ANN401 - same
    """Return the whole command line, as it is run."""
    whole = typer.main.get_command(app)
    _hide_types(whole, nested=False)
    return whole


def _hide_types(command: Any, *, nested: bool = True) -> None:  # noqa: ANN401 - same
    """Show flags and arguments without a type in the help: ``--yes <bool>`` would look as if it took a value."""
    help_option = command.get_help_option(typer.Context(command))
    for each in (*command.params, help_option):
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
        if each.param_type_name == "argument":
            each.display_type_rich = _no_type
    for each in getattr(command, "commands", {}).values() if nested else ():
        _hide_types(each)


def _no_type(ctx: object) -> None:
    """Show no type."""


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer's signature for a flag
    if wanted:
        console.say(f"redrive {redrive.__version__}")
        raise typer.Exit


def _through(server: str, command: Any) -> dict[str, Any]:  # noqa: ANN401 - same
    """Return defaults for a command and those below it that let them ask a server, where they would open a database."""
    commands = getattr(command, "commands", {})
    return {"url": server, **{name: _through(server, each) for name, each in commands.items()}}


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
        commands, name = getattr(context.command, "commands", {}), context.invoked_subcommand or ""
        context.default_map = {name: _through(server, commands[name])} if name in commands else {}
