# SPDX-License-Identifier: MIT
"""Where something is that is known by its id, its number, or a part of its name. Nothing is searched row by row."""

import re
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote

from redrive.broker import is_own_queue
from redrive.broker.views import View
from redrive.errors import FailureNotFound, OperationNotFound, TaskNotFound
from redrive.printable import one_line
from redrive.recovery import Filter
from redrive.routes import route_label
from redrive.server.api.endpoint import PREFIX
from redrive.server.api.pages import LARGEST_NUMBER
from redrive.server.api.within import ANY, failure_within, narrowed, operation_within

if TYPE_CHECKING:
    from redrive.access import Principal
    from redrive.server.desk import Desk

_ID: Final = re.compile(r"[0-9a-f]{4,32}")
_NUMBER: Final = re.compile(r"#?([0-9]{1,19})")
_LONGEST_TITLE: Final = 200


async def find_places(desk: "Desk", principal: "Principal", text: str, limit: int) -> list[View]:
    """Return where something is: what is named exactly first, then what has the text in its name.

    Args:
        desk: where to look.
        principal: who asks; places that they may not see are left out.
        text: an id, a number, or a name or a part of it.
        limit: how many at most.
    """
    if not text.isprintable() or not text:
        return []
    found: dict[str, View] = {}
    for look in (_operations, _failures, _groups, _names, _tasks):
        async for subject, title, path in look(desk, principal, text):
            found.setdefault(subject, {"subject": subject, "title": one_line(title, _LONGEST_TITLE), "path": path})
            if len(found) == limit:
                return list(found.values())
    return list(found.values())


_Places: TypeAlias = AsyncIterator[tuple[str, str, str]]


def _quoted(name: str) -> str:
    return quote(name, safe="")


async def _operations(desk: "Desk", principal: "Principal", text: str) -> _Places:
    number = _NUMBER.fullmatch(text)
    if number is None or not 0 < int(number[1]) <= LARGEST_NUMBER:
        return
    try:
        found = await operation_within(desk, principal, int(number[1]), newcomers=False)
    except OperationNotFound:
        return
    title = f"{found.plan.kind.value} {found.plan.filter}"
    yield f"operation:{found.number}", title, f"{PREFIX}/operations/{found.number}"


async def _failures(desk: "Desk", principal: "Principal", text: str) -> _Places:
    if _ID.fullmatch(text.lower()):
        try:
            one = (await failure_within(desk, principal, text.lower())).summary
        except FailureNotFound:
            pass
        else:
            yield f"failure:{one.id}", f"{one.message_id} in {one.queue}", f"{PREFIX}/failures/{one.id}"
    named = await narrowed(desk, principal, Filter(status=ANY, message_ids=(text,)))
    for each in await desk.recovery.failed(named, limit=10) if named.message_ids else ():
        yield f"failure:{each.id}", f"{each.message_id} in {each.queue}", f"{PREFIX}/failures/{each.id}"


async def _groups(desk: "Desk", principal: "Principal", text: str) -> _Places:
    chosen = await narrowed(desk, principal, Filter(status=ANY))
    if not chosen.is_about_kinds:
        return
    known = await desk.recovery.kind_values("group", chosen, part=text, limit=10)
    for each in sorted(known, key=lambda group: group.value != text):
        yield f"group:{each.value}", each.title or each.value, f"{PREFIX}/groups/{_quoted(each.value)}"


async def _names(desk: "Desk", principal: "Principal", text: str) -> _Places:
    """Find queues, topics, routes and pipelines; those of that very name first."""
    places = [
        (each.name, "queue", f"{PREFIX}/queues/{_quoted(each.name)}")
        for each in await desk.broker.queues()
        if not each.is_topic and not is_own_queue(each.name) and principal.has(each.name)
    ]
    if principal.queues is None:
        places += await _whole_names(desk)
    wanted = text.casefold()
    matching = [each for each in places if wanted in each[0].casefold()]
    for name, kind, path in sorted(matching, key=lambda each: (each[0] != text, len(each[0]), each)):
        yield f"{kind}:{name}", name, path


async def _whole_names(desk: "Desk") -> Iterable[tuple[str, str, str]]:
    topics = [(each.name, "topic", f"{PREFIX}/topics/{_quoted(each.name)}") for each in await desk.broker.topics()]
    routes = [
        (
            route_label(each.route.application, each.route.name),
            "route",
            f"{PREFIX}/routes/{_quoted(each.route.name)}?application={_quoted(each.route.application)}",
        )
        for each in await desk.routes.find()
    ]
    names = await desk.pipelines.names()
    return [*topics, *routes, *((name, "pipeline", f"{PREFIX}/pipelines/{_quoted(name)}") for name in names)]


async def _tasks(desk: "Desk", principal: "Principal", text: str) -> _Places:
    if principal.queues is not None:
        return
    try:
        task = (await desk.pipelines.show(text)).task
    except TaskNotFound:
        return
    yield f"task:{task.id}", f"{task.pipeline} {task.state.word}", f"{PREFIX}/tasks/{_quoted(task.id)}"
