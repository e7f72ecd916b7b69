# SPDX-License-Identifier: MIT
"""Routes, their versions, and the way of an event through them, for people."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from redrive.broker import Message
from redrive.cli.output.message_text import body_line
from redrive.cli.output.sentences import count, instant
from redrive.cli.output.table import age, table
from redrive.printable import one_line
from redrive.routes import LegStep, Route, RouteInfo

_STATE_STYLES = {"running": "green", "paused": "yellow", "draining": "cyan", "cancelling": "cyan", "removed": "dim"}
_OUTCOME_STYLES = {"passed": "green", "delivered": "green", "consumed": "yellow", "dead": "red", "would": "green"}
_USUAL = "default"


def routes_table(infos: Sequence[RouteInfo]) -> Table:
    """Return routes, what each is doing, and how many events wait or are dead."""
    is_one = all(each.route.application == _USUAL for each in infos)
    right = ("waiting", "oldest", "dead")
    columns = ("route", *(() if is_one else ("application",)), "state", "source", "sender", "delivery", *right)
    made = table(*columns, right=right, long=("source", "sender"))
    for each in infos:
        names = [Text(one_line(each.route.name)), *([] if is_one else [Text(one_line(each.route.application))])]
        made.add_row(
            *names,
            state_text(each.state),
            Text(one_line(source_name(each.route))),
            Text(one_line(sender_name(each.route))),
            each.route.source.delivery + (", best effort" if each.guarantee == "best_effort" else ""),
            *_counts(each),
        )
    return made


def source_name(route: Route) -> str:
    """Return what a route reads, such as ``http /orders``."""
    return f"{route.source.kind} {route.source.address}"


def sender_name(route: Route) -> str:
    """Return where a route sends, such as ``queue orders``."""
    kind, destination = route.sender.kind, route.sender.destination
    return destination if destination.partition(" ")[0] == kind else f"{kind} {destination}"


def state_text(state: str) -> Text:
    """Return what a route is doing."""
    return Text(state, style=_STATE_STYLES.get(state, ""))


def _counts(info: RouteInfo) -> list[Text]:
    waiting, dead = (Text(f"{number:,}" if number else "-") for number in (info.waiting, info.dead))
    dead.stylize("red" if info.dead else "")
    return [waiting, Text(age(info.oldest_at)), dead]


# --- one route


def route_lines(info: RouteInfo) -> list[Text]:
    """Return everything about a route: its state, its parts in order, and what waits on it."""
    route = info.route
    head = Text.assemble(f"route {one_line(route.name)} is ", state_text(info.state))
    head.append(f": {one_line(info.reason)}" if info.reason else "")
    parts = [str(route.source), *(f"| {each}" for each in route.filters), f">> {route.sender}"]
    chain = [Text(f"  {one_line(each, 10_000)}", style="bold") for each in parts]
    facts = {name: one_line(value, 10_000) for name, value in _facts(info).items() if value}
    return [head, *chain, *(Text.assemble((f"  {name:<13}", "dim"), value) for name, value in facts.items())]


def _facts(info: RouteInfo) -> Mapping[str, str]:
    stated = {name: value for name, value in info.route.settings.to_table().items() if name != "kind"}
    waiting = f"{count(info.waiting, 'event')}" + (f", the oldest {age(info.oldest_at)}" if info.oldest_at else "")
    return {
        "application": info.route.application,
        "version": f"{info.version}, changed {age(info.changed_at)} ago" if info.changed_at else str(info.version),
        "delivery": f"{info.route.source.delivery}, {info.guarantee.replace('_', ' ')}",
        "settings": ", ".join(f"{name} = {value}" for name, value in stated.items()),
        "queue": info.queue or "",
        "waiting": waiting if info.queue else "",
        "dead": f"{count(info.dead, 'event')}: redrive routes dead {info.route.name}" if info.dead else "",
    }


def versions_table(versions: Sequence[Mapping[str, Any]]) -> Table:
    """Return what a route has been, as ``views.version_view`` gives it, the newest first."""
    made = table("version", "state", "changed", "why", "was", right=("version",), long=("why", "was"))
    for each, newer in zip(versions, [None, *versions], strict=False):
        is_same = newer is None or newer["version"] == each["version"]  # then it was the same, or is shown above
        made.add_row(
            str(each["version"]),
            state_text(each["state"]),
            _instant(each["changed_at"]),
            Text(one_line(each["reason"])),
            Text("" if is_same else one_line(each["definition"] or "cannot be read here")),
        )
    return made


def _instant(text: str | None) -> str:
    return "-" if text is None else instant(datetime.fromisoformat(text))


# --- the way of an event


def step_lines(steps: Iterable[LegStep]) -> list[Text]:
    """Return the steps of an event, and below each what went on from there."""
    return [line for step in steps for line in (_step(step.step, step.outcome), *map(_event_line, step.messages))]


def _event_line(message: Message) -> Text:
    return Text.assemble(("    ", "dim"), body_line(message.body))


def _step(name: str, outcome: str) -> Text:
    return Text.assemble(f"{one_line(name)}: ", (one_line(outcome), _style(outcome)))


def _style(outcome: str) -> str:
    return _OUTCOME_STYLES.get(outcome.partition(" ")[0].partition(":")[0], "red")


def leg_line(seen: Mapping[str, Any]) -> Text:
    """Return what happened to one leg, as ``Routes.tap`` gives it, on one line."""
    line = Text(f"{one_line(seen['event'], 200)}  ", style="")
    for number, step in enumerate(seen["steps"]):
        line.append(" > " if number else "", "dim")
        line.append_text(_step(step["step"], step["outcome"]))
    bodies: list[str] = next((step["bodies"] for step in reversed(seen["steps"]) if step["bodies"]), [])
    return line.append(f"  {one_line(' '.join(bodies))}", "dim") if bodies else line
