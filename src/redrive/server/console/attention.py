# SPDX-License-Identifier: MIT
"""What needs a person, as a page shows it: with an icon, a link, and what to do first. Pure: no I/O, no clock."""

from collections.abc import Sequence
from typing import Final

from redrive.broker.views import View
from redrive.server.console.group_rows import brief_title
from redrive.server.console.subjects import link, page_of

_LOOKS: Final = {
    "unserved": ("bad", "unplug", "Open operations"),
    "canaries-failed": ("warn", "pause", "Decide…"),
    "group-rises": ("bad", "trending-up", "Recover…"),
    "new-group": ("bad", "triangle-alert", "Recover…"),
    "group-waits": ("warn", "triangle-alert", "Recover…"),
    "operation-failed": ("warn", "repeat", "Open operation"),
    "queue-unread": ("warn", "unplug", "Open queue"),
    "route-parked": ("warn", "zap", "Open route"),
    "pipeline-overdue": ("warn", "clock", "Open pipeline"),
    "unconfirmed": ("", "circle-question-mark", "Open operation"),
    "set-aside": ("", "circle-question-mark", "Look"),
}
"""By rule: the tone, the icon, and what the button says."""


def shown_item(item: View, line: Sequence[int] | None) -> View:
    """Return something that needs a person.

    Args:
        item: the view of the API.
        line: how much of it there was, if that is known.
    """
    tone, icon, verb = _LOOKS.get(item["rule"], ("", "info", "Open"))
    said, _, more = item["sentence"].partition("; ")
    subject = item["subject"]
    is_group = subject.startswith("group:")
    said = brief_title(said) if is_group else said
    return {
        "tone": tone,
        "icon": icon,
        "verb": verb,
        "said": said,
        "more": more,
        "since": item["since"],
        "page": page_of(subject),
        "does": link("/failed/recover", q=subject) if is_group else page_of(subject),
        "is_recovery": is_group,
        "line": line,
    }
