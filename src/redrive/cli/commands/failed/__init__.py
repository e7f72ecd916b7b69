# SPDX-License-Identifier: MIT
"""``redrive failed``: find failed messages, see why they failed, annotate, snooze and delete them."""

import typer

from redrive.cli.commands.failed import export, group_states, lists, notes, upkeep

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)
app.callback()(lists.failed)
app.command("list")(lists.list_failed)
for _command in (lists.show, lists.groups, lists.count, export.export, notes.note):
    app.command()(_command)
app.command("drop-note")(notes.drop_note)
for _command in (group_states.assign, group_states.snooze, group_states.wake):
    app.command()(_command)
for _command in (upkeep.aside, upkeep.reimport, upkeep.sweep, upkeep.check):
    app.command()(_command)
