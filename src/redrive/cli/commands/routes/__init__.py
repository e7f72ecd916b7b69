# SPDX-License-Identifier: MIT
"""``redrive routes``: check, add, run, control and try routes, and replay what failed."""

import typer

from redrive.cli.commands.routes import files, inspection, lifecycle, runner, trial

__all__ = ["app"]

app = typer.Typer()
app.callback(invoke_without_command=True)(inspection.routes)
app.command("list")(inspection.list_routes)
for _command in (inspection.show, files.check, files.add, runner.run):
    app.command()(_command)
app.command("test")(trial.try_event)
for _command in (
    *(trial.tap, lifecycle.pause, lifecycle.resume, lifecycle.drain, lifecycle.remove),
    *(inspection.dead, lifecycle.replay),
):
    app.command()(_command)
