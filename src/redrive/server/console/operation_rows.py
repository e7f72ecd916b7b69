# SPDX-License-Identifier: MIT
"""Operations in lists: a state in words, and a bar whose parts add up. Pure: no I/O, no clock."""

from typing import Final

from redrive.broker.views import View

_VERBS: Final = {"recover": "Recover", "archive": "Archive", "restore": "Restore", "resolve": "Resolve"}
_STATES: Final = {
    "scheduled": ("", "clock", "Scheduled"),
    "running": ("info", "send", "Running"),
    "watching": ("info", "eye", "Watching its canaries"),
    "paused": ("warn", "pause", "Paused"),
    "cancelling": ("warn", "ban", "Cancelling"),
    "cancelled": ("", "ban", "Cancelled"),
    "completed": ("ok", "circle-check", "Completed"),
}
OUTCOMES: Final = (
    ("succeeded", "succeeded", "f-ok", False),
    ("done", "done", "f-ok", False),
    ("failed_again", "failed again", "f-bad", False),
    ("failed", "could not be sent", "f-bad", False),
    ("waiting", "unconfirmed", "f-info", True),
    ("closed", "closed by a person", "f-idle", False),
    ("superseded", "sent again later", "f-idle", False),
    ("skipped", "skipped", "f-idle", False),
    ("cancelled", "cancelled", "f-idle", False),
)
"""The parts of an operation's bar: the figure, its words, its colour, and whether it still waits."""


def operation_row(operation: View) -> View:
    """Return an operation as lists show it.

    Args:
        operation: the view of the API.
    """
    progress = operation["progress"]
    tone, icon, word = _STATES.get(operation["state"], ("", "info", operation["state"]))
    if operation["state"] == "paused" and operation["plan"].get("canary") and progress["remaining"]:
        canary = operation["plan"]["canary"]
        most = canary.get("count", 0) if isinstance(canary, dict) else canary
        word = "Stopped by canaries" if progress["forwarded"] <= most else word
    parts = [
        {"what": words, "n": progress[name], "kind": kind, "waits": waits}
        for name, words, kind, waits in OUTCOMES
        if progress[name]
    ]
    if progress["remaining"]:
        parts.append({"what": "to come", "n": progress["remaining"], "kind": "", "waits": True})
    said = ", ".join(f"{each['n']:,} {each['what']}" for each in parts) or "nothing matched"
    return {
        **operation,
        "tone": tone,
        "icon": icon,
        "word": word,
        "verb": _VERBS[operation["kind"]],
        "by": operation["actor"].partition(" (")[0],
        "parts": parts,
        "bar": [(each["kind"], each["n"], each["waits"]) for each in parts if each["kind"]],
        "said": said,
    }
