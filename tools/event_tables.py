# SPDX-License-Identifier: MIT
"""Writes the tables of events in docs/reference/telemetry.md, from the classes and their docstrings.

Run it after a change to the ``events.py`` of a layer: ``python -m tools.event_tables``. A test compares.
"""

import dataclasses
import importlib
import logging
import re
from pathlib import Path

from redrive.telemetry import Event

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "telemetry.md"
LAYERS = ("retry", "worker", "routes", "pipeline", "recovery")
_MORE = {"routes": ("redrive.routes.receivers.receiver_events", "redrive.routes.receivers.source_events")}


def events_of(layer: str) -> list[type[Event]]:
    """Return the events that a layer reports, in the order of their files."""
    modules = [importlib.import_module(name) for name in (f"redrive.{layer}.events", *_MORE.get(layer, ()))]
    return [each for module in modules for each in vars(module).values() if _is_reported(each, module.__name__)]


def _is_reported(value: object, module: str) -> bool:
    """Say whether something is an event of a module; what several events have in common has no name of its own."""
    return isinstance(value, type) and issubclass(value, Event) and value.__module__ == module and "name" in vars(value)


def meanings(event: type[Event]) -> dict[str, str]:
    """Return what each field of an event means, by its docstring or that of the class it has it from."""
    described = {name: text for owner in event.__mro__[::-1] for name, text in _attributes(owner).items()}
    return {each.name: described[each.name] for each in dataclasses.fields(event)}


def _attributes(owner: type) -> dict[str, str]:
    _, _, section = (owner.__doc__ or "").partition("Attributes:\n")
    found = re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).removesuffix(".") for name, text in found}


def tables(layer: str) -> str:
    """Return the tables of a layer: its events, and their fields."""
    events = events_of(layer)
    rows = [[f"`{each.__name__}`", f"`{each.name}`", _level(each), _codes(each.labels), _when(each)] for each in events]
    fields: dict[tuple[str, str], list[str]] = {}
    for event in events:
        for name, text in meanings(event).items():
            fields.setdefault((name, text), []).append(event.__name__)
    explained = [[f"`{name}`", _owners(owners, events), _marked(text)] for (name, text), owners in fields.items()]
    return (
        _table("event", "`name`", "level", "labels", "when", rows=rows)
        + "\n"
        + _table("field", "of", "meaning", rows=explained)
    )


def _level(event: type[Event]) -> str:
    return logging.getLevelName(event.level)


def _when(event: type[Event]) -> str:
    text, _, _ = (event.__doc__ or "").partition("\n\n")
    return _marked(" ".join(text.split()))


def _owners(owners: list[str], events: list[type[Event]]) -> str:
    return "all" if len(owners) == len(events) else _codes(owners)


def _codes(names: "list[str] | tuple[str, ...]") -> str:
    return ", ".join(f"`{each}`" for each in names)


def _marked(text: str) -> str:
    return re.sub(r"\bNone\b", "`None`", text.replace("``", "`"))


def _table(*heads: str, rows: list[list[str]]) -> str:
    lines = [list(heads), ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def with_tables(page: str) -> str:
    """Return the page with its tables between their marks."""
    for layer in LAYERS:
        begin, end = f"<!-- {layer}:begin -->", f"<!-- {layer}:end -->"
        written = f"{begin}\n\n{tables(layer)}\n{end}"
        page = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, text=written: text, page, flags=re.DOTALL)
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
