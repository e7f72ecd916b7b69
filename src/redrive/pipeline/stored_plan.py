# SPDX-License-Identifier: MIT
"""A pipeline as the store has it: its functions are names, and what is secret is hidden."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redrive.errors import RedriveError
from redrive.pipeline.cadence import Timing, timing_of
from redrive.pipeline.plan import PipelinePlan
from redrive.pipeline.transports import transport_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDestination:
    """A destination as the store has it.

    Attributes:
        name: its name.
        kind: which kind of transport reaches it.
        transport: the transport as people write it, without secrets.
        timing: when its slots are; None: everything is sent at once, or ``rule`` cannot be read here.
        rule: the timing in words; empty: everything is sent at once.
        settings: its other settings.
    """

    name: str
    kind: str
    transport: str
    timing: Timing | None
    rule: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A pipeline as the store has it.

    Attributes:
        name: its name.
        version: its version; 0: it is not stored.
        settings: what is set for the whole pipeline.
        destinations: its destinations, by their names.
    """

    name: str
    version: int
    settings: Mapping[str, Any]
    destinations: Mapping[str, StoredDestination]


def stored_plan(name: str, version: int, definition: str) -> StoredPlan:
    """Return what a stored definition says; what needs a package that is not installed here is a text only."""
    table = json.loads(definition)
    made = {key: _destination(key, value) for key, value in sorted(table["destinations"].items())}
    return StoredPlan(name=name, version=version, settings=table["pipeline"], destinations=made)


def shown_plan(plan: PipelinePlan) -> StoredPlan:
    """Return a pipeline of this program as the store would have it."""
    return stored_plan(plan.name, 0, plan.definition)


def _destination(name: str, table: Mapping[str, Any]) -> StoredDestination:
    kind = str(table["transport"].get("kind", ""))
    try:
        transport = str(transport_of(dict(table["transport"])))
    except RedriveError:  # made by another version, or a package with its kind is missing here
        transport = kind
    timing, rule = _timing(table.get("timing"))
    settings = {key: value for key, value in table.items() if key not in ("transport", "timing")}
    return StoredDestination(name=name, kind=kind, transport=transport, timing=timing, rule=rule, settings=settings)


def _timing(table: Mapping[str, Any] | None) -> tuple[Timing | None, str]:
    if table is None:
        return None, ""
    try:
        timing = timing_of(table)
    except RedriveError:  # the same
        return None, ", ".join(f"{key} = {value}" for key, value in table.items())
    return timing, str(timing)
