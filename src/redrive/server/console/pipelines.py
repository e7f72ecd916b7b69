# SPDX-License-Identifier: MIT
"""``/pipelines``: how the pipelines do, one of them stage by stage, what of it is stuck, and its tasks."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from fastapi import Query, Response

from redrive.broker.views import View
from redrive.server.api.endpoint import Caller, Name
from redrive.server.api.pages import Page
from redrive.server.api.pipelines import (
    OfDestination,
    TaskName,
    get_pipeline,
    get_task,
    list_pipeline_history,
    list_pipelines,
    list_stuck,
    list_stuck_of_pipeline,
    list_tasks,
    trace_task,
)
from redrive.server.console.next_page import next_address
from redrive.server.console.pages import Pages
from redrive.server.console.subjects import named

pages = Pages()

STAGES: Final = ("process", "batch", "send")
"""The stages that have tasks: what is received is a task to be processed, at once."""
STATES: Final = ("waiting", "ready", "failed", "expired", "unknown")
WORDS: Final = {"ready": "running"}
"""What a state is called where it differs: a task that is ready is being done, or is next."""
TONES: Final = {"waiting": "info", "ready": "info", "done": "ok", "failed": "bad", "expired": "bad", "unknown": "warn"}
_LISTED: Final = 20

StateWords = Annotated[
    list[Literal["ready", "waiting", "done", "failed", "expired", "unknown", "cancelled"]] | None,
    Query(description="Only these; repeatable."),
]


@pages.get("/pipelines", "pipelines.read", "pipelines.html", topics=("pipelines",))
async def show_pipelines(caller: Caller) -> View:
    """Show how the pipelines do."""
    stuck = Counter(each["pipeline"] for each in await caller.ask(list_stuck, limit=1_000))
    found = await caller.ask(list_pipelines)
    return {"pipelines": [{**pipeline_row(each), "stuck": stuck[each["name"]]} for each in found], "states": STATES}


@pages.get("/pipelines/{name}", "pipelines.read", "pipeline_frame.html", topics=("pipelines", "pipeline:{name}"))
async def show_pipeline(caller: Caller, name: Name) -> View:
    """Show a pipeline: its stages, its destinations, and what was done last."""
    return {
        **await _shared(caller, name, "stages"),
        "states": STATES,
        "history": await caller.ask(list_pipeline_history, name=name, limit=_LISTED),
    }


@pages.get("/pipelines/{name}/stuck", "pipelines.read", "pipeline_frame.html", topics=("pipelines", "pipeline:{name}"))
async def show_stuck(caller: Caller, name: Name) -> View:
    """Show what of a pipeline should have been done by now, and what needs a person."""
    shared = await _shared(caller, name, "stuck")
    held = {each["name"]: each["reason"] for each in shared["pipeline"]["destinations"] if each.get("is_held")}
    return {**shared, "tasks": [task_row(each, held) for each in shared["stuck"]]}


@pages.get("/pipelines/{name}/tasks", "pipelines.read", "pipeline_frame.html", topics=("pipelines", "pipeline:{name}"))
async def show_tasks(  # noqa: PLR0917 - a page has what its address has
    caller: Caller,
    name: Name,
    page: Page,
    response: Response,
    destination: OfDestination = None,
    state: StateWords = None,
) -> View:
    """Show the tasks of a pipeline, the newest first."""
    found = await caller.ask(list_tasks, name=name, page=page, destination=destination, state=state)
    return {
        **await _shared(caller, name, "tasks"),
        "tasks": [task_row(each) for each in found],
        "destination": destination,
        "chosen": state or [],
        "more": next_address(response),
    }


@pages.get("/pipelines/{name}/tasks/{task}", "pipelines.read", "task.html", topics=("pipelines", "pipeline:{name}"))
async def show_task(caller: Caller, name: Name, task: TaskName) -> View:
    """Show a task: what its destination said of each shipment, its history, and where its items come from."""
    found = await caller.ask(get_task, task=task)
    trace = await caller.ask(trace_task, task=task)
    others = [task_row(each) for each in trace["tasks"] if each["id"] != task]
    shipments = Counter(each["state"] for each in found["shipments"])
    return {
        "pipeline": {"name": name, "page": named("/pipelines/{}", name)},
        "task": task_row(found),
        "shipments": found["shipments"],
        "history": found["history"],
        "others": others,
        "by_state": shipments,
        "actions": actions_of(found, shipments),
    }


async def _shared(caller: Caller, name: str, tab: str) -> View:
    """Return what all tabs of a pipeline have."""
    stuck = await caller.ask(list_stuck_of_pipeline, name=name, limit=1_000)
    row = pipeline_row(await caller.ask(get_pipeline, name=name))
    tabs = [
        ("stages", "Stages", row["page"], None),
        ("stuck", "Stuck", f"{row['page']}/stuck", len(stuck)),
        ("tasks", "Tasks", f"{row['page']}/tasks", row["total"]),
    ]
    return {"pipeline": row, "stuck": stuck, "tabs": tabs, "tab": tab}


# --- rows; pure


def pipeline_row(view: View) -> View:
    """Return a pipeline as pages show it: how many tasks each stage has in each state."""
    counts: Counter[tuple[str, str]] = Counter()
    by_destination: Counter[tuple[str, str]] = Counter()
    for each in view["tasks"]:
        counts[each["stage"], each["state"]] += each["count"]
        by_destination[each["destination"], each["state"]] += each["count"]
    stages = [
        {
            "name": stage,
            "counts": {state: counts[stage, state] for state in STATES},
            "done": counts[stage, "done"],
            "total": sum(number for (each, _), number in counts.items() if each == stage),
        }
        for stage in STAGES
    ]
    totals = {state: sum(counts[stage, state] for stage in STAGES) for state in (*STATES, "done")}
    destinations = [
        {**each, "counts": {state: by_destination[each["name"], state] for state in (*STATES, "done")}}
        for each in view["destinations"]
    ]
    return {
        **view,
        "page": named("/pipelines/{}", view["name"]),
        "received": stages[0]["total"],
        "stages": stages,
        "totals": totals,
        "total": sum(counts.values()),
        "destinations": destinations,
        "held": sum(bool(each.get("is_held")) for each in view["destinations"]),
    }


def task_row(task: View, held: dict[str, str] | None = None) -> View:
    """Return a task as pages show it, with a sentence on why it is where it is."""
    state: str = task["state"]
    return {
        **task,
        "word": WORDS.get(state, state),
        "tone": TONES.get(state, ""),
        "page": named(named("/pipelines/{}", task["pipeline"]) + "/tasks/{}", task["id"]),
        "why": _why(task, held or {}),
    }


def _why(task: View, held: dict[str, str]) -> str:
    if task["destination"] in held:
        reason = held[task["destination"]]
        return f"{task['destination']} is held" + (f": {reason}" if reason else "")
    if task["reason"]:
        return str(task["reason"])
    if task["state"] == "ready":
        return "it was due, and nothing has done it: does a process run the pipeline?"
    return "it waits for a slot that has not come" if task["state"] == "waiting" else ""


def actions_of(task: View, shipments: Counter[str]) -> Sequence[tuple[str, str, str]]:
    """Return what a person can do with a task: the verb, the words of its button, and which shipments it is about."""
    state, found = task["state"], list[tuple[str, str, str]]()
    if task["stage"] != "batch" and state not in ("ready", "waiting"):
        if task["stage"] == "process":
            found.append(("resend", "Process again", "all"))
        else:
            for which in ("failed", "unknown"):
                if shipments[which]:
                    found.append(("resend", f"Resend {shipments[which]} {which}", which))
            if sum(shipments.values()):
                found.append(("resend", "Resend all", "all"))
    if state in ("expired", "failed", "cancelled") and task["stage"] == "batch":
        found.append(("revive", "Revive the task", ""))
    if state not in ("done", "cancelled"):
        found.append(("cancel", "Cancel the task", ""))
    return found
