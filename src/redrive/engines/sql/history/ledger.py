# SPDX-License-Identifier: MIT
"""The history of an engine that is a database: each verb is a script."""

from redrive.engines.sql.history import queries, rounds
from redrive.engines.sql.verbs import SqlStore, reads, writes


class SqlHistoryLedger(SqlStore):
    """What was counted and noted, in a database."""

    numbers = reads(queries.numbers)
    numbers_by_name = reads(queries.numbers_by_name)
    totals = reads(queries.totals)
    last_counted = reads(queries.last_counted)
    retention = reads(rounds.kept)
    keep = writes(rounds.keep)
