# SPDX-License-Identifier: MIT
"""An operation as its page tells it: its steps, its figures, what was asked for. Pure: no I/O, no clock."""

from typing import Any, Final

from redrive.broker.views import View

STOPPED: Final = "Stopped by canaries"
REFUSED: Final = ("refused", "forbidden")
"""How the outcome of an entry in the audit trail begins if nothing was done."""
BOXES: Final = (
    ("succeeded", "succeeded", "succeeded", "ok"),
    ("done", "done", "done", "ok"),
    ("failed_again", "failed-again", "failed again", "bad"),
    ("waiting", "forwarded", "unconfirmed", "hatched"),
    ("skipped", "skipped", "skipped", ""),
    ("failed", "failed", "could not be sent", "warn"),
    ("cancelled", "cancelled", "cancelled", ""),
    ("closed", "closed", "closed by a person", ""),
    ("superseded", "superseded", "sent again later", ""),
)
"""The figures that add up: the figure, the word of the outcome, its words, the class of its colour."""
OUTCOME_LOOKS: Final = {
    "pending": ("", "clock", "to come"),
    "forwarded": ("info", "send", "unconfirmed"),
    "succeeded": ("ok", "check", "succeeded"),
    "done": ("ok", "check", "done"),
    "failed-again": ("bad", "repeat", "failed again"),
    "failed": ("warn", "circle-x", "could not be sent"),
    "closed": ("", "user", "closed by a person"),
    "superseded": ("", "rotate-ccw", "sent again later"),
    "skipped": ("", "skip-forward", "skipped"),
    "cancelled": ("", "ban", "cancelled"),
}
_DOING: Final = {"recover": "Sending", "archive": "Archiving", "restore": "Restoring", "resolve": "Resolving"}
_ALWAYS: Final = ("succeeded", "failed_again", "waiting", "skipped", "failed", "cancelled")
_SENDS_NOTHING: Final = ("done", "skipped", "failed", "cancelled")
_TRAIL: Final = {
    "pause": ("pause", "paused it"),
    "resume": ("play", "resumed it"),
    "cancel": ("ban", "cancelled it"),
    "set-rate": ("gauge", "changed its rate"),
    "acknowledge": ("check", "acknowledged how it ended"),
}


def figures_of(operation: View) -> list[View]:
    """Return the figures of an operation: those that its kind always has, and those that are not zero."""
    always = _ALWAYS if operation["kind"] == "recover" else _SENDS_NOTHING
    progress = operation["progress"]
    return [
        {"n": progress[name], "outcome": outcome, "words": words, "colour": colour}
        for name, outcome, words, colour in BOXES
        if name in always or progress[name]
    ]


def steps_of(operation: View) -> list[View]:
    """Return the steps of an operation, each with whether it is behind it or under way."""
    state, progress = operation["state"], operation["progress"]
    is_over, is_recovery = operation["ended_at"] is not None, operation["kind"] == "recover"
    is_watching = state == "watching" or operation["word"] == STOPPED
    has_begun = operation["started_at"] is not None
    steps = [("Requested", "now" if state == "scheduled" else "done")]
    if operation["plan"].get("canary"):
        count = canary_of(operation)["count"]
        word = f"First {count:,}: {_canary_word(operation, is_watching=is_watching)}"
        steps.append((word, "now" if is_watching else "done" if has_begun and state != "scheduled" else ""))
    is_sending = has_begun and not is_over and not is_watching
    doing = "Cancelled" if state == "cancelled" else _DOING[operation["kind"]]
    steps.append((doing, "done" if is_over else "now" if is_sending else ""))
    if is_recovery:
        all_heard = is_over and not progress["waiting"]
        steps.append(("All confirmed", "done" if all_heard else "now" if is_over else ""))
    looks = {"done": "circle-check", "now": "circle-dot", "": "clock"}
    return [{"words": words, "state": step, "icon": looks[step]} for words, step in steps]


def _canary_word(operation: View, *, is_watching: bool) -> str:
    if operation["word"] == STOPPED:
        return "stopped"
    if is_watching or operation["started_at"] is None:
        return "on their way" if is_watching else "canaries"
    return "did well"


def canary_of(operation: View) -> View:
    """Return the canaries that were asked for."""
    given = operation["plan"]["canary"]
    return given if isinstance(given, dict) else {"count": given}


def plan_of(operation: View) -> list[View]:
    """Return what was asked for, as names and sentences."""
    plan: dict[str, Any] = operation["plan"]
    rows = [("As of", operation["requested_at"], "time")]
    if plan.get("limit"):
        rows.append(("How many", f"the oldest {plan['limit']:,}", ""))
    if operation["kind"] == "recover":
        rate = plan.get("rate")
        rows.append(("Rate", f"{rate:g} a second to each queue" if rate else "as fast as it can", ""))
        if plan.get("canary"):
            canary = canary_of(operation)
            may_fail = canary.get("max_failures", 0)
            rows.append(("Canaries", f"{canary['count']:,}, {f'{may_fail:,}' if may_fail else 'none'} may fail", ""))
        if plan.get("not_before"):
            rows.append(("Begins", plan["not_before"], "time"))
        if plan.get("redirect"):
            rows.append(("Sent to", plan["redirect"], "queue"))
        rows.append(("Changed", "by a transform" if plan.get("transform") else "nothing", ""))
        if plan.get("again"):
            rows.append(("Also", "what was sent before, with its result not known", ""))
    rows.append(("Batches", f"{operation['batches']:,} so far, {operation['batches_left']:,} under way", ""))
    if operation["key"]:
        rows.append(("Key", operation["key"], "code"))
    return [{"name": name, "value": value, "kind": kind} for name, value, kind in rows]


def trail_of(entries: list[View]) -> list[View]:
    """Return what people did with an operation after they had requested it, the newest first."""
    shown: list[View] = []
    for entry in entries:
        if entry["action"] in _DOING:
            continue
        icon, words = _TRAIL.get(entry["action"], ("scroll-text", entry["action"]))
        is_refused = entry["outcome"].startswith(REFUSED)
        shown.append({**entry, "icon": icon, "words": words, "is_refused": is_refused, "by": person(entry["actor"])})
    return shown


def person(actor: str) -> str:
    """Return who did something, without where from."""
    return actor.partition(" (")[0] or "unknown"
