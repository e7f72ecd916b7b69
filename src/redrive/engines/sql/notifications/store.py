# SPDX-License-Identifier: MIT
"""The store of webhooks of an engine that is a database: each verb is a script."""

from redrive.engines.sql.notifications import webhook_rows
from redrive.engines.sql.verbs import SqlStore, joins, reads, writes


class SqlNotificationStore(SqlStore):
    """Webhooks, and what they were called for, in a database."""

    add_webhook = writes(webhook_rows.add_webhook)
    webhooks = reads(webhook_rows.webhooks)
    webhook_and_secret = reads(webhook_rows.webhook_and_secret)
    remove_webhook = writes(webhook_rows.remove_webhook)
    still_so = writes(webhook_rows.still_so)
    notice = joins(webhook_rows.notice)
