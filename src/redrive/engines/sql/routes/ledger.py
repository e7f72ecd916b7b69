# SPDX-License-Identifier: MIT
"""The ledger of routes of an engine that is a database: each verb is a script."""

from redrive.engines.sql.routes import changes, claims, taps
from redrive.engines.sql.verbs import SqlStore, reads, writes


class SqlRouteLedger(SqlStore):
    """Routes, and what they must remember, in a database."""

    # --- routes
    revision = reads(taps.revision)
    routes = reads(changes.routes)
    versions = reads(changes.versions)
    change = writes(changes.change)

    # --- claims
    claim = writes(claims.claim)
    release = writes(claims.release)
    forget_claims = writes(claims.forget_claims)

    # --- taps
    add_tap = writes(taps.add_tap)
    remove_tap = writes(taps.remove_tap)
