# SPDX-License-Identifier: MIT
"""What is typed into the sheet: as a request, and as a command line."""

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Final

from redrive import duration
from redrive.broker.views import View
from redrive.errors import InvalidRequest
from redrive.history import DestinationHealth
from redrive.server.console.forms import Form

VERBS: Final = {"recover": "Recover", "archive": "Archive", "resolve": "Resolve", "restore": "Restore"}
_CONFIRMED_ABOVE: Final = 10_000
_CANARY_ABOVE: Final = 100
_CANARIES: Final = "5"
_LISTS: Final = ("set_headers", "remove_headers", "set_json", "remove_json", "replace")
_OPTIONS: Final = {
    "set_headers": "--set-header",
    "remove_headers": "--remove-header",
    "set_json": "--set-json",
    "remove_json": "--remove-json",
    "replace": "--replace",
}


def which(q: str, ids: Sequence[str]) -> dict[str, Any]:
    """Return which messages are meant: those that were ticked, or those that match a filter."""
    return {"ids": list(ids)} if ids else {"filter": q}


def first_values(dry: Mapping[str, Any]) -> dict[str, str]:
    """Return what the form begins with: canaries, if there are many messages."""
    return {"canary": _CANARIES if dry["free"] > _CANARY_ABOVE else "", "max_failures": "0", "patience": "5m"}


def must_confirm(total: int) -> bool:
    """Say whether the number has to be typed."""
    return total > _CONFIRMED_ABOVE


def is_confirmed(form: Form, total: int) -> bool:
    """Say whether the number was typed."""
    return form.whole("confirm") == total


def asked_of(kind: str, form: Form, zone: tzinfo) -> dict[str, Any]:
    """Return the request of the API that a form describes.

    Raises:
        InvalidRequest: a field cannot be read.
    """
    asked: dict[str, Any] = {
        **which(form.text("q"), form.all("id")),
        "kind": kind,
        "limit": form.whole("limit"),
        "reason": form.text("reason"),
    }
    if kind != "recover":
        return asked
    if (count := form.whole("canary")) is not None:
        patience = duration.parse("patience", form.text("patience", "5m"))
        asked["canary"] = {"count": count, "max_failures": form.whole("max_failures") or 0, "patience": patience}
    asked |= {"rate": form.number("rate"), "redirect": form.text("redirect") or None, "again": "again" in form}
    if at := form.text("at"):
        asked["at"] = _instant(at, zone)
    if transform := transform_of(form):
        asked["transform"] = transform
    return asked


def transform_of(form: Form) -> dict[str, Any]:
    """Return the transform that a form describes; empty if nothing is changed. A line is a change.

    Raises:
        InvalidRequest: a line cannot be read.
    """
    made: dict[str, Any] = {}
    for name in _LISTS:
        lines = [each.strip() for each in form.get(name, "").splitlines() if each.strip()]
        if not lines:
            continue
        if name.startswith("remove"):
            made[name] = lines
        elif name == "replace":
            made[name] = [list(_pair(name, each)) for each in lines]
        else:
            made[name] = {key: _value(value) for key, value in (_pair(name, each) for each in lines)}
    return made


def _pair(name: str, line: str) -> tuple[str, str]:
    left, equals, right = line.partition("=")
    if not left or not equals:
        raise InvalidRequest(name, f"{line!r}: write NAME=VALUE, one to a line")
    return (left, right) if name == "replace" else (left.strip(), right.strip())


def _value(text: str) -> Any:  # noqa: ANN401 - whatever JSON has
    """Return a value: a number, true, false or null as such, anything else as a text."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(found, str) else found


def _instant(text: str, zone: tzinfo) -> str:
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest("at", f"{text!r} is no time; write 2031-05-04T09:30") from None
    return (given if given.tzinfo is not None else given.replace(tzinfo=zone)).isoformat()


def command_line(kind: str, q: str, values: Mapping[str, str]) -> str:
    """Return the same request as a command line."""
    words = ["redrive", kind, q]
    for name, option in (("limit", "--limit"), ("canary", "--canary"), ("rate", "--rate"), ("redirect", "--to")):
        if (value := values.get(name, "").strip()) and (kind == "recover" or name == "limit"):
            words += [option, value]
    if kind == "recover":
        words += _more_words(values)
    if reason := values.get("reason", "").strip():
        words += ["--reason", reason]
    return shlex.join(words)


def _more_words(values: Mapping[str, str]) -> list[str]:
    words: list[str] = []
    if values.get("canary", "").strip():
        for name, option, usual in (("max_failures", "--max-failures", "0"), ("patience", "--patience", "5m")):
            if (value := values.get(name, "").strip()) not in ("", usual):
                words += [option, value]
    if at := values.get("at", "").strip():
        words += ["--at", at]
    words += ["--again"] if "again" in values else []
    for name, option in _OPTIONS.items():
        for line in values.get(name, "").splitlines():
            words += [option, line.strip()] if line.strip() else []
    return words


def destination_rows(
    dry: Mapping[str, Any], names: Sequence[str], health: Mapping[str, DestinationHealth]
) -> Sequence[View]:
    """Return where messages would go, and how it is doing there, in words."""
    rows: list[View] = []
    for name in names:
        failing = [each for each in dry["still_failing"] if each["destination"] == name]
        found = health.get(name)
        is_read = found is not None and found.is_read
        tone = "warn" if failing or not is_read else "ok"
        rows.append(
            {
                "queue": name,
                "count": dry["by_destination"][name],
                "tone": tone,
                "said": _health_words(found),
                "failing": failing,
            }
        )
    return rows


def _health_words(found: DestinationHealth | None) -> str:
    if found is None:
        return "there is no such queue"
    if not found.is_read:
        return "no worker reads it: what is sent waits there" + (f" · {found.ready:,} wait now" if found.ready else "")
    workers = "no worker" if not found.workers else "1 worker" if found.workers == 1 else f"{found.workers:,} workers"
    said = [f"{workers}, {found.completed_per_minute:,.0f} a minute"]
    if found.ready:
        said.append(f"{found.ready:,} wait")
    return " · ".join(said)
