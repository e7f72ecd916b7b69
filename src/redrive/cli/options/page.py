# SPDX-License-Identifier: MIT
"""Options of commands that list messages of a queue: how many, and from where on."""

from typing import Annotated

import typer

Max = Annotated[int, typer.Option("--max", "-n", metavar="N", min=1, max=10_000, help="How many at most.")]
Start = Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Begin with this number.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=10_000, help="How many at most.")]
