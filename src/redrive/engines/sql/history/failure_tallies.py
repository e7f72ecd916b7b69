# SPDX-License-Identifier: MIT
"""What the history counts of recovery, in SQL: part of the transactions that record failures and outcomes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from redrive.broker import tallies
from redrive.engines.sql.history.tallies import add
from redrive.engines.sql.script import Script, Sql

if TYPE_CHECKING:
    from redrive.broker.tallies import Key


def count_failed(found: Mapping[tuple[str, tuple[str, ...]], int]) -> Script[None]:
    """Count failures that were found, by their queues and groups: each by its queue and by its groups."""
    counts: dict[Key, int] = {}
    for (queue, groups), n in found.items():
        for key in ((tallies.QUEUE, queue), *((tallies.GROUP, group) for group in groups)):
            counts[*key, tallies.FAILED] = counts.get((*key, tallies.FAILED), 0) + n
    if counts:
        yield from add(counts)


def count_in_lanes(metric: str, lanes: Iterable[str]) -> Script[None]:
    """Count what became of messages that were sent to destinations, one for each name."""
    counts: dict[Key, int] = {}
    for lane in lanes:
        counts[tallies.LANE, lane, metric] = counts.get((tallies.LANE, lane, metric), 0) + 1
    if counts:
        yield from add(counts)


def count_recovered(parts: Sequence[tuple[int, int]]) -> Script[None]:
    """Count messages that were confirmed, each a failure and the operation that had sent it, by destination."""
    if not parts:
        return
    wanted = set(parts)
    rows = yield Sql(
        "SELECT p.failure, p.operation, b.lane FROM @.parts p JOIN @.operation_batches b ON b.batch = p.batch"
        " WHERE p.operation IN @ints AND p.failure IN @ints",
        [sorted({operation for _, operation in wanted}), sorted({failure for failure, _ in wanted})],
    )
    lanes = [lane for failure, operation, lane in rows if (failure, operation) in wanted]
    yield from count_in_lanes(tallies.RECOVERED, lanes)
