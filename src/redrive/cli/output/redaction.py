# SPDX-License-Identifier: MIT
"""What the command line hides of messages: by the same rules as the server, from the same file and database."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

import typer

from redrive.access import Redaction, RedactionRules
from redrive.access.redaction_file import read_rules
from redrive.cli.exit_status import status_of
from redrive.cli.output.error_text import error_text
from redrive.errors import ServerFileError

FILE_VARIABLE: Final = "REDRIVE_CONFIG"
_FILE: Final = "redrive.toml"


_stored = RedactionRules()


def also_hide(stored: RedactionRules) -> None:
    """Hide what a database says, too, until another one is opened."""
    global _stored  # noqa: PLW0603 - a command opens one database, and prints wherever it is
    _stored = stored


def redaction() -> Redaction:
    """Return what hides: by the rules of the file, and by those of the database that is open."""
    own = file_redaction()
    return _both(own.rules, _stored) if _stored else own


@lru_cache(maxsize=4)
def _both(own: RedactionRules, stored: RedactionRules) -> Redaction:
    return Redaction(own.and_also(stored))


def file_redaction() -> Redaction:
    """Return what hides: by the rules in $REDRIVE_CONFIG, or in redrive.toml in the current directory.

    Raises:
        Exit: the file cannot be used; nothing is shown then.
    """
    path = Path(os.environ.get(FILE_VARIABLE) or _FILE).absolute()
    if FILE_VARIABLE not in os.environ and not path.exists():
        return _NOTHING
    try:
        return _read(path, path.stat().st_mtime_ns if path.exists() else 0)
    except ServerFileError as error:
        typer.echo(f"error: {error_text(error)}", err=True)
        raise typer.Exit(int(status_of(error))) from None


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int) -> Redaction:
    return Redaction(read_rules(path))


_NOTHING: Final = Redaction(RedactionRules())
