# SPDX-License-Identifier: MIT
"""Keeping one admin, in SQL: of two that are removed at once, the later one is the last."""

from redrive.access import Role
from redrive.engines.sql.script import Script, Sql
from redrive.errors import LastAdmin


def keep_an_admin(time: float, *, user: str = "", token: str = "") -> Script[None]:
    """See that there is another admin beside a user or a token that is about to end; all admins are locked.

    Args:
        time: the time of the transaction.
        user: the user.
        token: the id of the token.

    Raises:
        LastAdmin: there is none.
    """
    users = yield Sql(
        "SELECT name FROM @.access_users WHERE role = ? AND queues IS NULL ORDER BY name @lock", [Role.ADMIN.value]
    )
    tokens = yield Sql(
        "SELECT id FROM @.access_tokens WHERE role = ? AND queues IS NULL AND revoked_at IS NULL"
        " AND (expires_at IS NULL OR expires_at > ?) ORDER BY id @lock",
        [Role.ADMIN.value, time],
    )
    admins = {("user", row["name"]) for row in users} | {("token", row["id"]) for row in tokens}
    if admins and admins <= {("user", user), ("token", token)}:
        raise LastAdmin(user or token)
