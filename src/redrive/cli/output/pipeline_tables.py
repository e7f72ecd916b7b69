# SPDX-License-Identifier: MIT
"""Pipelines, their destinations, tasks, shipments, slots and history, for people."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from rich.table import Table
from rich.text import Text

from redrive.cli.output.sentences import instant, length
from redrive.cli.output.table import age, table
from redrive.clock import system_clock
from redrive.pipeline import (
    ActionInfo,
    DestinationInfo,
    ShipmentInfo,
    ShipmentState,
    SlotInfo,
    StoredDestination,
    StoredPlan,
    TaskInfo,
    TaskState,
)
from redrive.printable import one_line

_STYLES = {
    TaskState.DONE: "green",
    TaskState.FAILED: "red",
    TaskState.EXPIRED: "red",
    TaskState.UNKNOWN: "yellow",
    TaskState.CANCELLED: "dim",
}
_SHIPMENT_STYLES = {ShipmentState.SENT: "green", ShipmentState.REFUSED: "red", ShipmentState.UNKNOWN: "yellow"}
_BAD = (TaskState.FAILED, TaskState.UNKNOWN, TaskState.EXPIRED)
_COUNTED = (TaskState.WAITING, TaskState.READY, *_BAD)


@dataclass(frozen=True, slots=True)
class PipelineSummary:
    """What commands show of a pipeline.

    Attributes:
        plan: what it is.
        infos: what is stored of its destinations.
        counts: how many tasks there are, by stage, destination and state.
        next_slots: the next slot of each destination that has slots.
        problems: why the last attempt for a destination failed that is to be tried again.
    """

    plan: StoredPlan
    infos: tuple[DestinationInfo, ...]
    counts: Mapping[tuple[str, str, TaskState], int]
    next_slots: Mapping[str, datetime]
    problems: Mapping[str, str]

    def number(self, state: TaskState, destination: str | None = None) -> int:
        """Return how many tasks are in a state, of the whole pipeline or for one destination."""
        return sum(
            number for (_, name, found), number in self.counts.items() if found is state and destination in (None, name)
        )


def pipelines_table(summaries: Iterable[PipelineSummary]) -> Table:
    """Return pipelines, a line each, with how many of their tasks are in which state."""
    right = tuple(state.word for state in _COUNTED)
    made = table("pipeline", "version", "destinations", *right, right=("version", *right), long=("destinations",))
    for each in summaries:
        names = [f"{info.name} (held)" if info.is_held else info.name for info in each.infos]
        made.add_row(
            Text(one_line(each.plan.name)),
            str(each.plan.version),
            Text(one_line(", ".join(names), 10_000)),
            *(_number(state, each.number(state)) for state in _COUNTED),
        )
    return made


def destinations_table(summary: PipelineSummary) -> Table:
    """Return what waits for each stage and destination of a pipeline, and what a person has to look at."""
    right = tuple(state.word for state in _COUNTED)
    columns = ("destination", "state", "next slot", "oldest", *right)
    made = table(*columns, right=("oldest", *right))
    none = [_number(state, summary.number(state, "")) for state in _COUNTED]
    made.add_row(Text("(process)", style="dim"), "", "", "", *none)
    for info in summary.infos:
        slot = summary.next_slots.get(info.name)
        made.add_row(
            Text(one_line(info.name)),
            _destination_state(summary, info),
            "at once" if slot is None else instant(slot),
            age(info.oldest_at) if info.waiting else "-",
            *(_number(state, summary.number(state, info.name)) for state in _COUNTED),
        )
    return made


def _destination_state(summary: PipelineSummary, info: DestinationInfo) -> Text:
    if info.is_held:
        return Text("held", style="yellow")
    if info.name not in summary.plan.destinations:
        return Text("removed", style="dim")
    return Text("retried", style="yellow") if info.name in summary.problems else Text("open", style="green")


def _number(state: TaskState, number: int) -> Text:
    return Text(f"{number:,}" if number else "-", style="red" if number and state in _BAD else "")


def trouble_lines(summary: PipelineSummary) -> list[Text]:
    """Return why destinations are held, and why their last attempts failed."""
    lines = [
        Text(f"{one_line(info.name)} is held: {one_line(info.reason) or 'no reason was given'}", style="yellow")
        for info in summary.infos
        if info.is_held
    ]
    lines += [
        Text(f"{one_line(name)}: the last attempt failed: {one_line(problem)}", style="yellow")
        for name, problem in summary.problems.items()
    ]
    return lines


# --- what a pipeline is


def plan_lines(plan: StoredPlan) -> list[Text]:
    """Return what a pipeline does, stage by stage."""
    settings = plan.settings
    version = f", version {plan.version}" if plan.version else ""
    rows = [("receive", _receive(settings)), ("process", _process(settings))]
    for each in plan.destinations.values():
        rows += [(f"to {each.name}", each.transport), *(("", line) for line in _destination(each))]
    wide = max(len(one_line(name)) for name, _ in rows)
    lines = [Text(f"pipeline {one_line(plan.name)}{version}", style="bold")]
    return lines + [
        Text.assemble((f"  {one_line(name):<{wide}}  ", "dim"), one_line(text, 10_000)) for name, text in rows
    ]


def _receive(settings: Mapping[str, Any]) -> str:
    path = settings.get("path")
    parts = ["from code only" if path is None else f"POST {path}", f"up to {settings['max_bytes']:,} bytes"]
    parts += ["a key is needed"] if settings.get("needs_key") else []
    parts += [f"by {settings['receive']}"] if settings.get("receive") else []
    return ", ".join(parts)


def _process(settings: Mapping[str, Any]) -> str:
    tries = "1 try" if settings["tries"] == 1 else f"{settings['tries']} tries"
    waits = f", after {_waits(settings['retry'])}" if settings["tries"] > 1 and settings["retry"] else ""
    return f"by {settings['process']}, {tries}{waits}"


def _destination(each: StoredDestination) -> list[str]:
    given = each.settings
    when = each.rule or "at once"
    merged = f", merged by {given['merge']}" if given.get("merge") else ""
    closing = _limits(given.get("limits") or {})
    sending = [str(given["guarantee"]).replace("_", " "), f"if it may have arrived: {given['on_unknown']}"]
    sending += [f"retried after {_waits(given['retry'])}"] if given.get("retry") else ["not retried"]
    sending += [f"{given['rate']:g} a second at most"] if given.get("rate") else []
    return [f"{when}{closing}{merged}", "; ".join(sending)]


def _limits(limits: Mapping[str, Any]) -> str:
    words = {"max_items": "{:,} items", "max_bytes": "{:,} bytes"}
    parts = [text.format(limits[name]) for name, text in words.items() if limits.get(name)]
    parts += [f"after {length(limits['max_wait'])}"] if limits.get("max_wait") else []
    return f", or at {' or '.join(parts)}" if parts else ""


def _waits(seconds: Iterable[float]) -> str:
    return ", ".join(map(length, seconds))


# --- tasks


def tasks_table(tasks: Sequence[TaskInfo]) -> Table:
    """Return tasks, with the time since they were made, and why they are where they are."""
    columns = ("task", "stage", "destination", "state", "items", "made", "due", "why")
    made = table(*columns, right=("items", "made", "due"), long=("why",))
    for each in tasks:
        made.add_row(
            each.id,
            each.stage,
            Text(one_line(each.destination) or "-"),
            state_text(each.state),
            f"{each.item_count:,}",
            age(each.created_at),
            due_text(each),
            Text(one_line(each.reason)),
        )
    return made


def stuck_table(tasks: Sequence[TaskInfo]) -> Table:
    """Return tasks that should have been done, or that a person has to look at."""
    columns = ("task", "pipeline", "stage", "destination", "state", "due", "why")
    made = table(*columns, right=("due",), long=("why",))
    for each in tasks:
        made.add_row(
            each.id,
            Text(one_line(each.pipeline)),
            each.stage,
            Text(one_line(each.destination) or "-"),
            state_text(each.state),
            f"{age(each.due_at)} ago",
            Text(one_line(each.reason)),
        )
    return made


def state_text(state: TaskState) -> Text:
    """Return where a task stands."""
    return Text(state.word, style=_STYLES.get(state, "cyan"))


def due_text(task: TaskInfo) -> str:
    """Return when a task is to be done; nothing if it is not."""
    if task.state not in (TaskState.READY, TaskState.WAITING):
        return "-"
    left = task.due_at.timestamp() - system_clock.time()
    return f"in {length(left)}" if left >= 1 else f"{length(-left)} ago"


def task_lines(task: TaskInfo) -> list[Text]:
    """Return everything about a task, without its shipments and its history."""
    head = Text.assemble(f"task {one_line(task.id)} is ", state_text(task.state))
    head.append(f": {one_line(task.reason)}" if task.reason else "")
    to = f", to {task.destination}" if task.destination else ""
    facts = {
        "does": f"{task.stage} of pipeline {task.pipeline}, version {task.version}{to}",
        "items": f"{task.item_count:,}, {task.size:,} bytes",
        "made": f"{instant(task.created_at)}, changed {age(task.changed_at)} ago",
        "due": instant(task.due_at) if task.state in (TaskState.READY, TaskState.WAITING) else "",
        "expires": instant(task.not_after) if task.not_after and task.state is TaskState.WAITING else "",
        "slot": "" if task.slot_at is None else instant(task.slot_at),
        "retries": f"{task.retries}" if task.retries else "",
    }
    shown = {name: one_line(value, 1_000) for name, value in facts.items() if value}
    return [head, *(Text.assemble((f"  {name:<9}", "dim"), value) for name, value in shown.items())]


def shipments_table(shipments: Sequence[ShipmentInfo]) -> Table:
    """Return the shipments of a task."""
    columns = ("shipment", "state", "items", "attempts", "delivery id", "what the destination said")
    made = table(*columns, right=("shipment", "items", "attempts"), long=columns[-1:])
    for each in shipments:
        made.add_row(
            str(each.index),
            shipment_text(each),
            f"{each.item_count:,}",
            str(each.attempt),
            Text(one_line(each.delivery_id, 1_000)),
            Text(one_line(each.reason or each.receipt)),
        )
    return made


def shipment_text(shipment: ShipmentInfo) -> Text:
    """Return where a shipment stands."""
    return Text(shipment.state.word, style=_SHIPMENT_STYLES.get(shipment.state, "cyan"))


# --- slots and history


def slots_table(slots: Sequence[SlotInfo], zone: str) -> Table:
    """Return slots that have come."""
    made = table("slot", f"in {zone}", "state", "came by", "tasks", "why", right=("tasks",), long=("why",))
    for each in slots:
        styles = {"served": "green", "failed": "red"}
        word = "empty" if each.is_empty else each.state.word
        made.add_row(
            instant(each.at),
            wall_time(each.at, zone),
            Text(word, style=styles.get(each.state.word, "cyan")),
            each.closed_by,
            f"{each.tasks:,}",
            Text(one_line(each.reason)),
        )
    return made


def next_slots_table(slots: Sequence[datetime], zone: str) -> Table:
    """Return slots that are to come."""
    made = table("next slots", f"in {zone}", "after", right=("after",))
    for each, before in zip(slots, [None, *slots], strict=False):
        made.add_row(
            instant(each), wall_time(each, zone), "" if before is None else length((each - before).total_seconds())
        )
    return made


def wall_time(at: datetime, zone: str) -> str:
    """Return what a clock on a wall shows at an instant, with its distance from UTC."""
    local = at.astimezone(ZoneInfo(zone))
    offset = f"{local:%z}"
    return f"{local:%a %Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:5]}"


def history_lines(entries: Sequence[ActionInfo], *, of_task: bool = False) -> list[Text]:
    """Return what was done, by whom and why; the task is named unless all are of one."""
    lines: list[Text] = []
    for each in entries:
        line = Text.assemble((f"{instant(each.at)}  ", "dim"), (one_line(each.name), _action_style(each.name)))
        line.append(f", attempt {each.attempt}" if each.attempt > 1 else "")
        if not of_task:
            where = " ".join(part for part in (each.pipeline, each.destination, each.task) if part)
            line.append(f"  {one_line(where, 300)}")
        line.append(f"  by {one_line(each.actor)}" if each.actor else "", "dim")
        line.append(f": {one_line(each.reason)}" if each.reason else "")
        lines.append(line)
    return lines


def _action_style(name: str) -> str:
    return {"error": "red", "expired": "red", "warning": "yellow", "unknown": "yellow"}.get(name.rpartition("_")[2], "")
