# SPDX-License-Identifier: MIT
"""Operations in SQL: requests, what people decide about them, and their figures."""

import json
from collections.abc import Sequence
from typing import Any

from redrive.clock import utc
from redrive.engines.sql.recovery.audit import write_audit
from redrive.engines.sql.recovery.failures import part_of
from redrive.engines.sql.recovery.filter_sql import Condition, condition
from redrive.engines.sql.recovery.leases import check
from redrive.engines.sql.recovery.recording import next_change
from redrive.engines.sql.script import Row, Script, Sql, listed
from redrive.errors import OperationConflict, OperationNotFound, RedirectRefused
from redrive.printable import one_line
from redrive.recovery.filter import Filter
from redrive.recovery.operation import LARGEST_BATCH, Holder, Kind, Operation, Plan, in_the_way, progress
from redrive.recovery.records import NOBODY, Ask, DryRun, Lease, Part, storable
from redrive.recovery.states import (
    CLAIMS,
    ENDED,
    MESSAGES,
    OPERATIONS,
    OperationEvent,
    OperationState,
    Outcome,
    Status,
    changed,
    sources,
)

HAS_MEMBERS = "EXISTS (SELECT 1 FROM @.operation_members m WHERE m.operation = o.number)"
"""Whether some messages of the operation ``o`` have not had their turn yet."""

_ENDED = listed(ENDED)
_CLAIMED = f"p.outcome IN {listed(CLAIMS)}"  # said wherever a message's claim is looked for: its index is for these
_TAKEN = f"SELECT 1 FROM @.parts p WHERE p.failure = f.number AND {_CLAIMED} AND p.outcome IN"
_OUTCOMES = ", ".join(f"count(*) FILTER (WHERE outcome = {int(each)})" for each in Outcome)  # unlike groups, unsorted
_COLUMNS = (
    "number, plan, state, told, actor, reason, key, matched, cutoff, batches, unknown_ids, requested_at, started_at,"
    " ended_at, acknowledged_by"
)


# --- requesting


def request(now: float, ask: Ask) -> Script[Operation]:
    """Store a request, unless it is one that was made before or that cannot be."""
    yield from next_change()
    rows = yield Sql("SELECT value FROM @.ledger_changes")
    cutoff: int = rows[0][0]
    if ask.key is not None and (made := (yield from _made_before(ask.key, ask.asked))) is not None:
        return (yield from operation(now, made))
    yield from _check_free(ask.plan)
    matched = yield from _matched(ask.plan)
    yield from _check_not_all_taken(ask.plan, matched)
    unknown = [*(yield from _unknown_ids(ask.plan.filter)), *ask.malformed_ids]
    state = _first_state(ask.plan, matched, now)
    rows = yield Sql(
        "INSERT INTO @.operations (kind, plan, filter, asked, actor, reason, key, state, told, cutoff, matched,"
        " has_verdict, batches, served, unknown_ids, requested_at, not_before, ended_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, '', ?, ?, ?, 0, 0, ?, ?, ?, ?) RETURNING number",
        [
            *(ask.plan.kind.value, _json(ask.plan.to_json()), _json(ask.plan.filter.to_json()), ask.asked),
            *(ask.actor, ask.reason, ask.key, int(state)),
            *(cutoff, matched, int(ask.plan.canary is None), _json(unknown), now),
            None if ask.plan.not_before is None else ask.plan.not_before.timestamp(),
            None if matched else now,
        ],
    )
    number: int = rows[0][0]
    yield from _write_members(number, ask.plan, matched)
    told = f"{matched} messages" + (f", {len(unknown)} unknown ids" if unknown else "")
    yield from write_audit(now, ask.actor, ask.plan.kind.value, f"operation:{number}", ask.reason, told)
    return (yield from operation(now, number))


def _write_members(number: int, plan: Plan, matched: int) -> Script[None]:
    """Write down which messages an operation is about: whatever becomes of them, it accounts for these."""
    found = yield from wanted(plan)
    page = f"SELECT f.number FROM @.failures f WHERE {found.text} AND f.number > ? ORDER BY f.number LIMIT ?"
    last = 0
    for start in range(0, matched, LARGEST_BATCH):
        rows = yield Sql(
            "INSERT INTO @.operation_members (operation, last, numbers)"
            f" SELECT ?, max(page.number), @list(page.number) FROM ({page}) page RETURNING last",
            [number, *found.values, last, min(LARGEST_BATCH, matched - start)],
        )
        last = rows[0][0]


def _first_state(plan: Plan, matched: int, now: float) -> OperationState:
    if not matched:
        return OperationState.COMPLETED
    if plan.not_before is not None and plan.not_before.timestamp() > now:
        return OperationState.SCHEDULED
    return OperationState.RUNNING


def _made_before(key: str, asked: str) -> Script[int | None]:
    rows = yield Sql("SELECT number, asked FROM @.operations WHERE key = ?", [key])
    if not rows:
        return None
    number: int = rows[0][0]
    if rows[0][1] != asked:
        raise OperationConflict(number, f"was requested with the key {key!r} too, and is another; use a new key")
    return number


def requested(now: float, key: str) -> Script[Operation | None]:
    """Return the operation that was requested with a key."""
    rows = yield Sql("SELECT number FROM @.operations WHERE key = ?", [key])
    return (yield from operation(now, rows[0][0])) if rows else None


def _check_free(plan: Plan) -> Script[None]:
    """Refuse a second operation on the same filter while the first is under way."""
    rows = yield Sql(
        f"SELECT number, kind, actor FROM @.operations WHERE filter = ? AND state NOT IN {_ENDED}"
        " ORDER BY number LIMIT 1",
        [_json(plan.filter.to_json())],
    )
    if rows:
        number, kind, actor = rows[0]
        who = f", requested by {one_line(actor, 100)}" if actor else ""
        what = "the same" if kind == plan.kind.value else f"{kind} with the same messages"
        raise OperationConflict(number, f"is doing {what}{who}; wait for it, or cancel it")


def wanted(plan: Plan) -> Script[Condition]:
    """Return the condition of what an operation wants; if it wants so many at most, then none that others have."""
    found = yield from condition(plan.filter)
    if plan.limit is None:
        return found
    return found.also(f"NOT EXISTS ({_TAKEN} {_holding(plan)})")


def _holding(plan: Plan) -> str:
    """Return the outcomes that keep a message from an operation."""
    holding = [Outcome.PENDING]
    if plan.kind is Kind.RECOVER and not plan.again:
        holding.append(Outcome.FORWARDED)
    return listed(holding)


def _matched(plan: Plan) -> Script[int]:
    found = yield from wanted(plan)
    rows = yield Sql(f"SELECT count(*) FROM @.failures f WHERE {found.text}", found.values)
    matched: int = rows[0][0]
    return matched if plan.limit is None else min(plan.limit, matched)


def _holders(plan: Plan) -> Script[list[Holder]]:
    """Return the operations that have some of the messages and do not let go of them."""
    found = yield from condition(plan.filter)
    holding = _holding(plan) if Status.RETRY_ISSUED in plan.filter.status else f"({int(Outcome.PENDING)})"
    rows = yield Sql(
        "SELECT h.operation, h.many, o.state, o.actor FROM (SELECT min(p.operation) AS operation, count(*) AS many"
        " FROM @.parts p JOIN @.failures f ON f.number = p.failure"
        f" WHERE {_CLAIMED} AND p.outcome IN {holding} AND {found.text}"
        # the plus keeps SQLite from reading all parts in the order of their operations
        " GROUP BY +p.operation) h JOIN @.operations o ON o.number = h.operation ORDER BY h.operation",
        found.values,
    )
    return [
        Holder(operation=number, count=many, state=OperationState(state), actor=actor)
        for number, many, state, actor in rows
    ]


def _check_not_all_taken(plan: Plan, matched: int) -> Script[None]:
    """Refuse an operation that would get nothing, because another has it all."""
    holders = yield from _holders(plan)
    is_all = not matched if plan.limit is not None else sum(each.count for each in holders) >= matched
    if is_all and holders:
        first = holders[0].operation
        problem = in_the_way(holders).removeprefix(f"operation {first} ")
        raise OperationConflict(first, problem, operations=tuple(each.operation for each in holders))


def _unknown_ids(chosen: Filter) -> Script[list[str]]:
    if not chosen.ids:
        return []
    rows = yield Sql("SELECT id FROM @.failure_contents WHERE id IN @texts", [list(chosen.ids)])
    known = {row[0] for row in rows}
    return [each for each in chosen.ids if each not in known and each != NOBODY]


def dry_run(_now: float, plan: Plan) -> Script[DryRun]:
    """Say what an operation would find."""
    matched = yield from _matched(plan)
    holders = yield from _holders(plan)
    by_destination = yield from _by_destination(plan)
    return DryRun(
        matched=matched,
        free=sum(by_destination.values()),
        taken=sum(each.count for each in holders),
        blocking=holders[0].operation if holders else None,
        holders=holders,
        by_destination=by_destination,
        unknown_ids=(yield from _unknown_ids(plan.filter)),
    )


def _by_destination(plan: Plan) -> Script[dict[str, int]]:
    """Return how many messages would go where."""
    found = yield from wanted(plan)
    able = [int(each) for each in sources(MESSAGES, plan.kind.event)]
    if plan.again:
        able.append(int(Status.RETRY_ISSUED))
    limit = "" if plan.limit is None else f" ORDER BY f.number LIMIT {int(plan.limit)}"
    chosen = f"SELECT f.number, f.queue, f.status FROM @.failures f WHERE {found.text}{limit}"
    rows = yield Sql(
        f"SELECT f.queue, count(*) FROM ({chosen}) f WHERE f.status IN @ints"
        f" AND NOT EXISTS ({_TAKEN} {_holding(plan)})"
        " GROUP BY f.queue ORDER BY f.queue",
        [*found.values, able],
    )
    ways = yield from redirects(0.0)
    destinations: dict[str, int] = {}
    for row in rows:
        to = plan.redirect or ways.get(row[0]) or str(row[0])
        destinations[to] = destinations.get(to, 0) + row[1]
    return destinations


# --- looking


def operation(_now: float, number: int, *, newcomers: bool = False) -> Script[Operation]:
    """Return an operation with its figures."""
    rows = yield Sql(f"SELECT {_COLUMNS} FROM @.operations WHERE number = ?", [number])
    if not rows:
        raise OperationNotFound(number)
    late = 0
    if newcomers and OperationState(rows[0][2]) not in ENDED:
        late = yield from _newcomers(number, Plan.from_json(json.loads(rows[0][1])), rows[0][8])
    return (yield from _with_figures(rows[0], late))


def operations(
    _now: float, *, is_open: bool | None = None, before: int | None = None, limit: int = 50
) -> Script[list[Operation]]:
    """Return operations, the newest first."""
    where, values = "TRUE", list[object]()
    if is_open is not None:
        where += f" AND state {'NOT ' if is_open else ''}IN {_ENDED}"
    if before is not None:
        where += " AND number < ?"
        values.append(before)
    rows = yield Sql(
        f"SELECT {_COLUMNS} FROM @.operations WHERE {where} ORDER BY number DESC LIMIT ?", [*values, limit]
    )
    found: list[Operation] = []
    for row in rows:
        found.append((yield from _with_figures(row, 0)))  # noqa: PERF401 - a generator cannot yield from a comprehension
    return found


def _with_figures(row: Row, newcomers: int) -> Script[Operation]:
    number = row[0]
    counted = yield Sql(f"SELECT {_OUTCOMES} FROM @.parts WHERE operation = ?", [number])
    left = yield Sql("SELECT count(*) FROM @.batches WHERE operation = ?", [number])
    counts = dict(zip(Outcome, counted[0], strict=True))
    return Operation(
        number=number,
        plan=Plan.from_json(json.loads(row[1])),
        state=OperationState(row[2]),
        told=row[3],
        actor=row[4],
        reason=row[5],
        key=row[6],
        progress=progress(row[7], counts),
        batches=row[9],
        batches_left=left[0][0],
        newcomers=newcomers,
        unknown_ids=tuple(json.loads(row[10])),
        requested_at=utc(row[11]),
        started_at=None if row[12] is None else utc(row[12]),
        ended_at=None if row[13] is None else utc(row[13]),
        acknowledged_by=row[14],
    )


def _newcomers(number: int, plan: Plan, cutoff: int) -> Script[int]:
    """Count what matches now, and came or changed after the request."""
    found = yield from condition(plan.filter)
    rows = yield Sql(
        f"SELECT count(*) FROM @.failures f WHERE {found.text} AND f.change > ?"
        " AND NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.operation = ? AND p.failure = f.number)",
        [*found.values, cutoff, number],
    )
    newcomers: int = rows[0][0]
    return newcomers


def parts(
    _now: float, number: int, outcomes: Sequence[Outcome] = (), *, after: int = 0, limit: int = 100
) -> Script[list[Part]]:
    """Return the messages of an operation, with what became of each."""
    rows = yield Sql("SELECT 1 FROM @.operations WHERE number = ?", [number])
    if not rows:
        raise OperationNotFound(number)
    chosen = [int(each) for each in outcomes or Outcome]
    rows = yield Sql(
        "SELECT p.operation, p.failure, p.outcome, p.reason, p.at, c.id FROM @.parts p"
        " LEFT JOIN @.failure_contents c ON c.number = p.failure"
        " WHERE p.operation = ? AND p.failure > ? AND p.outcome IN @ints ORDER BY p.failure LIMIT ?",
        [number, after, chosen, limit],
    )
    return [part_of(row, row[5] or "") for row in rows]


# --- deciding


def change(now: float, number: int, event: OperationEvent, *, actor: str = "", told: str = "") -> Script[Operation]:
    """Let something happen to an operation."""
    state = yield from _state_of(number)
    if event is OperationEvent.RESUME and (yield from _is_early(now, number)):
        event = OperationEvent.RESUME_EARLY
    to = OPERATIONS.get((state, event))
    if to is None:
        raise OperationConflict(number, f"{event.value.replace('is ', 'cannot be ', 1)}: it is {state.word}")
    yield from move(now, number, to, told)
    if state is OperationState.WATCHING:  # whoever resumes it has judged the canaries for himself
        yield Sql("UPDATE @.operations SET has_verdict = 1 WHERE number = ?", [number])
    yield from write_audit(now, actor, event.name.lower(), f"operation:{number}", told, to.word)
    return (yield from operation(now, number))


def _is_early(now: float, number: int) -> Script[bool]:
    """Say whether the time has not come yet that an operation was asked for."""
    rows = yield Sql("SELECT not_before FROM @.operations WHERE number = ?", [number])
    return rows[0][0] is not None and rows[0][0] > now


def _state_of(number: int) -> Script[OperationState]:
    rows = yield Sql("SELECT state FROM @.operations WHERE number = ? @lock", [number])
    if not rows:
        raise OperationNotFound(number)
    return OperationState(rows[0][0])


def move(now: float, number: int, to: OperationState, told: str = "") -> Script[None]:
    """Store an operation's new state."""
    yield Sql(
        "UPDATE @.operations SET state = ?, told = ?, ended_at = ? WHERE number = ?",
        [int(to), told, now if to in ENDED else None, number],
    )
    if to in ENDED:
        yield Sql("DELETE FROM @.leases WHERE name = ?", [f"operation/{number}"])


def halt(now: float, lease: Lease, number: int, told: str) -> Script[bool]:
    """Pause an operation that cannot be worked on, whatever its plan says; False if it is not under way."""
    yield from check(now, lease)
    to = OPERATIONS.get(((yield from _state_of(number)), OperationEvent.PAUSE))
    if to is None:
        return False
    yield from move(now, number, to, storable(told))
    yield from write_audit(now, "", "halt", f"operation:{number}", storable(told), to.word)
    return True


def set_rate(now: float, number: int, rate: float | None, *, actor: str = "") -> Script[Operation]:
    """Change the rate of an operation that is under way."""
    state = yield from _state_of(number)
    if state in ENDED:
        raise OperationConflict(number, f"has no rate to change: it is {state.word}")
    rows = yield Sql("SELECT plan FROM @.operations WHERE number = ?", [number])
    told: dict[str, Any] = json.loads(rows[0][0])
    told.pop("rate", None)
    plan = Plan.from_json(told if rate is None else told | {"rate": rate})
    yield Sql("UPDATE @.operations SET plan = ? WHERE number = ?", [_json(plan.to_json()), number])
    yield from write_audit(now, actor, "set-rate", f"operation:{number}", "", "none" if rate is None else f"{rate:g}/s")
    return (yield from operation(now, number))


def acknowledge(now: float, number: int, *, actor: str = "") -> Script[None]:
    """Note that somebody has seen how an operation ended."""
    state = yield from _state_of(number)
    if state not in ENDED:
        raise OperationConflict(number, f"cannot be acknowledged yet: it is {state.word}")
    yield Sql("UPDATE @.operations SET acknowledged_by = ? WHERE number = ?", [actor, number])
    yield from write_audit(now, actor, "acknowledge", f"operation:{number}", "", state.word)


def end_if_done(now: float, operation: int) -> Script[OperationState]:
    """Bring an operation to its end if nothing of it is left; return its state."""
    rows = yield Sql(
        f"SELECT o.state, {HAS_MEMBERS} OR EXISTS (SELECT 1 FROM @.batches b WHERE b.operation = o.number)"
        " FROM @.operations o WHERE o.number = ?",
        [operation],
    )
    state, is_at_work = OperationState(rows[0][0]), rows[0][1]
    to = state if is_at_work else changed(OPERATIONS, state, OperationEvent.FINISH)
    if to is not state:
        yield from move(now, operation, to)
    return to


# --- redirects


def redirects(_now: float) -> Script[dict[str, str]]:
    """Return where failed messages go instead of the queue they failed in."""
    rows = yield Sql("SELECT queue, target FROM @.redirects ORDER BY queue")
    return {row[0]: row[1] for row in rows}


def redirect(now: float, queue: str, to: str | None, *, actor: str = "") -> Script[None]:
    """Make a redirect, or remove one."""
    yield from next_change()  # one at a time, so that two cannot make a chain together
    ways = yield from redirects(now)
    if to is None:
        if queue not in ways:
            raise RedirectRefused(queue, "there is no redirect to remove")
        yield Sql("DELETE FROM @.redirects WHERE queue = ?", [queue])
    else:
        _check_no_chain(queue, to, ways)
        yield Sql("INSERT INTO @.redirects (queue, target) VALUES (?, ?)", [queue, to])
    yield from write_audit(now, actor, "redirect", f"queue:{queue}", "", f"to {to}" if to else "removed")


def _check_no_chain(queue: str, to: str, ways: dict[str, str]) -> None:
    if queue == to:
        raise RedirectRefused(queue, "they go there anyway")
    if queue in ways:
        raise RedirectRefused(queue, f"they go to {ways[queue]!r} already; remove that redirect first")
    if to in ways:
        raise RedirectRefused(queue, f"those of {to!r} go to {ways[to]!r}; redirect to {ways[to]!r} instead")
    into = sorted(other for other, target in ways.items() if target == queue)
    if into:
        raise RedirectRefused(queue, f"those of {', '.join(map(repr, into))} go to {queue!r}; change these first")


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
