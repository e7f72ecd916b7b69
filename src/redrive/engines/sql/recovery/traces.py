# SPDX-License-Identifier: MIT
"""Stack traces, and what else failures share, in SQL. A group has a few of them, and they go with its last failure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from redrive.engines.sql.recovery.attempt_details import SharedTrace, trace_of
from redrive.engines.sql.recovery.state_sql import among
from redrive.engines.sql.script import Script, Sql, TableColumns
from redrive.recovery.port import Arrival, Status

MOST_TRACES: Final = 40
"""How many traces of a group are stored for all, with what else their failures share; the same trace may be there with
several queues and numbers of tries. A trace that differs in each failure stays in the details of each."""

TRACES = TableColumns("failure_traces", (("exception_group", "text"), ("digest", "bigint"), ("text", "text")))

OF_LAST: Final = "LEFT JOIN @.failure_traces t ON t.exception_group = f.exception_group AND t.digest = c.trace"
"""Joins the trace of a message's last failure, whose text is ``t.text``; ``f`` and ``c`` are the message."""


class SharedTraces:
    """The traces that are stored for all failures of a group, and those that are to be.

    Args:
        stored: the digests of those that are stored, by group.
    """

    def __init__(self, stored: Mapping[str, Iterable[int]]) -> None:
        self._known = {group: set(digests) for group, digests in stored.items()}
        self.rows: list[Sequence[object]] = []

    def of(self, arrival: Arrival) -> SharedTrace | None:
        """Return the trace of a failure if it is stored for all; None: it stays in the details."""
        trace = trace_of(arrival.failure, arrival.alike)
        return trace if trace is not None and self.has(trace, arrival.groups[0].id) else None

    def has(self, trace: SharedTrace, group: str) -> bool:
        """Say whether a trace is stored for all failures of a group, or will be."""
        known = self._known.setdefault(group, set())
        if trace.digest not in known:
            if len(known) >= MOST_TRACES:
                return False
            known.add(trace.digest)
            self.rows.append((group, trace.digest, trace.text))
        return True


def sweep(groups: Sequence[str]) -> Script[None]:
    """Delete the traces of groups that have no failures any more.

    Of a group whose failures are not counted, since a restore has left the counts out, they are kept.
    """
    counted = yield Sql(
        "SELECT exception_group FROM @.failure_counts"
        f" WHERE {among('status', Status)} AND exception_group IN @texts GROUP BY exception_group HAVING sum(n) = 0",
        [list(groups)],
    )
    yield Sql("DELETE FROM @.failure_traces WHERE exception_group IN @texts", [[group for (group,) in counted]])
