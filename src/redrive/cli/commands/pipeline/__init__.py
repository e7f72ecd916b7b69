# SPDX-License-Identifier: MIT
"""``redrive pipeline``: check and run pipelines, find what is stuck, and do again what failed."""

import typer

from redrive.cli.commands.pipeline import again, changes, inspection, lineage, lists, plans

__all__ = ["app"]

app = typer.Typer()
app.callback(invoke_without_command=True)(inspection.pipeline)
app.command("list")(inspection.list_pipelines)
for _command in (
    *(inspection.show, plans.check, plans.run, plans.submit),
    *(lists.tasks, lists.stuck, lists.slots, lineage.trace, lists.history),
    *(again.resend, again.revive, changes.resolve, changes.hold, changes.release, changes.cancel),
):
    app.command()(_command)
app.command("send-now")(changes.send_now)
