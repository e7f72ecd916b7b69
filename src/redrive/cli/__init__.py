# SPDX-License-Identifier: MIT
"""The command line: parse, call one facade, render."""

import sys

from redrive.errors import MissingExtra

__all__ = ["main"]


def main() -> None:
    """Run ``redrive``."""
    try:
        from redrive.cli.app import command_line
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"redrive: {MissingExtra('the command line', 'cli')}")
    command_line()()
