# SPDX-License-Identifier: MIT
"""The command line: parse, call one facade, render."""

import sys

from redrive.errors import MissingExtra

__all__ = ["run"]


def run() -> None:
    """Run ``redrive``."""
    try:
        from redrive.cli.main import command_line
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"redrive: {MissingExtra('the command line', 'cli')}")
    command_line()()
