# SPDX-License-Identifier: MIT
"""What a request for an operation asks of the facade, within the queues of the caller."""

from dataclasses import replace
from typing import Any, Final

from redrive.broker.rules import ERROR_QUEUE
from redrive.broker.views import View
from redrive.errors import InvalidRequest, InvalidSetting
from redrive.history.views import health_view
from redrive.recovery import Canary, Filter, Kind, Operation, Preview, Transform, views
from redrive.server.api.endpoint import Caller
from redrive.server.api.failure_models import CanaryModel, ChosenModel, OperationAsked, PreviewAsked, TransformModel
from redrive.server.api.models import stated
from redrive.server.api.requests import instant_in
from redrive.server.api.within import ANY, filter_within, narrowed

_SAMPLE: Final = 5
_HOW: Final = ("limit", "rate", "redirect", "again")


async def request(caller: Caller, asked: OperationAsked, key: str | None) -> Operation:
    """Request an operation."""
    chosen = await _chosen(caller, asked)
    who: dict[str, Any] = {"actor": caller.actor, "reason": asked.reason, "key": key}
    recovery = caller.desk.recovery
    how = _settings(asked)
    match Kind(asked.kind):
        case Kind.RECOVER:
            return await recovery.recover(chosen, **how, **who)
        case Kind.ARCHIVE:
            return await recovery.archive(chosen, limit=_only_limit(how), **who)
        case Kind.RESTORE:
            return await recovery.restore(chosen, limit=_only_limit(how), **who)
        case Kind.RESOLVE:
            return await recovery.resolve(chosen, limit=_only_limit(how), **who)


async def dry_run(caller: Caller, asked: OperationAsked) -> View:
    """Say what an operation would find."""
    chosen, how, kind = await _chosen(caller, asked), _settings(asked), Kind(asked.kind)
    recovery = caller.desk.slow
    if kind is not Kind.RECOVER:
        _only_limit(how)
    found = await recovery.dry_run(chosen, kind, **how)
    if kind is not Kind.RECOVER:
        found = replace(found, by_destination={})  # it sends nothing
    previews: list[Preview] = []
    if asked.transform is not None:
        sample = min(_SAMPLE, asked.limit or _SAMPLE)
        previews = await recovery.preview(chosen, how["transform"], sample=sample)
    sources = tuple(dict.fromkeys((ERROR_QUEUE, *await recovery.sources())))
    unread = {queue: count for queue, count in (await recovery.unread(sources)).items() if caller.principal.has(queue)}
    seen = [queue for queue in found.by_destination if caller.principal.has(queue)]
    healths = [health_view(each) for each in await caller.desk.history.destinations(seen)]
    return views.dry_run_view(found, chosen if isinstance(chosen, Filter) else None, previews, unread, healths)


async def preview(caller: Caller, asked: PreviewAsked) -> list[Preview]:
    """Say what a transform would change."""
    transform = _transform(asked.transform)
    return await caller.desk.slow.preview(await _chosen(caller, asked), transform, sample=asked.sample)


async def _chosen(caller: Caller, asked: ChosenModel) -> Filter | list[str]:
    """Return which messages are meant: a filter, or ids; for a limited caller, within its queues."""
    if (asked.filter is None) == (asked.ids is None):
        raise InvalidRequest("body", "say which messages: filter or ids, one of the two")
    if asked.filter is not None:
        if not asked.filter.strip():
            raise InvalidRequest("body.filter", "say which messages; status:unresolved is every unresolved one")
        return await filter_within(caller.desk, caller.principal, asked.filter)
    ids = asked.ids or []
    if caller.principal.queues is None:
        return ids
    return await narrowed(caller.desk, caller.principal, Filter(status=ANY, ids=tuple(ids)))


def _settings(asked: OperationAsked) -> dict[str, Any]:
    """Return the settings of a recovery that a request states."""
    how = {name: getattr(asked, name) for name in _HOW}
    how["transform"] = None if asked.transform is None else _transform(asked.transform)
    canary = asked.canary
    how["canary"] = Canary(**canary.model_dump()) if isinstance(canary, CanaryModel) else canary
    how["at"] = None if asked.at is None else instant_in("at", asked.at)
    return how


def _only_limit(how: dict[str, Any]) -> int | None:
    """Return the limit of an operation that sends nothing; any other setting has no meaning for it."""
    for name, value in how.items():
        if name != "limit" and value not in (None, False):
            raise InvalidSetting(name, value, "has no meaning for an operation that sends nothing")
    limit: int | None = how["limit"]
    return limit


def _transform(asked: TransformModel) -> Transform:
    return Transform.from_json(stated(asked))
