# SPDX-License-Identifier: MIT
"""Pipelines as JSON: what the command line prints and what an HTTP API returns. Pure: no I/O, no clock.

A view is made of texts, numbers, booleans, None, lists and dicts, as in ``redrive.broker.views``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from redrive.broker.views import View
from redrive.pipeline.infos import DestinationInfo
from redrive.pipeline.states import TaskState

if TYPE_CHECKING:
    from redrive.pipeline.pipelines import TaskDetail, Trace
    from redrive.pipeline.stored_plan import StoredPlan

__all__ = ["detail_view", "pipeline_view", "plan_view", "record_view", "trace_view"]


def record_view(record: object) -> View:
    """Return a task, a shipment, a slot, a destination, an entry of the history or a receipt."""
    if not is_dataclass(record):
        raise TypeError(f"{type(record).__name__} is no record")
    return {each.name: _plain(getattr(record, each.name)) for each in fields(record)}


def _plain(value: Any) -> Any:  # noqa: ANN401 - a field of any type
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


def detail_view(detail: "TaskDetail", trace: "Trace | None" = None) -> View:
    """Return a task with its shipments and its history, and where its items have come from and gone to."""
    found = {
        **record_view(detail.task),
        "shipments": [record_view(each) for each in detail.shipments],
        "history": [record_view(each) for each in detail.history],
    }
    return found if trace is None else {**found, "lineage": trace_view(trace)["steps"]}


def trace_view(trace: "Trace") -> View:
    """Return the steps of items, and the tasks of these steps."""
    return {
        "steps": [record_view(each) for each in trace.edges],
        "tasks": [record_view(each) for each in trace.tasks],
    }


def plan_view(plan: "StoredPlan") -> View:
    """Return what a pipeline is; functions are names, and secrets are hidden."""
    return {
        "name": plan.name,
        "version": plan.version,
        "settings": dict(plan.settings),
        "destinations": [
            {
                "name": each.name,
                "kind": each.kind,
                "transport": each.transport,
                "timing": each.rule or None,
                "settings": dict(each.settings),
            }
            for each in plan.destinations.values()
        ],
    }


def pipeline_view(
    plan: "StoredPlan",
    infos: Iterable[DestinationInfo],
    counts: Mapping[tuple[str, str, TaskState], int],
    next_slots: Mapping[str, datetime],
) -> View:
    """Return what a pipeline is, and how many tasks it has, by stage, destination and state.

    Args:
        plan: what it is.
        infos: what is stored of its destinations.
        counts: how many tasks there are.
        next_slots: the next slot of each destination that has slots.
    """
    found = {each.name: each for each in infos}
    view = plan_view(plan)
    for each in view["destinations"]:
        if each["name"] in found:
            each.update(record_view(found[each["name"]]), pipeline=plan.name)
        slot = next_slots.get(each["name"])
        each["next_slot"] = None if slot is None else slot.isoformat()
    tasks = [
        {"stage": stage, "destination": destination, "state": state.word, "count": number}
        for (stage, destination, state), number in sorted(counts.items())
    ]
    return {**view, "tasks": tasks}
