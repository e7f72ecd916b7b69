# SPDX-License-Identifier: MIT
"""Webhooks that are called when something needs a person: new groups, rising groups, operations that have ended."""

from redrive.notifications import store, webhook
from redrive.notifications.notices import EVENTS, Notice, notices_of
from redrive.notifications.notifications import NOTIFICATIONS, Notifications
from redrive.notifications.webhook import NewWebhook, WebhookInfo, WebhookTest

__all__ = [
    "EVENTS",
    "NOTIFICATIONS",
    "NewWebhook",
    "Notice",
    "Notifications",
    "WebhookInfo",
    "WebhookTest",
    "notices_of",
    "store",
    "webhook",
]
