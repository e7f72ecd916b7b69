# SPDX-License-Identifier: MIT
"""``/queues``: what waits where; ``/queues/{name}``: its charts, its settings, and the messages in it."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Response

from redrive.broker import dead_letter_queue, tallies
from redrive.broker.views import View
from redrive.clock import utc
from redrive.recovery import Filter
from redrive.server.api.endpoint import Caller, Name
from redrive.server.api.messages import list_messages
from redrive.server.api.pages import Page
from redrive.server.api.queues import get_queue, list_queues
from redrive.server.api.series import list_series, list_workers
from redrive.server.api.upkeep import list_redirects
from redrive.server.console.next_page import next_address
from redrive.server.console.pages import Pages

pages = Pages()

STATES: Final = ("ready", "locked", "scheduled", "deferred", "dead")
_DAY_S: Final = 86_400
_STEP_S: Final = 1_800
_LATELY_S: Final = 300
_SHOWN: Final = 25
_LABELS: Final = 6
_LONGEST_BODY: Final = 300
_DONE: Final = {
    "sent": ("1 message was sent.", "{:,} messages were sent."),
    "purged": ("1 message was removed.", "{:,} messages were removed."),
    "resubmitted": ("1 dead letter was sent again.", "{:,} dead letters were sent again."),
    "changed": ("The settings are changed.", "The settings are changed."),
    "redirected": ("The redirect is changed.", "The redirect is changed."),
}

StateChosen = Annotated[
    Literal["ready", "locked", "scheduled", "deferred", "dead"] | None, Query(description="Only messages like that.")
]
Did = Annotated[
    Literal["sent", "purged", "resubmitted", "changed", "redirected"] | None, Query(description="What was just done.")
]


# --- all of them


@pages.get("/queues", "queues.read", "queues.html")
async def show_queues(caller: Caller) -> View:
    """Show the queues: what is in each, what comes in and goes out, and who reads it."""
    found = [each for each in await caller.ask(list_queues) if not each["is_topic"]]
    workers = await caller.ask(list_workers)
    sent, completed = await _lately(caller, tallies.SENT), await _lately(caller, tallies.COMPLETED)
    ready = await caller.ask(list_series, metric="ready", topic=tallies.QUEUE, span=_DAY_S, step=_STEP_S)
    lines = {each["name"]: each["values"] for each in ready}
    readers = _readers(workers["workers"])
    return {
        "queues": [
            {
                **each,
                "in": sent.get(each["name"], 0.0),
                "out": completed.get(each["name"], 0.0),
                "line": lines.get(each["name"], []),
                "workers": readers.get(each["name"], 0),
                "is_unread": each["name"] in workers["unread"],
            }
            for each in found
        ]
    }


async def _lately(caller: Caller, metric: str) -> Mapping[str, float]:
    """Return how much happened in each queue a minute, lately."""
    found = await caller.ask(list_series, metric=metric, topic=tallies.QUEUE, span=_LATELY_S, step=60)
    return {each["name"]: _mean(each["values"]) for each in found}


def _mean(values: Sequence[int | None]) -> float:
    return sum(each or 0 for each in values) / max(len(values), 1)


def _readers(workers: Sequence[View]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for worker in workers:
        for queue in worker["queues"]:
            counts[queue] = counts.get(queue, 0) + 1
    return counts


# --- one of them


@pages.get("/queues/{name}", "queues.read", "queue.html", topics=("queue:{name}",))
async def show_queue(
    caller: Caller,
    name: Name,
    page: Page,
    response: Response,
    *,
    state: StateChosen = None,
    did: Did = None,
    n: Annotated[int, Query(ge=0)] = 0,
) -> View:
    """Show a queue: what is in it, its charts, its settings, and its messages."""
    queue = await caller.ask(get_queue, name=name)
    workers = await caller.ask(list_workers)
    redirects = {each["from"]: each["to"] for each in await caller.ask(list_redirects)}
    return {
        "queue": queue,
        "states": STATES,
        "state": state or "",
        "settings": settings_of(queue["settings"]),
        "charts": await _charts(caller, name),
        "workers": [each for each in workers["workers"] if name in each["queues"]],
        "is_unread": name in workers["unread"],
        "redirect": redirects.get(name),
        "failed_q": str(Filter(queues=(name,))),
        "command": f"redrive queues show {shlex.quote(name)}",
        "messages": await _messages(caller, name, page, state),
        "more": next_address(response),
        "done": _DONE[did][n != 1].format(n) if did else "",
    }


async def _messages(caller: Caller, name: str, page: Page, state: str | None) -> list[View]:
    """Return the messages of a queue in a state; if none is chosen, in any but dead."""
    page.limit = min(page.limit, _SHOWN)
    if state == "dead":
        found = await caller.ask(list_messages, name=dead_letter_queue(name), page=page)
    else:
        states = {None: None, "deferred": ["deferred", "deferred_locked"]}.get(state, [state])
        found = await caller.ask(list_messages, name=name, page=page, state=states)
    shown = await caller.redaction.shown(found)
    return [{**each, "beginning": each["body"][:_LONGEST_BODY], "size": len(each["body"])} for each in shown]


async def _charts(caller: Caller, name: str) -> View:
    """Return a day of a queue: what came in, what went out, what waited; and where the labels are."""
    lines: dict[str, list[int | None]] = {}
    count = _DAY_S // _STEP_S
    for metric in (tallies.SENT, tallies.COMPLETED, tallies.DEAD, "ready"):
        found = await caller.ask(
            list_series, metric=metric, topic=tallies.QUEUE, name=[name], span=_DAY_S, step=_STEP_S
        )
        lines[metric] = found[0]["values"] if found else [0] * count
    count = len(lines[tallies.SENT])
    start = (int(caller.desk.broker.clock.time()) // _STEP_S + 1) * _STEP_S - count * _STEP_S
    instants = [utc(start + place * _STEP_S).isoformat() for place in range(count)]
    every = max(count // _LABELS, 1)
    rows = [
        (instants[place], lines[tallies.SENT][place] or 0, lines[tallies.COMPLETED][place] or 0, lines["ready"][place])
        for place in range(count)
        if lines[tallies.SENT][place] or lines[tallies.COMPLETED][place] or lines["ready"][place]
    ]
    return {
        "sent": lines[tallies.SENT],
        "completed": lines[tallies.COMPLETED],
        "dead": lines[tallies.DEAD],
        "ready": lines["ready"],
        "labels": [(place, instants[place]) for place in range(every // 2, count, every)],
        "rows": rows[::-1],
    }


def settings_of(settings: Mapping[str, Any]) -> list[View]:
    """Return the settings of a queue or a topic as people read them."""
    return [
        {
            "name": name,
            "words": name.replace("_", " ").replace("ttl", "time to live").capitalize(),
            "value": value,
            "kind": "flag" if isinstance(value, bool) else _KINDS.get(name, ""),
        }
        for name, value in settings.items()
    ]


_KINDS: Final = {
    "lock_duration": "seconds",
    "default_ttl": "seconds",
    "auto_delete_on_idle": "seconds",
    "duplicate_detection": "seconds",
    "max_message_bytes": "bytes",
}
