# SPDX-License-Identifier: MIT
"""An event on trial: it goes through a route without side effects, and every step is shown. Pure: no I/O, no clock."""

from collections.abc import Sequence

from redrive.broker import Message
from redrive.printable import one_line
from redrive.routes.children import Child, delivery_key
from redrive.routes.leg_step import LegStep
from redrive.routes.parts import EventFilter, LegFacts
from redrive.routes.route import Route


def try_route(route: Route, message: Message, now: float) -> list[LegStep]:
    """Return what would happen to an event. Filters that reach outside are not called, and nothing is sent."""
    leg = LegFacts(route.application, route.name, message.id or "test", now, now)
    children, steps = [Child(message)], list[LegStep]()
    for number, each in enumerate(route.filters, start=1):
        step = f"filter {number} ({each.kind})"
        if not isinstance(each, EventFilter):
            steps.append(LegStep(step, "not called: it reaches outside", _messages(children)))
            continue
        try:
            children = [part for child in children for part in child.parts(each.apply(child.message, leg))]
        except Exception as error:  # noqa: BLE001 - it is shown: that is what a trial is for
            return [*steps, LegStep(step, f"dead: {one_line(f'{type(error).__name__}: {error}', 500)}")]
        steps.append(LegStep(step, "passed" if children else "consumed", _messages(children)))
        if not children:
            return steps
    keys = [delivery_key(leg.event_id, route.name, child.path) for child in children]
    return [*steps, LegStep(f"sender ({route.sender.kind})", f"would send {', '.join(keys)}", _messages(children))]


def _messages(children: Sequence[Child]) -> tuple[Message, ...]:
    return tuple(child.message for child in children)
