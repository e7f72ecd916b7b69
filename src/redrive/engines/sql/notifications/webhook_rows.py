# SPDX-License-Identifier: MIT
"""Webhooks, and what they were called for, in SQL."""

import json
from collections.abc import Sequence

from redrive.clock import utc
from redrive.engines.sql.script import Row, Script, Sql, now, plain
from redrive.notifications import WebhookInfo
from redrive.notifications.store import NoticeTaken

_COLUMNS = "name, url, events, created_at, created_by"


def add_webhook(
    name: str, url: str, events: Sequence[str], secret: str, actor: str, *, replace: bool = False
) -> Script[WebhookInfo | None]:
    """Store a webhook; None: there is one of this name, and it is not to be changed."""
    time = yield from now()
    change = "UPDATE SET url = excluded.url, events = excluded.events, secret = excluded.secret"
    rows = yield Sql(
        "INSERT INTO @.webhooks (name, url, events, secret, created_at, created_by) VALUES (?, ?, ?, ?, ?, ?)"
        f" ON CONFLICT (name) DO {change if replace else 'NOTHING'} RETURNING {_COLUMNS}",
        [plain(name), plain(url), json.dumps(list(events)), secret, time, plain(actor)],
    )
    return _webhook(rows[0]) if rows else None


def webhooks() -> Script[list[WebhookInfo]]:
    """Return all webhooks, in order of their names."""
    rows = yield Sql(f"SELECT {_COLUMNS} FROM @.webhooks")
    return sorted((_webhook(row) for row in rows), key=lambda webhook: webhook.name)


def webhook_and_secret(name: str) -> Script[tuple[WebhookInfo, str] | None]:
    """Return a webhook and what signs its requests."""
    rows = yield Sql(f"SELECT {_COLUMNS}, secret FROM @.webhooks WHERE name = ?", [plain(name)])
    return (_webhook(rows[0]), rows[0]["secret"]) if rows else None


def remove_webhook(name: str) -> Script[WebhookInfo | None]:
    """Remove a webhook."""
    rows = yield Sql(f"DELETE FROM @.webhooks WHERE name = ? RETURNING {_COLUMNS}", [plain(name)])
    return _webhook(rows[0]) if rows else None


def still_so(names: Sequence[str], quiet_s: float) -> Script[set[str]]:
    """Note that some things are still so, forget what has not been for a while, and return what was noticed before."""
    time = yield from now()
    texts = [plain(name) for name in names]
    rows = yield Sql("UPDATE @.webhook_notices SET seen_at = ? WHERE name IN @texts RETURNING name", [time, texts])
    yield Sql("DELETE FROM @.webhook_notices WHERE seen_at < ?", [time - quiet_s])
    known = {row["name"] for row in rows}
    return {name for name, text in zip(names, texts, strict=True) if text in known}


def notice(name: str, event_id: str) -> Script[None]:
    """Note that a notice is sent."""
    time = yield from now()
    rows = yield Sql(
        "INSERT INTO @.webhook_notices (name, event_id, seen_at) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING"
        " RETURNING name",
        [plain(name), event_id, time],
    )
    if not rows:
        raise NoticeTaken


def _webhook(row: Row) -> WebhookInfo:
    return WebhookInfo(
        name=row["name"],
        url=row["url"],
        events=tuple(json.loads(row["events"])),
        created_at=utc(row["created_at"]),
        created_by=row["created_by"],
    )
