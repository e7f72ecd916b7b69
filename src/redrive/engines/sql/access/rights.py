# SPDX-License-Identifier: MIT
"""Rights as columns."""

import json

from redrive.access import Role
from redrive.access.records import Rights
from redrive.engines.sql.script import Row


def rights_columns(rights: Rights) -> tuple[str, str | None, int]:
    """Return role, queues and may_see_bodies, as they are stored."""
    queues = None if rights.queues is None else json.dumps(rights.queues)
    return rights.role.value, queues, int(rights.may_see_bodies)


def rights_of_row(row: Row) -> Rights:
    """Return the rights of a row."""
    queues = None if row["queues"] is None else tuple(json.loads(row["queues"]))
    return Rights(role=Role(row["role"]), queues=queues, may_see_bodies=bool(row["may_see_bodies"]))
