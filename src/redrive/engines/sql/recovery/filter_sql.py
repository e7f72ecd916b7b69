# SPDX-License-Identifier: MIT
"""A filter as an SQL condition on the failures ``f``. Tests compare it with ``Filter.matches``."""

from collections.abc import Sequence
from typing import NamedTuple

from redrive.engines.sql.recovery.state_sql import above, among
from redrive.engines.sql.script import Script, Sql, scalars
from redrive.recovery.port import ADDED, Filter, Outcome, Pattern, Status

_MOST_NAMES = 1_000
_OUTCOMES = {each.word: each for each in Outcome}


class Condition(NamedTuple):
    """A condition and its values."""

    text: str
    values: list[object]

    def also(self, text: str, *values: object) -> "Condition":
        """Return a narrower condition."""
        return Condition(f"{self.text} AND {text}", [*self.values, *values])


def condition(chosen: Filter) -> Script[Condition]:
    """Return the condition of a filter; patterns for exceptions are first replaced by the names that match."""
    chosen.check_settled()
    found = Condition("TRUE", [])
    if chosen.status != frozenset(Status):
        found = found.also(among("f.status", sorted(chosen.status)))
        for below in (Status.UNRESOLVED, Status.RETRY_ISSUED):  # in the words of the partial indexes
            if min(chosen.status) > below:
                found = found.also(above("f.status", below))
    if chosen.groups:
        found = _in_groups(found, chosen.groups)
    found = _any_of(found, "f.queue", "texts", chosen.queues)
    found = _identified(found, "id", chosen.ids)
    found = _identified(found, "message_id", chosen.message_ids)
    found = _named(found, "f.message_type", chosen.type_patterns)
    found = _named(found, "f.exception_type", (yield from _spelled_out(chosen.exception_patterns)))
    found = _any_of(found, "f.source", "texts", chosen.sources)
    found = _named(found, "f.reason", chosen.reason_patterns)
    found = _named(found, "f.host", chosen.host_patterns)
    found = _within_bounds(found, chosen)
    if chosen.operation is not None:
        found = _in_operation(found, chosen.operation, chosen.outcomes)
    for name, patterns in chosen.header_patterns:
        found = _with_header(found, name, patterns)
    if chosen.text is not None:
        found = found.also(_HAS_TEXT, chosen.text, chosen.text)
    return found


_HAS_TEXT = (
    "EXISTS (SELECT 1 FROM @.failure_contents c WHERE c.number = f.number AND (@contains(c.search) OR @within(c.body)))"
)


def _any_of(found: Condition, column: str, kind: str, values: Sequence[object]) -> Condition:
    if not values:
        return found
    if len(values) == 1:  # an equation, so that the index gives the rows in order
        return found.also(f"{column} = ?", values[0])
    return found.also(f"{column} IN @{kind}", list(values))


def _identified(found: Condition, column: str, ids: Sequence[str]) -> Condition:
    if not ids:
        return found
    theirs = f"SELECT c.number FROM @.failure_contents c WHERE c.{column} IN @texts"
    return found.also(f"f.number IN ({theirs})", list(ids))


def _in_groups(found: Condition, groups: Sequence[str]) -> Condition:
    theirs = [group for group in groups if group.startswith(ADDED)]
    ours = [group for group in groups if not group.startswith(ADDED)]
    added = "EXISTS (SELECT 1 FROM @.failure_groups g WHERE g.failure = f.number AND g.group_id IN @texts)"
    if not theirs:
        return _any_of(found, "f.exception_group", "texts", ours)
    if not ours:
        return found.also(added, theirs)
    return found.also(f"(f.exception_group IN @texts OR {added})", ours, theirs)


def _spelled_out(patterns: Sequence[Pattern]) -> Script[Sequence[Pattern]]:
    """Return patterns for exceptions as the known names that match them, so that an index can be used."""
    if all(each.kind == "exact" for each in patterns):
        return patterns
    seen = yield from scalars(Sql("SELECT name FROM @.seen_names WHERE kind = 'exception' LIMIT ?", [_MOST_NAMES + 1]))
    names = [name for name in seen if any(each.matches(name) for each in patterns)]
    if not names or len(seen) > _MOST_NAMES:
        return patterns
    return [Pattern("exact", name) for name in sorted(names)]


def _named(found: Condition, column: str, patterns: Sequence[Pattern]) -> Condition:
    if all(each.kind == "exact" for each in patterns):
        return _any_of(found, column, "texts", [each.text for each in patterns])
    either: list[str] = []
    values: list[object] = []
    for each in patterns:
        text, more = _one_name(column, each)
        either.append(text)
        values += more
    return found.also(f"({' OR '.join(either)})", *values)


def _one_name(column: str, pattern: Pattern) -> tuple[str, list[object]]:
    """Compare by length and position: LIKE folds case on SQLite, and not on PostgreSQL."""
    if pattern.kind == "prefix":
        return f"substr({column}, 1, {len(pattern.text)}) = ?", [pattern.text]
    if pattern.kind == "exact":
        return f"{column} = ?", [pattern.text]
    behind = f"substr({column}, length({column}) - {len(pattern.text)}) = ?"
    is_longer = f"length({column}) > {len(pattern.text)}"
    return f"({column} = ? OR ({is_longer} AND {behind}))", [pattern.text, f".{pattern.text}"]


def _with_header(found: Condition, name: str, patterns: Sequence[Pattern]) -> Condition:
    has = _named(Condition("TRUE", []), "h.value", patterns)
    theirs = "SELECT @header(c.properties) AS value FROM @.failure_contents c WHERE c.number = f.number"
    return found.also(f"EXISTS (SELECT 1 FROM ({theirs}) h WHERE {has.text})", name, *has.values)


def _within_bounds(found: Condition, chosen: Filter) -> Condition:
    if chosen.failed_from is not None:
        found = found.also("f.failed_at >= ?", chosen.failed_from.timestamp())
    if chosen.failed_until is not None:
        found = found.also("f.failed_at < ?", chosen.failed_until.timestamp())
    if chosen.attempts_min is not None:
        found = found.also("f.attempts >= ?", chosen.attempts_min)
    if chosen.attempts_max is not None:
        found = found.also("f.attempts <= ?", chosen.attempts_max)
    return found


def _in_operation(found: Condition, operation: int, words: Sequence[str]) -> Condition:
    part = "SELECT 1 FROM @.parts p WHERE p.operation = ? AND p.failure = f.number"
    if not words:
        return found.also(f"EXISTS ({part})", operation)
    outcomes = [_OUTCOMES[word] for word in words]
    return found.also(f"EXISTS ({part} AND {among('p.outcome', outcomes)})", operation)
