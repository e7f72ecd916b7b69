# SPDX-License-Identifier: MIT
"""Records failures and confirmations in SQL: what each adds to the record of a message."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from redrive.broker import Message, tallies
from redrive.engines import stored
from redrive.engines.sql.history.failure_tallies import count_failed, count_in_lanes, count_recovered
from redrive.engines.sql.recovery import attempt_details
from redrive.engines.sql.recovery.attempt_details import SharedTrace
from redrive.engines.sql.recovery.group_states import count_outcomes
from redrive.engines.sql.recovery.state_sql import among, transition
from redrive.engines.sql.recovery.traces import OF_LAST, TRACES, SharedTraces
from redrive.engines.sql.script import (
    Inserts,
    Keyed,
    Many,
    Script,
    Sql,
    TableColumns,
    assigned,
    insert,
    now,
    plain,
    scalar,
)
from redrive.recovery.port import (
    ATTEMPTS_KEPT,
    CLAIMS,
    MESSAGES,
    NOTHING,
    PARTS,
    Alike,
    AlikeArrival,
    Arrival,
    Confirmation,
    Confirmed,
    FailureEvent,
    Folded,
    Heard,
    Outcome,
    PartEvent,
    Record,
    Recorded,
    Status,
    add,
    belongs,
    trimmed,
    untagged,
)
from redrive.transition_table import sources

AnyArrival: TypeAlias = Arrival | AlikeArrival

_IS_CLAIM = among("outcome", CLAIMS)
_LONGEST_REASON = 300
_TO_CONFIRM = sources(PARTS, PartEvent.CONFIRM)


_NEXT_CHANGE = Keyed("UPDATE @.ledger_changes SET value = value + 1 RETURNING 'ledger', value", (), "ledger")
"""Changes of the ledger are not run together: each has to see what those before it have done."""


def next_change() -> Script[int]:
    """Return the number of a change, and let other changes wait until this transaction ends."""
    ((_, number),) = yield _NEXT_CHANGE
    return int(number)


# --- failures


@dataclass(slots=True)
class _Known:
    """What the ledger has about the messages that failures may belong to.

    Attributes:
        records: by the number of the failed message.
        ids: the id of each.
        numbers: the number of each, by its id.
    """

    records: dict[int, Record] = field(default_factory=dict[int, Record])
    ids: dict[int, str] = field(default_factory=dict[int, str])
    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def placed(self, arrival: Arrival) -> tuple[str, Arrival]:
        """Return the id of the failed message that a failure belongs to, and the failure, without an invalid tag."""
        number = 0 if arrival.tag is None else arrival.tag.failure
        if number in self.records and belongs(arrival, self.records[number]):
            return self.ids[number], arrival
        is_edited = arrival.tag is not None and arrival.tag.is_edited
        return arrival.id, arrival if is_edited else untagged(arrival)


def record(arrivals: Sequence[AnyArrival]) -> Script[list[Recorded]]:
    """Record failures; say for each to which failed message it belongs, and whether it was new."""
    change = yield from next_change()
    known = yield from _known(arrivals)
    kinds = _one_of_each_kind(arrivals)
    shared = SharedTraces((yield from _store_groups(kinds)))
    yield from _store_names(kinds)
    firsts = _firsts(arrivals, known, shared)
    others = [_whole(each) for each in arrivals if each.id not in firsts]
    folded, homes, news = _folded(known, others)
    changed = {known.numbers[id_]: each for id_, each in folded.items() if id_ in known.numbers and any(each.is_new)}
    fresh = {id_: each for id_, each in folded.items() if id_ not in known.numbers}
    places = iter(zip(homes, news, strict=True))
    recorded = [Recorded(each.id, is_new=True) if each.id in firsts else Recorded(*next(places)) for each in arrivals]
    numbers = yield from _new_numbers([each.id for each in recorded if each.id not in known.numbers])
    edits = {id_: known.ids.get(original) for id_, original in _originals(fresh).items()}
    again = {number: _details_of(each.last, shared) for number, each in changed.items() if each.last is not None}
    new = [_new_rows(id_, each, change, shared) for id_, each in fresh.items()]
    yield Inserts(
        {
            _FAILURES: [
                *_first_rows(firsts.values(), change, numbers),
                *[(*row, edits.get(id_), numbers[id_]) for id_, row, _ in new],
            ],
            _CONTENTS: [
                *_first_contents(firsts.values(), numbers),
                *[(*row, id_, numbers[id_]) for id_, _, row in new],
            ],
            TRACES: shared.rows,
        }
    )
    yield from _store_failed_again(changed)  # while they are in the groups from which they were sent
    yield from _store_untagged(changed)
    yield from _store_more(changed, change)
    yield from _store_attempts({numbers[id_]: each for id_, each in fresh.items()}, changed, again)
    yield from _store_edits(fresh, change)
    yield from count_failed(_counted(firsts.values(), others, news))
    return recorded


def recording(arrivals: Sequence[AnyArrival], recorded: list[Recorded]) -> Script[None]:
    """Record failures as a part of a transaction; put into a list what has become of each."""
    recorded[:] = yield from record(arrivals)


def _whole(arrival: AnyArrival) -> Arrival:
    return arrival.whole if isinstance(arrival, AlikeArrival) else arrival


def _one_of_each_kind(arrivals: Sequence[AnyArrival]) -> list[AnyArrival]:
    """Return failures without those that have the same queue, exception and groups as another."""
    alike = {each.alike: each for each in arrivals if isinstance(each, AlikeArrival)}
    return [*alike.values(), *[each for each in arrivals if isinstance(each, Arrival)]]


def _counted(
    firsts: Iterable["_First"], others: Sequence[Arrival], news: Sequence[bool]
) -> Counter[tuple[str, tuple[str, ...]]]:
    """Return how many of the failures are new, by their queues and groups."""
    counted: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for alike, n in Counter([arrival.alike for arrival, _ in firsts]).items():
        counted[alike.failure.queue, tuple(group.id for group in alike.groups)] += n
    for arrival, is_new in zip(others, news, strict=True):
        counted[arrival.failure.queue, tuple(group.id for group in arrival.groups)] += is_new
    return +counted


def _folded(known: _Known, arrivals: Sequence[Arrival]) -> tuple[dict[str, Folded], list[str], list[bool]]:
    """Add each failure to its record, one after another: each may change where the next belongs."""
    folded: dict[str, Folded] = {}
    homes: list[str] = []
    news: list[bool] = []
    for arrival in arrivals:
        id_, placed = known.placed(arrival)
        number = known.numbers.get(id_, 0)
        before = folded.get(id_)
        if before is None:
            before = Folded(record=known.records[number], is_new=()) if number else NOTHING
        folded[id_] = after = add(before, placed)
        if number:
            known.records[number] = after.record
        homes.append(id_)
        news.append(after.is_new[-1])
    return folded, homes, news


def _originals(fresh: Mapping[str, Folded]) -> dict[str, int]:
    """Return the numbers of the messages that new failures are edited copies of."""
    tags = ((id_, _last(each).tag) for id_, each in fresh.items())
    return {id_: tag.failure for id_, tag in tags if tag is not None and tag.is_edited}


class _FailureRow(NamedTuple):
    """The columns of ``failures`` that a failure sets."""

    queue: str
    status: int
    message_type: str
    exception_type: str
    exception_group: str
    attempts: int
    first_failed_at: float
    failed_at: float
    attempt_key: str
    attempt_operation: int | None
    change: int
    source: str
    host: str
    reason: str


_POSTGRES_TYPES = {
    "status": "smallint",
    "attempts": "integer",
    "first_failed_at": "float8",
    "failed_at": "float8",
    "attempt_operation": "bigint",
    "change": "bigint",
}
"""Of the columns that are no texts."""

_FAILURES = TableColumns(
    "failures",
    (
        *((name, _POSTGRES_TYPES.get(name, "text")) for name in _FailureRow._fields),
        *(("bytes", "integer"), ("edit_of", "text"), ("number", "bigint")),
    ),
)
_DETAILS = (("exception_message", "text"), ("details", "text"), ("trace", "bigint"), ("search", "text"))
"""The columns of ``failure_contents`` that each failure of a message sets."""

_CONTENTS = TableColumns(
    "failure_contents",
    (
        *((name, "text") for name in ("message_id", "properties")),
        *(("body", "bytea"), *_DETAILS, ("id", "text"), ("number", "bigint")),
    ),
)
_UPDATE = f"UPDATE @.failures SET {assigned(_FailureRow._fields)} WHERE number = ?"


def _new_numbers(ids: Iterable[str]) -> Script[dict[str, int]]:
    """Take numbers for new failed messages, in their order."""
    new = dict.fromkeys(ids)
    last: int = yield from scalar(
        Sql("UPDATE @.ledger_changes SET last_failure = last_failure + ? RETURNING last_failure", [len(new)])
    )
    return dict(zip(new, range(last - len(new) + 1, last + 1), strict=True))


def _new_rows(
    id_: str, folded: Folded, change: int, shared: SharedTraces
) -> tuple[str, tuple[object, ...], tuple[object, ...]]:
    """Return the rows of a new failed message, without their last columns."""
    last = _last(folded)
    return id_, (*_row_of(folded, change), len(last.message.body)), _contents_of(last, shared)


# --- the first failures of messages, which are alike: what they share is made once, as it is for any other


class _Pattern(NamedTuple):
    """What the rows of failures that are alike have in common.

    Attributes:
        row: the row of one of them.
        trace: their trace.
        write: returns the details of each.
    """

    row: _FailureRow
    trace: SharedTrace
    write: Callable[[str, str, int], str]


_First: TypeAlias = tuple[AlikeArrival, _Pattern]


@lru_cache(maxsize=500)
def _pattern(alike: Alike) -> _Pattern | None:
    """Return the pattern for failures that are alike; None: they are recorded one by one."""
    trace, write = attempt_details.shared_by(alike), attempt_details.written_like(alike)
    if trace is None or write is None:
        return None
    one = Arrival(id="", failure=alike.failure, message=Message(b""), source="", groups=alike.groups)
    return _Pattern(_row_of(add(NOTHING, one), 0), trace, write)


def _firsts(arrivals: Sequence[AnyArrival], known: _Known, shared: SharedTraces) -> dict[str, _First]:
    """Return the failures that can be recorded by a pattern: of messages that are not known, and fail once."""
    times = Counter([each.id for each in arrivals])
    patterns: dict[Alike, _Pattern | None] = {}
    found: dict[str, _First] = {}
    for each in arrivals:
        id_ = each.id
        if isinstance(each, AlikeArrival) and times[id_] == 1 and id_ not in known.numbers:
            if each.alike not in patterns:
                patterns[each.alike] = _shared_pattern(each.alike, shared)
            if (pattern := patterns[each.alike]) is not None:
                found[id_] = each, pattern
    return found


def _shared_pattern(alike: Alike, shared: SharedTraces) -> _Pattern | None:
    """Return the pattern for failures that are alike, if their trace is stored for all."""
    pattern = _pattern(alike)
    return pattern if pattern is not None and shared.has(pattern.trace, pattern.row.exception_group) else None


_OWN = _FailureRow._fields.index("first_failed_at")


def _first_rows(firsts: Iterable[_First], change: int, numbers: Mapping[str, int]) -> list[tuple[object, ...]]:
    """Return the rows of ``failures``."""
    rows: list[tuple[object, ...]] = []
    for arrival, (row, _, _) in firsts:
        at = arrival.failed_at.timestamp()
        own = (at, at, arrival.key, row.attempt_operation, change, arrival.source, row.host, row.reason)
        rows.append((*row[:_OWN], *own, len(arrival.message.body), None, numbers[arrival.id]))
    return rows


def _first_contents(firsts: Iterable[_First], numbers: Mapping[str, int]) -> list[tuple[object, ...]]:
    """Return the rows of ``failure_contents``."""
    rows: list[tuple[object, ...]] = []
    for arrival, (_, trace, write) in firsts:
        message, said = arrival.message, arrival.said
        properties = arrival.properties or stored.properties_of(message)
        details, searched = write(arrival.at, said, arrival.end), _searched(said, message)
        row = (message.id, properties, message.body, plain(said), details, trace.digest, searched)
        rows.append((*row, arrival.id, numbers[arrival.id]))
    return rows


def _row_of(folded: Folded, change: int) -> _FailureRow:
    arrival, record_ = _last(folded), folded.record
    failure = arrival.failure
    return _FailureRow(  # in order, which takes half the time
        failure.queue,
        int(record_.status),
        plain(failure.message_type),
        plain(failure.exception_type),
        arrival.groups[0].id,
        record_.attempts,
        record_.first_failed_at,
        record_.failed_at,
        failure.key,
        failure.operation,
        change,
        arrival.source,
        plain(failure.host),
        plain(failure.reason),
    )


def _last(folded: Folded) -> Arrival:
    if folded.last is None:
        raise AssertionError("a record without a failure")
    return folded.last


def _known(arrivals: Sequence[AnyArrival]) -> Script[_Known]:
    """Return what is stored about the messages that failures may belong to, by their tags and by their ids."""
    tags = [arrival.tag for arrival in arrivals if arrival.tag is not None]
    rows = yield Sql(
        "SELECT f.number, c.id, f.status, f.attempts, f.first_failed_at, f.failed_at, f.attempt_key,"
        f" (SELECT p.operation FROM @.parts p WHERE p.failure = f.number AND {_IS_CLAIM}) AS claim"
        " FROM @.failure_contents c JOIN @.failures f ON f.number = c.number WHERE c.id IN @texts OR c.number IN @ints",
        [[arrival.id for arrival in arrivals], sorted({tag.failure for tag in tags})],
    )
    known = _Known(ids={row["number"]: row["id"] for row in rows}, numbers={row["id"]: row["number"] for row in rows})
    if not rows:
        return known
    earlier: dict[int, set[str]] = {number: set() for number in known.ids}
    keys = yield Sql("SELECT failure, key FROM @.failure_attempts WHERE failure IN @ints", [list(earlier)])
    for failure, key in keys:
        earlier[failure].add(key)
    claims = {(row["number"], row["claim"]) for row in rows if row["claim"] is not None}
    outcomes = yield from _outcomes(claims | {(tag.failure, tag.operation) for tag in tags})
    for row in rows:
        number = row["number"]
        known.records[number] = Record(
            status=Status(row["status"]),
            attempts=row["attempts"],
            first_failed_at=row["first_failed_at"],
            failed_at=row["failed_at"],
            key=row["attempt_key"],
            keys=frozenset(earlier[number]),
            claim=row["claim"],
            outcomes={operation: each for (failure, operation), each in outcomes.items() if failure == number},
        )
    return known


def _store_groups(arrivals: Sequence[AnyArrival]) -> Script[dict[str, list[int]]]:
    """Store the groups that are new; return the others, each with the digests of its traces."""
    groups = {group.id: group for arrival in arrivals for group in arrival.groups}
    rows = yield Sql(
        "SELECT g.id, t.digest FROM @.groups g LEFT JOIN @.failure_traces t ON t.exception_group = g.id"
        " WHERE g.id IN @texts",
        [sorted(groups)],
    )
    known: dict[str, list[int]] = {id_: [] for id_, _ in rows}
    for id_, digest in rows:
        if digest is not None:
            known[id_].append(digest)
    news = [group for id_, group in sorted(groups.items()) if id_ not in known]
    if news:
        time = yield from now()
        yield Many(
            "INSERT INTO @.groups (id, classifier, title) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
            [(each.id, each.classifier, plain(each.title)) for each in news],
        )
        yield Many(
            "INSERT INTO @.group_states (id, first_seen_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING",
            [(each.id, time) for each in news],
        )
    return known


def _store_names(arrivals: Sequence[AnyArrival]) -> Script[None]:
    """Store the names of queues and exceptions that are new."""
    names = {("source", arrival.source) for arrival in arrivals}
    failures = [arrival.failure if arrival.alike is None else arrival.alike.failure for arrival in arrivals]
    names |= {("exception", plain(failure.exception_type)) for failure in failures}
    rows = yield Sql("SELECT kind, name FROM @.seen_names WHERE name IN @texts", [sorted({name for _, name in names})])
    news = sorted(names.difference((kind, name) for kind, name in rows))
    yield Many("INSERT INTO @.seen_names (kind, name) VALUES (?, ?) ON CONFLICT DO NOTHING", news)


def _store_more(more: dict[int, Folded], change: int) -> Script[None]:
    """Store what has changed about messages that have failed before."""
    replaced = {number: each for number, each in more.items() if each.last is not None}
    if replaced:  # the failure that was the last one is an earlier one now
        rows = yield Sql(
            "SELECT f.number, f.attempt_key, f.failed_at, f.attempt_operation, c.details, c.trace, t.text"
            f" FROM @.failures f JOIN @.failure_contents c ON c.number = f.number {OF_LAST} WHERE f.number IN @ints",
            [list(replaced)],
        )
        yield Many(
            _INSERT_ATTEMPT,
            [
                (*row, details if trace is None else attempt_details.in_full(details, text))
                for *row, details, trace, text in rows
            ],
        )
        yield Many(_UPDATE, [(*_row_of(each, change), number) for number, each in replaced.items()])
    late = [
        (e.record.attempts, e.record.first_failed_at, int(e.record.status), n) for n, e in more.items() if not e.last
    ]
    yield Many("UPDATE @.failures SET attempts = ?, first_failed_at = ?, status = ? WHERE number = ?", late)


_INSERT_ATTEMPT = insert("failure_attempts", ("failure", "key", "failed_at", "operation", "details"))
_UPDATE_DETAILS = f"UPDATE @.failure_contents SET {assigned([name for name, _ in _DETAILS])} WHERE number = ?"


def _store_attempts(
    added: dict[int, Folded], changed: dict[int, Folded], again: Mapping[int, tuple[object, ...]]
) -> Script[None]:
    """Store the details of the failures of messages, and the groups that they are in."""
    stored_ = added | changed
    last = {number: each.last for number, each in stored_.items() if each.last is not None}
    yield Many(_UPDATE_DETAILS, [(*details, number) for number, details in again.items()])
    yield Many(
        _INSERT_ATTEMPT,
        [(number, *_attempt_of(arrival)) for number, each in stored_.items() for arrival in each.earlier],
    )
    if again:
        yield Sql("DELETE FROM @.failure_groups WHERE failure IN @ints", [list(again)])
    yield Many(
        "INSERT INTO @.failure_groups (failure, group_id) VALUES (?, ?)",
        [(number, group.id) for number, arrival in last.items() for group in arrival.groups[1:]],
    )
    yield from _trim([number for number, each in stored_.items() if each.record.attempts > ATTEMPTS_KEPT])


def _contents_of(arrival: Arrival, shared: SharedTraces) -> tuple[object, ...]:
    message = arrival.message
    return arrival.failure.message_id, stored.properties_of(message), message.body, *_details_of(arrival, shared)


def _details_of(arrival: Arrival, shared: SharedTraces) -> tuple[object, ...]:
    """Return what the exception said, the details of a failure, its trace if others share it, and what is searched."""
    failure, trace = arrival.failure, shared.of(arrival)
    said = failure.exception_message
    details = attempt_details.written(failure, trace, arrival.alike)
    return plain(said), details, None if trace is None else trace.digest, _searched(said, arrival.message)


def _searched(said: str, message: Message) -> str:
    """Return the text of a failure that is searched beside the body of its message."""
    return plain("\n".join([said, *[f"{name}: {value}" for name, value in message.headers.items()]]))


def _attempt_of(arrival: Arrival) -> tuple[object, ...]:
    failure = arrival.failure
    return failure.key, failure.failed_at.timestamp(), failure.operation, attempt_details.written(failure)


def _trim(failures: list[int]) -> Script[None]:
    """Forget the oldest failures of messages that have failed very often."""
    if not failures:
        return
    rows = yield Sql("SELECT failure, failed_at, key FROM @.failure_attempts WHERE failure IN @ints", [failures])
    kept: dict[int, list[tuple[float, str]]] = {}
    for failure, failed_at, key in rows:
        kept.setdefault(failure, []).append((failed_at, key))
    gone = [(failure, key) for failure, keys in kept.items() for key in trimmed(keys, ATTEMPTS_KEPT - 1)]
    yield Many("DELETE FROM @.failure_attempts WHERE failure = ? AND key = ?", gone)


_FAIL = transition(PARTS, PartEvent.FAIL)
_FAIL_AGAIN = f"UPDATE @.parts SET {_FAIL.to}, at = ?, reason = ? WHERE operation = ? AND failure = ? AND {_FAIL.able}"


def _store_failed_again(changed: Mapping[int, Folded]) -> Script[None]:
    """Note, for the operations that sent the messages, that these failed again, and why."""
    time = yield from now()
    again = [(number, *each) for number, folded in changed.items() for each in folded.failed_again.items()]
    yield Many(_FAIL_AGAIN, [(time, _reason_of(arrival), operation, number) for number, operation, arrival in again])
    yield from count_in_lanes(tallies.FAILED_AGAIN, (arrival.failure.queue for _, _, arrival in again))
    yield from count_outcomes("failed_again", [number for number, _, _ in again])


def _store_untagged(changed: Mapping[int, Folded]) -> Script[None]:
    """End the parts of a message that has failed without a tag: a copy that was sent before must not resolve it."""
    time = yield from now()
    for number, each in changed.items():
        if each.untagged is not None:
            ended = yield Sql(
                f"UPDATE @.parts SET {_FAIL.to}, at = ?, reason = ? WHERE failure = ?"
                f" AND {_FAIL.able} AND operation IN (SELECT number FROM @.operations) RETURNING failure",
                [time, _reason_of(each.untagged), number],
            )
            yield from count_outcomes("failed_again", [number] * len(ended))


def _reason_of(arrival: Arrival) -> str:
    reason = f"{arrival.failure.exception_type}: {arrival.failure.exception_message}"
    return plain(reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…")


def _store_edits(fresh: Mapping[str, Folded], change: int) -> Script[None]:
    """Archive the originals of edited copies that have failed: the copy replaces the original."""
    time = yield from now()
    replace = transition(MESSAGES, FailureEvent.REPLACE)
    for id_, number in _originals(fresh).items():
        arrival = _last(fresh[id_])
        failed = yield Sql(
            f"{_FAIL_AGAIN} RETURNING failure", [time, _reason_of(arrival), arrival.failure.operation, number]
        )
        if failed:
            yield from count_outcomes("failed_again", [number])
            yield Sql(
                f"UPDATE @.failures SET {replace.to}, edited_as = ?, settled_at = ?, change = ?"
                f" WHERE number = ? AND {replace.able}"
                f" AND NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.failure = ? AND {_IS_CLAIM})",
                [id_, time, change, number, number],
            )


# --- successes

_CONFIRM_PART = transition(PARTS, PartEvent.CONFIRM)
_CLOSE_PART = transition(PARTS, PartEvent.CLOSE)
_CONFIRM = transition(MESSAGES, FailureEvent.CONFIRM)


def confirm(confirmations: Sequence[Confirmation]) -> Script[list[Confirmed]]:
    """Note that recovered messages were handled; say for each what that changed."""
    change = yield from next_change()
    time = yield from now()
    failures = sorted({each.failure for each in confirmations})
    rows = yield Sql("SELECT number, id FROM @.failure_contents WHERE number IN @ints", [failures])
    ids: dict[int, str] = dict(rows)
    known = {(each.failure, each.operation): each for each in confirmations if each.failure in ids}
    before = yield from _outcomes(known)
    news = {part: each for part, each in known.items() if before.get(part) in _TO_CONFIRM}
    yield Many(
        f"UPDATE @.parts SET {_CONFIRM_PART.to}, at = ? WHERE operation = ? AND failure = ? AND {_CONFIRM_PART.able}",
        [(each.at.timestamp(), operation, number) for (number, operation), each in news.items()],
    )
    yield Many(  # it has succeeded: copies of other operations need not be waited for
        f"UPDATE @.parts SET {_CLOSE_PART.to}, at = ?, reason = ?"
        f" WHERE failure = ? AND {_IS_CLAIM} AND {_CLOSE_PART.able}",
        [(time, f"it succeeded after operation {operation}", number) for number, operation in news],
    )
    yield Sql(
        f"UPDATE @.failures SET {_CONFIRM.to}, settled_at = ?, change = ? WHERE number IN @ints AND {_CONFIRM.able}",
        [time, change, sorted(number for number, _ in news)],
    )
    yield from count_outcomes("succeeded", [number for number, _ in news])
    yield from count_recovered(list(news))
    return [_confirmed(each, ids, before) for each in confirmations]


def _outcomes(parts: Iterable[tuple[int, int]]) -> Script[dict[tuple[int, int], Outcome]]:
    """Return the outcomes of these messages in these operations; the result may have more pairs than requested."""
    pairs = set(parts)
    if not pairs:
        return {}
    failures, operations = {failure for failure, _ in pairs}, {operation for _, operation in pairs}
    rows = yield Sql(
        "SELECT failure, operation, outcome FROM @.parts WHERE operation IN @ints AND failure IN @ints",
        [sorted(operations), sorted(failures)],
    )
    return {(failure, operation): Outcome(outcome) for failure, operation, outcome in rows}


def _confirmed(each: Confirmation, ids: Mapping[int, str], before: dict[tuple[int, int], Outcome]) -> Confirmed:
    part = (each.failure, each.operation)
    outcome, heard = before.get(part), Heard.UNKNOWN
    if outcome is not None and outcome in _TO_CONFIRM:
        heard = Heard.NEW
        before[part] = PARTS[outcome, PartEvent.CONFIRM]  # a second confirmation in the same page changes nothing
    elif outcome is Outcome.SUCCEEDED:
        heard = Heard.KNOWN
    return Confirmed(ids.get(each.failure, ""), each.operation, heard)
