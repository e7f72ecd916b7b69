# SPDX-License-Identifier: MIT
"""Operations in SQL: requests, decisions of people about them, and their figures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from redrive.clock import utc
from redrive.engines.sql.recovery.audit import write_audit
from redrive.engines.sql.recovery.counts import count_of
from redrive.engines.sql.recovery.failure_records import next_change
from redrive.engines.sql.recovery.failures import PART, part_of
from redrive.engines.sql.recovery.filter_sql import Condition, condition
from redrive.engines.sql.recovery.leases import check
from redrive.engines.sql.recovery.state_sql import among
from redrive.engines.sql.script import Row, Script, Sql, insert, now, scalar, scalars
from redrive.errors import OperationConflict, OperationNotFound, RedirectRefused
from redrive.printable import one_line
from redrive.recovery.port import (
    CLAIMS,
    ENDED,
    FIRST_OPERATION_STATE,
    LARGEST_BATCH,
    MESSAGES,
    NO_MESSAGE,
    OPERATIONS,
    PARTS,
    DryRun,
    Filter,
    Holder,
    Kind,
    Lease,
    Operation,
    OperationEvent,
    OperationRequest,
    OperationState,
    Outcome,
    Part,
    PartEvent,
    Plan,
    Status,
    StillFailing,
    in_the_way,
    progress,
    storable,
)
from redrive.transition_table import changed, sources

HAS_MEMBERS = "EXISTS (SELECT 1 FROM @.operation_members m WHERE m.operation = o.number)"
"""Whether some messages of the operation ``o`` are not in a batch yet."""

_IS_ENDED = among("state", ENDED)
_IS_CLAIM = among("p.outcome", CLAIMS)  # in every query for a claim, so that the partial index is used
_TAKEN = f"SELECT 1 FROM @.parts p WHERE p.failure = f.number AND {_IS_CLAIM}"
_OUTCOMES = ", ".join(f"count(*) FILTER (WHERE {among('outcome', [each])})" for each in Outcome)  # groups are sorted
_LATELY_S = 600.0
"""For how long after its last failure a destination counts as failing still."""
_STATE_REASON = "told"
"""The column of an operation's ``state_reason``, with the name that the first migration gave it."""
_COLUMNS = (
    f"number, plan, state, {_STATE_REASON} AS state_reason, actor, reason, key, matched, cutoff, batches, unknown_ids,"
    " requested_at, started_at, ended_at, acknowledged_by"
)


# --- requesting


class _Columns(NamedTuple):
    """A row of ``operations`` as it is requested."""

    kind: str
    plan: str
    filter: str
    asked: str
    actor: str
    reason: str
    key: str | None
    state: int
    cutoff: int
    matched: int
    has_verdict: int
    unknown_ids: str
    requested_at: float
    not_before: float | None
    ended_at: float | None
    state_reason: str = ""
    batches: int = 0
    served: int = 0


def request(ask: OperationRequest) -> Script[Operation]:
    """Store a request, unless it was stored before or is refused."""
    cutoff = yield from next_change()
    if ask.key is not None and (made := (yield from _made_before(ask.key, ask.asked))) is not None:
        return (yield from operation(made))
    yield from _check_free(ask.plan)
    matched = yield from _matched(ask.plan)
    yield from _check_not_all_taken(ask.plan, matched)
    unknown = [*(yield from _unknown_ids(ask.plan.filter)), *ask.malformed_ids]
    row = _columns_of(ask, cutoff, matched, unknown, (yield from now()))
    columns = [_STATE_REASON if name == "state_reason" else name for name in row._fields]
    number: int = yield from scalar(Sql(f"{insert('operations', columns)} RETURNING number", row))
    yield from _write_members(number, ask.plan, matched)
    outcome = f"{matched} messages" + (f", {len(unknown)} unknown ids" if unknown else "")
    yield from write_audit(ask.actor, ask.plan.kind.value, f"operation:{number}", ask.reason, outcome)
    return (yield from operation(number))


def _columns_of(ask: OperationRequest, cutoff: int, matched: int, unknown: list[str], time: float) -> _Columns:
    plan = ask.plan
    not_before = None if plan.at is None else plan.at.timestamp()
    event = OperationEvent.REQUEST
    if not matched:
        event = OperationEvent.FIND_NOTHING
    elif not_before is not None and not_before > time:
        event = OperationEvent.REQUEST_LATER
    return _Columns(
        kind=plan.kind.value,
        plan=_json(plan.to_json()),
        filter=_json(plan.filter.to_json()),
        asked=ask.asked,
        actor=ask.actor,
        reason=ask.reason,
        key=ask.key,
        state=int(FIRST_OPERATION_STATE[event]),
        cutoff=cutoff,
        matched=matched,
        has_verdict=int(plan.canary is None),
        unknown_ids=_json(unknown),
        requested_at=time,
        not_before=not_before,
        ended_at=None if matched else time,
    )


def _write_members(number: int, plan: Plan, matched: int) -> Script[None]:
    """Store the list of an operation's messages: it accounts for each of them."""
    found = yield from wanted(plan)
    page = f"SELECT f.number FROM @.failures f WHERE {found.text} AND f.number > ? ORDER BY f.number LIMIT ?"
    last = 0
    for start in range(0, matched, LARGEST_BATCH):
        last = yield from scalar(
            Sql(
                "INSERT INTO @.operation_members (operation, last, numbers)"
                f" SELECT ?, max(page.number), @list(page.number) FROM ({page}) page RETURNING last",
                [number, *found.values, last, min(LARGEST_BATCH, matched - start)],
            )
        )


def _made_before(key: str, asked: str) -> Script[int | None]:
    for number, before in (yield Sql("SELECT number, asked FROM @.operations WHERE key = ?", [key])):
        if before != asked:
            raise OperationConflict(number, f"is a different request with the key {key!r}; use a new key")
        return int(number)
    return None


def requested(key: str) -> Script[Operation | None]:
    """Return the operation that was requested with a key."""
    number = yield from scalar(Sql("SELECT number FROM @.operations WHERE key = ?", [key]))
    return None if number is None else (yield from operation(number))


def _check_free(plan: Plan) -> Script[None]:
    """Refuse a second operation on the same filter while the first is under way."""
    rows = yield Sql(
        f"SELECT number, kind, actor FROM @.operations WHERE filter = ? AND NOT ({_IS_ENDED}) ORDER BY number LIMIT 1",
        [_json(plan.filter.to_json())],
    )
    if rows:
        number, kind, actor = rows[0]
        who = f", requested by {one_line(actor, 100)}" if actor else ""
        what = "the same" if kind == plan.kind.value else f"{kind} with the same messages"
        raise OperationConflict(number, f"is doing {what}{who}; wait for it, or cancel it")


def wanted(plan: Plan) -> Script[Condition]:
    """Return the condition for the messages of an operation; with a limit, messages that others have are left out."""
    found = yield from condition(plan.filter)
    if plan.limit is None:
        return found
    return found.also(f"NOT EXISTS ({_TAKEN} AND {_is_held(plan)})")


def _is_held(plan: Plan) -> str:
    """Return the condition that a message's part ``p`` keeps it from an operation."""
    takes_over = PartEvent.CLOSE if plan.kind is not Kind.RECOVER else PartEvent.SUPERSEDE if plan.again else None
    free = () if takes_over is None else sources(PARTS, takes_over)
    return among("p.outcome", [each for each in CLAIMS if each not in free])


def _matched(plan: Plan) -> Script[int]:
    found = yield from wanted(plan)
    if plan.limit is None:
        return int((yield from scalar(Sql(f"SELECT {count_of(plan.filter, found)}", found.values))))
    matched: int = yield from scalar(Sql(f"SELECT count(*) FROM @.failures f WHERE {found.text}", found.values))
    return min(plan.limit, matched)


def _holders(plan: Plan) -> Script[list[Holder]]:
    """Return the operations that have some of the messages and keep them."""
    found = yield from condition(plan.filter)
    is_held = _is_held(plan)
    if Status.RETRY_ISSUED not in plan.filter.status:  # then none of them has been forwarded
        is_held = among("p.outcome", [Outcome.PENDING])
    rows = yield Sql(
        "SELECT h.operation, h.many, o.state, o.actor FROM (SELECT min(p.operation) AS operation, count(*) AS many"
        " FROM @.parts p JOIN @.failures f ON f.number = p.failure"
        f" WHERE {_IS_CLAIM} AND {is_held} AND {found.text}"
        # the plus keeps SQLite from reading all parts in the order of their operations
        " GROUP BY +p.operation) h JOIN @.operations o ON o.number = h.operation ORDER BY h.operation",
        found.values,
    )
    return [
        Holder(operation=number, count=many, state=OperationState(state), actor=actor)
        for number, many, state, actor in rows
    ]


def _check_not_all_taken(plan: Plan, matched: int) -> Script[None]:
    """Refuse an operation that would get no message, because other operations have them all."""
    holders = yield from _holders(plan)
    is_all = not matched if plan.limit is not None else sum(each.count for each in holders) >= matched
    if is_all and holders:
        first = holders[0].operation
        problem = in_the_way(holders).removeprefix(f"operation {first} ")
        raise OperationConflict(first, problem, operations=tuple(each.operation for each in holders))


def _unknown_ids(chosen: Filter) -> Script[list[str]]:
    if not chosen.ids:
        return []
    known = yield from scalars(Sql("SELECT id FROM @.failure_contents WHERE id IN @texts", [list(chosen.ids)]))
    return [each for each in chosen.ids if each not in known and each != NO_MESSAGE]


def dry_run(plan: Plan) -> Script[DryRun]:
    """Say what an operation would find."""
    matched = yield from _matched(plan)
    holders = yield from _holders(plan)
    kinds = yield from _by_destination(plan, is_held=bool(holders))
    by_destination: dict[str, int] = {}
    for (to, _), many in kinds.items():
        by_destination[to] = by_destination.get(to, 0) + many
    return DryRun(
        matched=matched,
        free=sum(by_destination.values()),
        taken=sum(each.count for each in holders),
        blocking=holders[0].operation if holders else None,
        holders=holders,
        by_destination=by_destination,
        still_failing=(yield from _still_failing(kinds)) if plan.kind is Kind.RECOVER else (),
        unknown_ids=(yield from _unknown_ids(plan.filter)),
    )


def _by_destination(plan: Plan, *, is_held: bool) -> Script[dict[tuple[str, str], int]]:
    """Return how many messages would go to which queue, by their exceptions.

    Args:
        plan: what is to be done.
        is_held: whether other operations have some of them.
    """
    able = sources(MESSAGES, plan.kind.event)
    if plan.again:
        able = (*able, Status.RETRY_ISSUED)
    is_counted = plan.limit is None and plan.filter.is_about_kinds
    rows = yield from (_counted(plan, able, is_held=is_held) if is_counted else _looked_at(plan, able))
    ways = yield from redirects()
    destinations: dict[tuple[str, str], int] = {}
    for queue, exception, many in rows:
        to: str = plan.redirect or ways.get(queue) or queue
        destinations[to, exception] = destinations.get((to, exception), 0) + many
    return destinations


def _counted(plan: Plan, able: Sequence[Status], *, is_held: bool) -> Script[Sequence[tuple[str, str, int]]]:
    """Return how many messages an operation would get of each queue and exception: all but those that others have."""
    found = (yield from condition(plan.filter)).also(among("f.status", able))
    by_kind = "GROUP BY f.queue, f.exception_type ORDER BY f.queue, f.exception_type"
    rows = yield Sql(
        "SELECT f.queue, f.exception_type, CAST(sum(f.n) AS bigint) FROM @.failure_counts f"
        f" WHERE {found.text} AND f.n > 0 {by_kind}",
        found.values,
    )
    held: dict[tuple[str, str], int] = {}
    if is_held:
        theirs = yield Sql(
            "SELECT f.queue, f.exception_type, count(*) FROM @.parts p JOIN @.failures f ON f.number = p.failure"
            f" WHERE {_IS_CLAIM} AND {_is_held(plan)} AND {found.text} {by_kind}",
            found.values,
        )
        held = {(queue, exception): many for queue, exception, many in theirs}
    free = [(queue, exception, many - held.get((queue, exception), 0)) for queue, exception, many in rows]
    return [each for each in free if each[2] > 0]


def _looked_at(plan: Plan, able: Sequence[Status]) -> Script[Sequence[Row]]:
    """Return the same for messages that are not counted by what they are chosen by."""
    found = yield from wanted(plan)
    limit = "" if plan.limit is None else f" ORDER BY f.number LIMIT {int(plan.limit)}"
    chosen = f"SELECT f.number, f.queue, f.exception_type, f.status FROM @.failures f WHERE {found.text}{limit}"
    return (
        yield Sql(
            f"SELECT f.queue, f.exception_type, count(*) FROM ({chosen}) f WHERE {among('f.status', able)}"
            f" AND NOT EXISTS ({_TAKEN} AND {_is_held(plan)})"
            " GROUP BY f.queue, f.exception_type ORDER BY f.queue, f.exception_type",
            found.values,
        )
    )


def _still_failing(kinds: Mapping[tuple[str, str], int]) -> Script[list[StillFailing]]:
    """Return the exceptions of messages with which others failed lately where these would go; from the counts."""
    rows = yield Sql(
        "SELECT f.queue, f.exception_type, max(f.last_failed_at) FROM @.failure_counts f"
        f" WHERE {among('f.status', [Status.UNRESOLVED])} AND f.n > 0 AND f.queue IN @texts"
        " GROUP BY f.queue, f.exception_type",
        [sorted({queue for queue, _ in kinds})],
    )
    time = yield from now()
    last = {(queue, exception): at for queue, exception, at in rows if exception and at >= time - _LATELY_S}
    return [
        StillFailing(destination=kind[0], exception_type=kind[1], count=many, last_failed_at=utc(last[kind]))
        for kind, many in kinds.items()
        if kind in last
    ]


# --- looking


def operation(number: int, *, newcomers: bool = False) -> Script[Operation]:
    """Return an operation with its figures."""
    rows = yield Sql(f"SELECT {_COLUMNS} FROM @.operations WHERE number = ?", [number])
    if not rows:
        raise OperationNotFound(number)
    found = yield from _with_figures(rows[0])
    if newcomers and not found.is_over:
        found = replace(found, newcomers=(yield from _newcomers(found, rows[0]["cutoff"])))
    return found


def operations(*, is_open: bool | None = None, before: int | None = None, limit: int = 50) -> Script[list[Operation]]:
    """Return operations, the newest first."""
    where, values = "TRUE", list[object]()
    if is_open is not None:
        where += f" AND NOT ({_IS_ENDED})" if is_open else f" AND {_IS_ENDED}"
    if before is not None:
        where += " AND number < ?"
        values.append(before)
    rows = yield Sql(
        f"SELECT {_COLUMNS} FROM @.operations WHERE {where} ORDER BY number DESC LIMIT ?", [*values, limit]
    )
    found: list[Operation] = []
    for row in rows:
        found.append((yield from _with_figures(row)))  # noqa: PERF401 - a generator cannot yield from a comprehension
    return found


def ended_since(since: datetime, limit: int = 1_000) -> Script[list[Operation]]:
    """Return the operations that have ended since an instant, the first to end first."""
    rows = yield Sql(
        f"SELECT {_COLUMNS} FROM @.operations WHERE ended_at >= ? ORDER BY ended_at, number LIMIT ?",
        [since.timestamp(), limit],
    )
    found: list[Operation] = []
    for row in rows:
        found.append((yield from _with_figures(row)))  # noqa: PERF401 - as above
    return found


def _with_figures(row: Row) -> Script[Operation]:
    number = row["number"]
    (counted,) = yield Sql(f"SELECT {_OUTCOMES} FROM @.parts WHERE operation = ?", [number])
    left: int = yield from scalar(Sql("SELECT count(*) FROM @.batches WHERE operation = ?", [number]))
    return Operation(
        number=number,
        plan=Plan.from_json(json.loads(row["plan"])),
        state=OperationState(row["state"]),
        state_reason=row["state_reason"],
        actor=row["actor"],
        reason=row["reason"],
        key=row["key"],
        progress=progress(row["matched"], dict(zip(Outcome, counted, strict=True))),
        batches=row["batches"],
        batches_left=left,
        unknown_ids=tuple(json.loads(row["unknown_ids"])),
        requested_at=utc(row["requested_at"]),
        started_at=None if row["started_at"] is None else utc(row["started_at"]),
        ended_at=None if row["ended_at"] is None else utc(row["ended_at"]),
        acknowledged_by=row["acknowledged_by"],
    )


def _newcomers(operation: Operation, cutoff: int) -> Script[int]:
    """Count messages that match now, and failed or changed after the request."""
    found = yield from condition(operation.plan.filter)
    many: int = yield from scalar(
        Sql(
            f"SELECT count(*) FROM @.failures f WHERE {found.text} AND f.change > ?"
            " AND NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.operation = ? AND p.failure = f.number)",
            [*found.values, cutoff, operation.number],
        )
    )
    return many


def parts(number: int, outcomes: Sequence[Outcome] = (), *, after: int = 0, limit: int = 100) -> Script[list[Part]]:
    """Return the messages of an operation, with what became of each."""
    if not (yield Sql("SELECT 1 FROM @.operations WHERE number = ?", [number])):
        raise OperationNotFound(number)
    rows = yield Sql(
        f"SELECT {PART}, c.id FROM @.parts p LEFT JOIN @.failure_contents c ON c.number = p.failure"
        f" WHERE p.operation = ? AND p.failure > ? AND {among('p.outcome', outcomes or Outcome)}"
        " ORDER BY p.failure LIMIT ?",
        [number, after, limit],
    )
    return [part_of(row, row["id"] or "") for row in rows]


# --- deciding


def change(number: int, event: OperationEvent, *, actor: str = "", reason: str = "") -> Script[Operation]:
    """Change the state of an operation for a person."""
    state = yield from _locked_state(number)
    if event is OperationEvent.RESUME and (yield from _is_early(number)):
        event = OperationEvent.RESUME_EARLY
    to = OPERATIONS.get((state, event))
    if to is None:
        raise OperationConflict(number, f"{event.value.replace('is ', 'cannot be ', 1)}: it is {state.word}")
    yield from move(number, to, reason)
    if state is OperationState.WATCHING:  # a person who resumes it has judged the canaries
        yield Sql("UPDATE @.operations SET has_verdict = 1 WHERE number = ?", [number])
    yield from write_audit(actor, event.name.lower(), f"operation:{number}", reason, to.word)
    return (yield from operation(number))


def _is_early(number: int) -> Script[bool]:
    """Say whether an operation is scheduled for later."""
    not_before = yield from scalar(Sql("SELECT not_before FROM @.operations WHERE number = ?", [number]))
    return not_before is not None and not_before > (yield from now())


def _locked_state(number: int) -> Script[OperationState]:
    """Return the state of an operation, and lock it."""
    state = yield from scalar(Sql("SELECT state FROM @.operations WHERE number = ? @lock", [number]))
    if state is None:
        raise OperationNotFound(number)
    return OperationState(state)


def move(number: int, to: OperationState, reason: str = "") -> Script[None]:
    """Store an operation's new state."""
    ended_at = (yield from now()) if to in ENDED else None
    yield Sql(
        f"UPDATE @.operations SET state = ?, {_STATE_REASON} = ?, ended_at = ? WHERE number = ?",
        [int(to), reason, ended_at, number],
    )
    if to in ENDED:
        yield Sql("DELETE FROM @.leases WHERE name = ?", [f"operation/{number}"])


def advance(lease: Lease, operation: int, event: OperationEvent, reason: str) -> Script[bool]:
    """Change the state of an operation under way; False if its state does not allow that."""
    yield from check(lease)
    to = OPERATIONS.get(((yield from _locked_state(operation)), event))
    if to is None:
        return False
    yield from move(operation, to, storable(reason))
    if event in (OperationEvent.APPROVE, OperationEvent.STOP):  # the canaries have been judged
        yield Sql("UPDATE @.operations SET has_verdict = 1 WHERE number = ?", [operation])
    yield from write_audit("", event.name.lower(), f"operation:{operation}", storable(reason), to.word)
    return True


def set_rate(number: int, rate: float | None, *, actor: str = "") -> Script[Operation]:
    """Change the rate of an operation that is under way."""
    state = yield from _locked_state(number)
    if state in ENDED:
        raise OperationConflict(number, f"has no rate to change: it is {state.word}")
    plan: dict[str, Any] = json.loads(
        (yield from scalar(Sql("SELECT plan FROM @.operations WHERE number = ?", [number])))
    )
    changed_plan = Plan.from_json(plan | {"rate": rate})
    yield Sql("UPDATE @.operations SET plan = ? WHERE number = ?", [_json(changed_plan.to_json()), number])
    yield from write_audit(actor, "set-rate", f"operation:{number}", "", "none" if rate is None else f"{rate:g}/s")
    return (yield from operation(number))


def acknowledge(number: int, *, actor: str = "") -> Script[None]:
    """Note that a person has seen how an operation ended."""
    state = yield from _locked_state(number)
    if state not in ENDED:
        raise OperationConflict(number, f"cannot be acknowledged yet: it is {state.word}")
    yield Sql("UPDATE @.operations SET acknowledged_by = ? WHERE number = ?", [actor, number])
    yield from write_audit(actor, "acknowledge", f"operation:{number}", "", state.word)


def end_if_done(operation: int) -> Script[OperationState]:
    """End an operation if it has nothing left to do; return its state."""
    ((number, is_at_work),) = yield Sql(
        f"SELECT o.state, {HAS_MEMBERS} OR EXISTS (SELECT 1 FROM @.batches b WHERE b.operation = o.number)"
        " FROM @.operations o WHERE o.number = ?",
        [operation],
    )
    state = OperationState(number)
    to = state if is_at_work else changed(OPERATIONS, state, OperationEvent.FINISH)
    if to is not state:
        yield from move(operation, to)
    return to


# --- redirects


def redirects() -> Script[dict[str, str]]:
    """Return where failed messages go instead of the queue they failed in."""
    rows = yield Sql("SELECT queue, target FROM @.redirects ORDER BY queue")
    return dict(rows)


def redirect(queue: str, to: str | None, *, actor: str = "") -> Script[None]:
    """Make a redirect, or remove one."""
    yield from next_change()  # one at a time, so that two cannot make a chain together
    ways = yield from redirects()
    if to is None:
        if queue not in ways:
            raise RedirectRefused(queue, "there is no redirect to remove")
        yield Sql("DELETE FROM @.redirects WHERE queue = ?", [queue])
    else:
        _check_no_chain(queue, to, ways)
        yield Sql("INSERT INTO @.redirects (queue, target) VALUES (?, ?)", [queue, to])
    yield from write_audit(actor, "redirect", f"queue:{queue}", "", f"to {to}" if to else "removed")


def _check_no_chain(queue: str, to: str, ways: dict[str, str]) -> None:
    if queue == to:
        raise RedirectRefused(queue, "they go there anyway")
    if queue in ways:
        raise RedirectRefused(queue, f"they go to {ways[queue]!r} already; remove that redirect first")
    if to in ways:
        raise RedirectRefused(queue, f"those of {to!r} go to {ways[to]!r}; redirect to {ways[to]!r} instead")
    into = sorted(other for other, other_to in ways.items() if other_to == queue)
    if into:
        raise RedirectRefused(queue, f"those of {', '.join(map(repr, into))} go to {queue!r}; change these first")


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
