# SPDX-License-Identifier: MIT
"""The server's own store of an engine that is a database: each verb is a script."""

from redrive.engines.sql.access import changes
from redrive.engines.sql.verbs import SqlStore, reads


class SqlAccessStore(SqlStore):
    """What the server keeps for itself, in a database."""

    changes = reads(changes.changes)
