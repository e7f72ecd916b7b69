# SPDX-License-Identifier: MIT
r"""The rules of redaction in ``redrive.toml``, for the server and for the command line alike.

::

    [server.hide]
    headers = ["authorization", "x-*-token"]
    pointers = ["/card/number"]
    patterns = ["\b\d{16}\b"]
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from redrive import toml_lines
from redrive.access.redaction import RedactionRules
from redrive.errors import InvalidSetting, ServerFileError, UnknownSetting


def rules_of(table: Mapping[str, Any]) -> RedactionRules:
    """Return the rules of a table.

    Raises:
        UnknownSetting: there is no kind of rule of a name.
        InvalidSetting: a rule cannot be used.
    """
    known = tuple(each.name for each in fields(RedactionRules))
    for name in table:
        if name not in known:
            raise UnknownSetting("hide", name, known)
    return RedactionRules(**table)


def read_rules(path: Path) -> RedactionRules:
    """Return the rules of a file; without any, nothing is hidden.

    Raises:
        ServerFileError: it cannot be read, or a rule in it cannot be used.
    """
    try:
        tables, lines = toml_lines.parse(path.read_text(encoding="utf-8"))
    except toml_lines.NotToml as error:
        raise ServerFileError(path, error.line, f"this is not TOML: {error.problem}") from None
    except (OSError, UnicodeError) as error:
        raise ServerFileError(path, 1, f"it cannot be read: {error}") from None

    def fail(problem: str, *place: str) -> NoReturn:
        line, _ = toml_lines.nearest(lines, ("server", "hide", *place))
        raise ServerFileError(path, line, problem) from None

    server = tables.get("server", {})
    hide = server.get("hide", {}) if isinstance(server, dict) else {}
    if not isinstance(hide, dict):
        fail("must be a table: write [server.hide]")
    try:
        return rules_of(hide)
    except (InvalidSetting, UnknownSetting) as error:
        fail(str(error), error.setting)
