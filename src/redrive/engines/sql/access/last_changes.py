# SPDX-License-Identifier: MIT
"""What has changed since it was last looked at, in SQL: one row, each number of it the end of an index."""

from redrive.access.store import LastChanges
from redrive.engines.sql.script import Script, Sql


def changes() -> Script[LastChanges]:
    """Return the numbers of the last changes."""
    ((failures, audit, routes, pipelines),) = yield Sql(
        "SELECT value, coalesce((SELECT max(number) FROM @.audit), 0),"
        " coalesce((SELECT max(number) FROM @.route_changes), 0),"
        " coalesce((SELECT max(number) FROM @.pipeline_actions), 0) FROM @.ledger_changes"
    )
    return LastChanges(failures, audit, routes, pipelines)
