# SPDX-License-Identifier: MIT
"""Groups in lists: what they have in common, where, and what is worth knowing. Pure: no I/O, no clock."""

from collections.abc import Sequence
from typing import Final

from redrive.broker.views import View
from redrive.recovery import FailedMessage
from redrive.server.console.filter_bar import narrowed_to
from redrive.server.console.subjects import link

_LEAST_RISING: Final = 20
_TIMES_RISING: Final = 4
_LEAST_SHARE: Final = 0.2


def group_row(
    group: View,
    last: FailedMessage | None,
    line: Sequence[int | None] | None,
    notes: Sequence[View],
    *,
    q: str,
    by: str,
) -> View:
    """Return a group as a list shows it.

    Args:
        group: the view of the API.
        last: the newest message in it, if there is one.
        line: how many failed in 24 hours, if that is known.
        notes: the notes about it.
        q: the filter that it is seen through.
        by: what groups are compared by.
    """
    title = group["title"]
    called = named_group(title) if by == "exception" else {"name": title, "whole_name": title, "place": ""}
    values = [each or 0 for each in line or ()]
    narrow = narrowed_to(q, by, [group["id"]]) if group["id"] else q
    state = group["state"] or {}
    share = state.get("failed_again_share")
    return {
        **group,
        "name": called["name"] or f"without a {by}",
        "whole_name": called["whole_name"] or f"without a {by}",
        "place": called["place"],
        "said": last.exception_message if last else "",
        "queue": last.queue if last and by != "queue" else "",
        "of_queue": narrowed_to(q, "queue", [last.queue]) if last else "",
        "type": last.message_type if last and by != "type" else "",
        "line": values,
        "is_rising": is_rising(values),
        "share": share if share is not None and share >= _LEAST_SHARE else None,
        "owner": state.get("owner", ""),
        "snoozed_until": state.get("snoozed_until") if state.get("is_snoozed") else None,
        "note": notes[-1] if notes else None,
        "page": link("/failed/list", q=narrow),
        "filter": narrow,
    }


def brief_title(title: str) -> str:
    """Return a title of a group, or a sentence that begins with one, without the module of the exception."""
    whole, at, place = title.partition(" in ")
    return title if " " in whole else whole.rpartition(".")[2] + at + place


def named_group(title: str) -> View:
    """Return what a group of an exception is called: its name, that with its modules, and the place it is raised at."""
    whole, _, place = title.partition(" in ")
    return {"name": whole.rpartition(".")[2] if " " not in whole else whole, "whole_name": whole, "place": place}


def is_rising(values: Sequence[int]) -> bool:
    """Say whether much more failed in the last hour than usually: the last two of a line of half hours."""
    if len(values) < 4:
        return False
    lately, before = sum(values[-2:]), values[:-2]
    usual = sum(before) / len(before) * 2
    return lately >= _LEAST_RISING and lately >= _TIMES_RISING * usual
