# SPDX-License-Identifier: MIT
"""The ledger of journeys of an engine that is a database: each verb is a script."""

from redrive.engines.sql.journey import records
from redrive.engines.sql.verbs import SqlStore, reads


class SqlJourneyLedger(SqlStore):
    """What the tables of all layers know of messages, in a database."""

    records = reads(records.records)
