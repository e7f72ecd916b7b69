# SPDX-License-Identifier: MIT
"""Which rights a user lacks, and the statements that grant them."""

from collections.abc import Mapping
from typing import Any

from redrive.engines.postgres import errors
from redrive.engines.postgres.driver import Connection

DENIED = "42501"
"""PostgreSQL's code for something that the user may not do."""

_ASK = """
SELECT quote_ident(current_user) AS user, quote_ident(pg_get_userbyid(n.nspowner)) AS owner,
    has_schema_privilege(n.oid, 'USAGE') AS may_use,
    NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind = 'r' AND NOT (
        has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
        AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))) AS may_write,
    NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid
        AND CASE c.relkind WHEN 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') END) AS may_number,
    NOT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = n.oid
        AND NOT has_function_privilege(p.oid, 'EXECUTE')) AS may_call
FROM (SELECT to_regnamespace($1) AS oid) s LEFT JOIN pg_namespace n ON n.oid = s.oid
"""

_GRANTS = {
    "may_use": "USAGE ON SCHEMA {0}",
    "may_write": "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {0}",
    "may_number": "USAGE ON ALL SEQUENCES IN SCHEMA {0}",
    "may_call": "EXECUTE ON ALL FUNCTIONS IN SCHEMA {0}",
}


async def explained(connection: Connection, schema: str) -> str:
    """Say which rights the user of a connection lacks."""
    try:
        return missing_grants(dict(await connection.fetchrow(_ASK, schema)), schema)
    except errors.Trouble as error:
        return f"the user may not do that, and the broker could not find out which grant is missing ({error})"


def missing_grants(found: Mapping[str, Any], schema: str) -> str:
    """Return a text that names the rights a user lacks, and the statements that grant them.

    Args:
        found: who it is, whose the schema is, and what the user may do there.
        schema: its name, quoted.
    """
    user, owner = found["user"], found["owner"]
    if owner is None:
        fix = f"CREATE SCHEMA {schema} AUTHORIZATION {user}"
        return f"there is no schema {schema}, and {user} may not create one; let a user who may do so run: {fix}"
    grants = [f"GRANT {grant.format(schema)} TO {user}" for name, grant in _GRANTS.items() if not found[name]]
    if grants:
        return f"{user} lacks a right to schema {schema}; let {owner} run: {'; '.join(grants)}"
    return (
        f"only {owner}, who owns schema {schema}, can bring it up to date, and {user} does not own it; open the broker"
        f" once as {owner}"
    )
