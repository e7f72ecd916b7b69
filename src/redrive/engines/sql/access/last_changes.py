# SPDX-License-Identifier: MIT
"""What has changed since it was last looked at, in SQL: one row, each number of it the end of an index."""

from redrive.access.store import LastChanges
from redrive.engines.sql.recovery.state_sql import among
from redrive.engines.sql.script import Script, Sql
from redrive.recovery.port import BatchState


def changes() -> Script[LastChanges]:
    """Return the numbers of the last changes."""
    ((failures, audit, routes, pipelines, is_sending),) = yield Sql(
        "SELECT value, coalesce((SELECT max(number) FROM @.audit), 0),"
        " coalesce((SELECT max(number) FROM @.route_changes), 0),"
        " coalesce((SELECT max(number) FROM @.pipeline_actions), 0),"
        f" EXISTS (SELECT 1 FROM @.batches WHERE {among('state', [BatchState.FORWARDING])}) FROM @.ledger_changes"
    )
    return LastChanges(failures, audit, routes, pipelines, bool(is_sending))
