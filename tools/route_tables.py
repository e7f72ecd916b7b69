# SPDX-License-Identifier: MIT
"""Writes the tables of settings in docs/reference/routes.md, from the classes of receivers, filters and senders.

Run it after a change to one of them: ``python -m tools.route_tables``. A test compares.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from redrive import routes
from redrive.broker import DurationSetting, FlagSetting, WholeSetting
from redrive.duration import LONGEST
from redrive.parts import DeclaredPart, ServerUrlSetting
from redrive.routes import EventReceiver, RoutePart, RouteSettings
from redrive.routes.kinds import class_of, kinds
from redrive.routes.parts import ChoiceSetting, ListSetting, TableSetting, TextSetting

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "routes.md"
GROUPS = ("receivers", "filters", "senders")
_WORDS = {
    "PathSetting": "a [JMESPath](#jmespath)",
    "FunctionSetting": "a function, or `package.module:function`",
    "EventBodySetting": "a text or JSON values",
    "ShareSetting": "a number from 0 to 1",
    "CallableSetting": "a function, or `package.module:function`",
    "ErrorTypeSetting": "a class of exceptions, or `package.module:Error`",
    "MailAddressSetting": "an address, such as `reports@example.org`",
    "NameTemplateSetting": "a [name with places](transports.md#names)",
    "SecretSetting": "`env:NAME`",
    "UrlTemplateSetting": "a URL, which may have [places](transports.md#names)",
}
_HEADS = ("setting", "default", "allowed", "meaning")


def own_kinds(group: str) -> dict[str, type[RoutePart]]:
    """Return the classes of Redrive's own receivers, filters or senders, by their kinds."""
    found = {kind: class_of(group, kind) for kind in kinds(group)}
    return {kind: part for kind, part in found.items() if part.__module__.startswith("redrive.")}


def python_name(part: type[RoutePart]) -> str:
    """Return what a class is called in ``redrive.routes``."""
    return next(name for name in routes.__all__ if getattr(routes, name) is part)


def allowed(kind: object) -> str:
    """Return what a setting may be.

    Raises:
        KeyError: it is of a kind that is not known here.
    """
    return next((say(kind) for of, say in _SAID.items() if isinstance(kind, of)), "") or _WORDS[type(kind).__name__]


_SAID: dict[type, Callable[[Any], str]] = {
    ServerUrlSetting: lambda kind: f"`{kind.schemes[0]}://…`, or `env:NAME`",
    ListSetting: lambda kind: f"a list; each: {allowed(kind.each)}",
    TableSetting: lambda kind: f"values by their names; each: {allowed(kind.each)}",
    ChoiceSetting: lambda kind: ", ".join(f"`{word}`" for word in kind.words),
    WholeSetting: lambda kind: f"{kind.low:,} to {kind.high:,}",
    DurationSetting: lambda kind: "a time" + ("" if kind.longest == LONGEST else f", up to {_seconds(kind.longest)}"),
    FlagSetting: lambda _: "`True`, `False`",
    TextSetting: lambda kind: _escaped(kind.allowed.removeprefix("must be ")),
}


def settings_table(fields: "Iterable[dataclasses.Field[Any]]") -> str:
    """Return the table of some settings."""
    rows = [
        [f"`{each.name}`", _default(each), allowed(each.metadata["kind"]), _escaped(each.metadata["help"])]
        for each in fields
    ]
    lines = [list(_HEADS), ["---"] * len(_HEADS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tables() -> dict[str, str]:
    """Return what stands between the marks, by the names of the marks."""
    written = {"route": settings_table(dataclasses.fields(RouteSettings))}
    written["receiver"] = settings_table(dataclasses.fields(EventReceiver))
    return written | {group: "\n".join(map(_section, own_kinds(group).values())) for group in GROUPS}


def _section(part: type[RoutePart]) -> str:
    shared = {each.name for each in dataclasses.fields(EventReceiver)} if issubclass(part, EventReceiver) else set()
    own = [each for each in dataclasses.fields(part) if each.name not in shared]
    name = python_name(part)
    title = f"### `{name}`" + ("" if name == part.kind else f", in files `{part.kind}`")
    return f"{title}\n\n{said(part)}\n\n{settings_table(own)}"


def said(part: type[DeclaredPart]) -> str:
    """Return the docstring of a class as text of a page; examples in it are left out."""
    text = re.sub(r"::\n(\n {4}.*)+", ".", inspect.cleandoc(part.__doc__ or ""))
    paragraphs = text.replace("``", "`").split("\n\n")
    return "\n\n".join(fill(" ".join(each.split()), 158, break_on_hyphens=False) for each in paragraphs)


def _default(each: "dataclasses.Field[Any]") -> str:
    if each.default is dataclasses.MISSING:
        return "none: required"
    if isinstance(each.default, float) and isinstance(each.metadata["kind"], DurationSetting):
        return _seconds(each.default)
    if each.default == ():
        return "none"
    number = isinstance(each.default, int) and not isinstance(each.default, bool)
    return f"{each.default:,}" if number else f"`{each.default!r}`"


def _seconds(seconds: float) -> str:
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def with_tables(page: str) -> str:
    """Return the page with its tables between their marks."""
    for mark, written in tables().items():
        begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n\n{written}\n{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
