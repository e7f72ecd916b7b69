# SPDX-License-Identifier: MIT
"""Changing pipelines: hold and release a destination, and do tasks again, one or all of a state; counts come first."""

from collections import Counter
from typing import Annotated, Final, Literal

from fastapi import Query

from redrive.broker.views import View
from redrive.errors import DestinationNotFound, InvalidRequest, TaskConflict, TaskNotFound
from redrive.server.api.endpoint import Caller, Name
from redrive.server.api.failure_models import ReasonAsked
from redrive.server.api.pages import first_page
from redrive.server.api.pipelines import (
    OfDestination,
    ResendAsked,
    ResolveAsked,
    TaskName,
    cancel_task,
    get_pipeline,
    get_task,
    hold_destination,
    list_tasks,
    release_destination,
    resend_task,
    resolve_task,
    revive_task,
    send_destination_now,
)
from redrive.server.console.forms import Form, Posted, Poster, model_of
from redrive.server.console.pages import Pages, Reply
from redrive.server.console.pipelines import pipeline_row, task_row
from redrive.server.console.subjects import named

pages = Pages()

AT_ONCE: Final = 1_000
"""So many tasks are changed by pressing once; the page says so where there are more."""

_STATES: Final = {"resend-failed": "failed", "resend-unknown": "unknown", "revive": "expired"}

Verb = Annotated[Literal["resend-failed", "resend-unknown", "revive"], Query(description="What is done.")]


# --- destinations


@pages.get("/pipelines/{name}/hold", "pipelines.read", "pipeline_hold.html", topics=())
async def ask_hold(caller: Caller, name: Name, destination: Annotated[str, Query(max_length=300)]) -> View:
    """Say what holding a destination does."""
    return await _destination(caller, name, destination)


async def _destination(caller: Caller, name: str, destination: str) -> View:
    row = pipeline_row(await caller.ask(get_pipeline, name=name))
    found = [each for each in row["destinations"] if each["name"] == destination]
    if not found:
        raise DestinationNotFound(name, destination, tuple(each["name"] for each in row["destinations"]))
    return {"pipeline": row, "destination": found[0]}


@pages.post("/pipelines/{name}/hold", "pipelines.change")
async def hold(caller: Poster, form: Posted, name: Name) -> str:
    """Hold a destination."""
    await caller.ask(hold_destination, name=name, destination=form.text("destination"), asked=_reason(form))
    return named("/pipelines/{}", name)


@pages.post("/pipelines/{name}/release", "pipelines.change")
async def release(caller: Poster, form: Posted, name: Name) -> str:
    """Release a destination."""
    await caller.ask(release_destination, name=name, destination=form.text("destination"), asked=_reason(form))
    return named("/pipelines/{}", name)


@pages.get("/pipelines/{name}/send-now", "pipelines.read", "pipeline_send_now.html", topics=())
async def ask_send_now(caller: Caller, name: Name, destination: Annotated[str, Query(max_length=300)]) -> View:
    """Say what would be sent to a destination now."""
    return await _destination(caller, name, destination)


@pages.post("/pipelines/{name}/send-now", "pipelines.change")
async def send_now(caller: Poster, form: Posted, name: Name) -> str:
    """Let what waits for a slot of a destination be sent now."""
    destination = form.text("destination")
    await caller.ask(send_destination_now, name=name, destination=destination, asked=_reason(form), key=form.key)
    return named("/pipelines/{}", name)


# --- one task


@pages.post("/pipelines/{name}/tasks/{task}/resend", "pipelines.change")
async def resend(caller: Poster, form: Posted, name: Name, task: TaskName) -> str:
    """Send a task again, or what of it failed or is unknown."""
    which, again = form.text("which", "failed"), form.text("again") == "yes"
    asked = model_of(ResendAsked, items=which, again=again, reason=form.text("reason"))
    await caller.ask(resend_task, task=task, asked=asked, key=form.key)
    return _task_page(name, task)


@pages.post("/pipelines/{name}/tasks/{task}/revive", "pipelines.change")
async def revive(caller: Poster, form: Posted, name: Name, task: TaskName) -> str:
    """Let a task wait for the next slot."""
    await caller.ask(revive_task, task=task, asked=_reason(form), key=form.key)
    return _task_page(name, task)


@pages.post("/pipelines/{name}/tasks/{task}/resolve", "pipelines.change")
async def resolve(caller: Poster, form: Posted, name: Name, task: TaskName) -> str:
    """Say whether shipments with an unknown outcome have arrived."""
    found = await caller.ask(get_task, task=task)
    items = [each["index"] for each in found["shipments"] if each["state"] == "unknown"]
    asked = model_of(ResolveAsked, items=items, arrived=form.text("arrived") == "yes", reason=form.text("reason"))
    await caller.ask(resolve_task, task=task, asked=asked, key=form.key)
    return _task_page(name, task)


@pages.post("/pipelines/{name}/tasks/{task}/cancel", "pipelines.change")
async def cancel(caller: Poster, form: Posted, name: Name, task: TaskName) -> str:
    """Let nothing more be done with a task."""
    await caller.ask(cancel_task, task=task, asked=_reason(form))
    return _task_page(name, task)


# --- all tasks of a state


@pages.get("/pipelines/{name}/again", "pipelines.read", "pipeline_again.html", topics=())
async def ask_again(
    caller: Caller, name: Name, verb: Verb = "resend-failed", destination: OfDestination = None
) -> View:
    """Say how many tasks would be done again, for which destinations."""
    return await _dry_run(caller, name, verb, destination)


@pages.post("/pipelines/{name}/again", "pipelines.change")
async def do_again(caller: Poster, form: Posted, name: Name) -> Reply:
    """Do tasks again one after the other, and show what came of it."""
    verb, destination, reason = form.text("verb"), form.text("destination") or None, form.text("reason")
    if verb not in _STATES:
        raise InvalidRequest("verb", f"{verb!r} is none of: {', '.join(_STATES)}")
    done, refused = 0, list[View]()
    for each in await _tasks(caller, name, verb, destination):
        try:
            await _again(caller, each["id"], verb, reason, f"{form.key}/{each['id']}")
        except (TaskConflict, TaskNotFound) as error:
            refused.append({"task": task_row(each), "problem": str(error)})
        else:
            done += 1
    view = await _dry_run(caller, name, verb, destination)
    return Reply("pipeline_again.html", {**view, "done": done, "refused": refused, "is_done": True})


async def _again(caller: Caller, task: str, verb: str, reason: str, key: str) -> None:
    if verb == "revive":
        await caller.ask(revive_task, task=task, asked=model_of(ReasonAsked, reason=reason), key=key)
        return
    asked = model_of(ResendAsked, items=_STATES[verb], reason=reason)
    await caller.ask(resend_task, task=task, asked=asked, key=key)


async def _tasks(caller: Caller, name: str, verb: str, destination: str | None) -> list[View]:
    """Return the tasks that a verb is about, those that it can be done with."""
    page = first_page(caller.request, AT_ONCE)
    found = await caller.ask(list_tasks, name=name, page=page, destination=destination, state=[_STATES[verb]])
    return [each for each in found if (each["stage"] == "batch") == (verb == "revive")]


async def _dry_run(caller: Caller, name: str, verb: str, destination: str | None) -> View:
    row = pipeline_row(await caller.ask(get_pipeline, name=name))
    tasks = await _tasks(caller, name, verb, destination)
    state = _STATES[verb]
    matched = sum(
        each["count"]
        for each in row["tasks"]
        if each["state"] == state
        and destination in (None, each["destination"])
        and (each["stage"] == "batch") == (verb == "revive")
    )
    by_destination = Counter(each["destination"] or "not known yet" for each in tasks)
    held = {each["name"] for each in row["destinations"] if each.get("is_held")}
    return {
        "pipeline": row,
        "verb": verb,
        "state": state,
        "destination": destination,
        "matched": matched,
        "now": len(tasks),
        "items": sum(each["item_count"] for each in tasks),
        "by_destination": [(each, number, each in held) for each, number in sorted(by_destination.items())],
        "done": 0,
        "refused": [],
        "is_done": False,
    }


def _reason(form: Form) -> ReasonAsked:
    return model_of(ReasonAsked, reason=form.text("reason"))


def _task_page(name: str, task: str) -> str:
    return named(named("/pipelines/{}", name) + "/tasks/{}", task)
