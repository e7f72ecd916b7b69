# SPDX-License-Identifier: MIT
"""Questions to the person at the terminal."""

import sys

import typer

from redrive.cli.output import console
from redrive.printable import one_line


def is_interactive() -> bool:
    """Say whether a person can answer."""
    return sys.stdin.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone.

    Args:
        question: what to ask.
        yes: whether the answer was given with the command.
    """
    if yes:
        return
    if not is_interactive():
        raise console.refusal("this needs a confirmation, and standard input is not a terminal: add --yes")
    typer.confirm(one_line(question), abort=True, err=True)
