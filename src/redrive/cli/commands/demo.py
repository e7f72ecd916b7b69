# SPDX-License-Identifier: MIT
"""``redrive demo``: three of the layers at work, in the terminal."""

from typing import Annotated

import typer

from redrive.cli.demo import run_demo
from redrive.cli.output import console


def demo(
    *,
    fast: Annotated[bool, typer.Option("--fast", help="Do not wait between attempts.")] = False,
) -> None:
    """Watch three layers at work: retry, redelivery and recovery."""
    run_demo(console.out(markup=True), fast=fast)
