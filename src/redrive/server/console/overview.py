# SPDX-License-Identifier: MIT
"""``/``: what needs a person, first, and how things stand. Who is limited to queues sees what of it is about them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from fastapi import Query

from redrive.broker.views import View
from redrive.clock import utc
from redrive.server.api.endpoint import Caller
from redrive.server.api.operations import list_operations
from redrive.server.api.overview import get_attention, get_figures
from redrive.server.api.pages import first_page
from redrive.server.api.queues import list_queues
from redrive.server.api.series import list_workers
from redrive.server.console import text_formats
from redrive.server.console.attention import shown_item
from redrive.server.console.operation_rows import operation_row
from redrive.server.console.overview_lines import (
    COMPLETED_LATELY,
    FAILED,
    FAILED_DAY,
    FAILED_HOUR,
    HANDLED,
    HANDLED_LATELY,
    LATELY_S,
    OF_GROUPS,
    READY,
    RECOVERED,
    SENT_LATELY,
    OverviewLines,
    overview_lines,
)
from redrive.server.console.pages import Pages
from redrive.server.console.shell import refusal

pages = Pages()

_SPANS: Final = {"1h": (3_600, 60), "6h": (21_600, 300), "24h": (86_400, 1_200), "7d": (604_800, 7_200)}
_SPAN_NAMES: Final = {"1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d"}
_LABELS: Final = 6
_LISTED: Final = 5
_OPEN_ITEMS: Final = 8
_MOST_FLAGS: Final = 18
_LAYERS: Final = (
    ("retry", "Retry", "calls made again"),
    ("redeliver", "Redeliver", "messages delivered again"),
    ("replay", "Replay", "attempts of events"),
    ("re-run", "Re-run", "attempts of shipments"),
    ("recover", "Recover", "messages, by a person"),
)

SpanWord = Annotated[Literal["1h", "6h", "24h", "7d"], Query(description="How far back the charts go.")]


@pages.get("/", "own.read", "overview.html")
async def show_overview(caller: Caller, span: SpanWord = "6h") -> View:
    """Show what needs a person, and how things stand."""
    known, operations, items, figures = await asyncio.gather(
        caller.ask(list_queues),
        caller.ask(list_operations, page=first_page(caller.request, 20)),
        _items(caller),
        _figures(caller),
    )
    queues = [each for each in known if not each["is_topic"]]
    worst = sorted(queues, key=lambda each: (each["oldest_at"] or "~", -each["ready"], each["name"]))[:_LISTED]
    groups = [name for name in map(_group_of, items or ()) if name][:_OPEN_ITEMS]
    lines = await overview_lines(caller, _SPANS[span], groups, [each["name"] for each in worst])
    step_s = _SPANS[span][1]
    return {
        "span": span,
        "spans": _SPAN_NAMES,
        "step": text_formats.length(step_s),
        "is_first_run": not queues and not operations,
        "attention": None
        if items is None
        else [shown_item(each, lines.of(OF_GROUPS, _group_of(each))) for each in items],
        "open_items": _OPEN_ITEMS,
        "failing": _failing(lines),
        "failed_line": (failed := lines.total(FAILED)),
        "handled_line": lines.total(HANDLED),
        "recovered_line": lines.total(RECOVERED),
        "chart": _chart(caller, failed, operations, step_s),
        "operations": [operation_row(each) for each in operations if not each["ended_at"]][:_LISTED]
        or [operation_row(each) for each in operations[:_LISTED]],
        "has_open": any(not each["ended_at"] for each in operations),
        "queues": [_queue_row(each, lines) for each in worst],
        "queue_count": len(queues),
        **figures,
    }


async def _items(caller: Caller) -> list[View] | None:
    """Return what needs a person; None if the caller may not see that."""
    if refusal(caller.principal, "attention.read"):
        return None
    found: list[View] = (await caller.ask(get_attention))["attention"]
    return found


def _group_of(item: View) -> str:
    """Return the group that something is about; empty if it is about something else."""
    kind, _, name = item["subject"].partition(":")
    return name if kind == "group" else ""


async def _figures(caller: Caller) -> View:
    """Return the figures of the layers and the workers, of what the caller may see."""
    workers = await caller.ask(list_workers)
    figures = None if refusal(caller.principal, "attention.read") else await caller.ask(get_figures)
    caught = {} if figures is None else figures["caught"]
    most = max(caught.values(), default=0)
    layers = [{"name": name, "what": what, "count": caught.get(word, 0), "share": most} for word, name, what in _LAYERS]
    return {"figures": figures, "layers": layers, "workers": len(workers["workers"]), "unread": workers["unread"]}


def _failing(lines: OverviewLines) -> View:
    """Return how much fails now, in the last hour, and usually."""
    hour, day, handled = (lines.total(each) for each in (FAILED_HOUR, FAILED_DAY, HANDLED_LATELY))
    lately = hour[-LATELY_S // 60 :]
    return {
        "per_minute": sum(lately) / max(len(lately), 1),
        "last_hour": sum(hour),
        "usual": sum(day[:-1]) / max(len(day) - 1, 1) / 60,
        "handled": sum(handled) / max(len(handled), 1),
    }


def _chart(caller: Caller, failed: Sequence[int], operations: Sequence[View], step: int) -> View:
    """Return where the chart has its labels, as instants, and its flags."""
    now = caller.desk.broker.clock.time()
    count = len(failed)
    start = (int(now) // step + 1) * step - count * step
    every = max(count // _LABELS, 1)
    labels = [(place, utc(start + place * step).isoformat()) for place in range(every // 2, count, every)]
    marks: dict[int, int] = {}
    for each in reversed(operations):
        place = int((text_formats.instant(each["requested_at"]).timestamp() - start) // step)
        if 0 <= place < count:
            marks[place] = each["number"]
    return {
        "labels": labels,
        "marks": flags_of(marks, count // _MOST_FLAGS),
        "start": utc(start).isoformat(),
        "step": step,
    }


def flags_of(marks: Mapping[int, int], near: int) -> list[tuple[int, str]]:
    """Return the flags of a chart; those that would cover each other are one.

    Args:
        marks: by place, the number of an operation.
        near: how many places are too near.
    """
    flags: list[tuple[int, int, int]] = []
    for place, number in sorted(marks.items()):
        if flags and place - flags[-1][0] <= near:
            flags[-1] = flags[-1][0], flags[-1][1], number
        else:
            flags.append((place, number, number))
    return [(place, str(first) if first == last else f"{first}-{last}") for place, first, last in flags]


def _queue_row(queue: View, lines: OverviewLines) -> View:
    """Return a queue with what comes in and goes out a minute."""
    name = queue["name"]
    return {
        **queue,
        "in": lines.mean(SENT_LATELY, name),
        "out": lines.mean(COMPLETED_LATELY, name),
        "line": lines.of(READY, name) or [],
    }
