# SPDX-License-Identifier: MIT
"""An operation over time and by destination, out of the samples that were kept of it. Pure: no I/O, no clock."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from redrive.broker.views import View

_STEPS: Final = (5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)
_MOST_BARS: Final = 40
_LABELS: Final = 4
_HAD_THEIR_TURN: Final = ("succeeded", "done", "failed-again", "failed", "forwarded", "closed", "superseded", "skipped")
_COLOURS: Final = (
    (("succeeded", "done"), "f-ok", False),
    (("failed-again", "failed"), "f-bad", False),
    (("forwarded",), "f-info", True),
    (("closed", "superseded", "skipped"), "f-idle", False),
)


def results_over_time(samples: Sequence[View]) -> View | None:
    """Return how many messages succeeded and failed again in each step; None if too little is known yet.

    Args:
        samples: the samples of an operation, the oldest first.
    """
    if len(samples) < 2:
        return None
    start, end = (datetime.fromisoformat(samples[place]["at"]) for place in (0, -1))
    length = max((end - start).total_seconds(), _STEPS[0])
    step = next((each for each in _STEPS if length / each <= _MOST_BARS), _STEPS[-1])
    count = int(length // step) + 1
    lines = {word: [0] * count for word in ("succeeded", "failed-again")}
    before = dict.fromkeys(lines, 0)
    for sample in samples:
        place = min(int((datetime.fromisoformat(sample["at"]) - start).total_seconds() // step), count - 1)
        for word, line in lines.items():
            known = sum(counts.get(word, 0) for counts in sample["lanes"].values())
            line[place] += max(known - before[word], 0)
            before[word] = known
    instants = [(start + timedelta(seconds=place * step)).isoformat() for place in range(count)]
    every = max(count // _LABELS, 1)
    return {
        "step": step,
        "succeeded": lines["succeeded"],
        "failed_again": lines["failed-again"],
        "labels": [(place, instants[place]) for place in range(0, count, every)],
        "rows": [
            (instants[place], good, bad)
            for place, (good, bad) in enumerate(zip(lines["succeeded"], lines["failed-again"], strict=True))
            if good or bad
        ][::-1],
    }


def destinations_of(samples: Sequence[View], lanes: Sequence[View], queues: Sequence[View]) -> list[View]:
    """Return the destinations of an operation: how many messages had their turn in each, and what became of them.

    Args:
        samples: the samples of the operation.
        lanes: the lanes that there are.
        queues: the queues that there are.
    """
    if not samples:
        return []
    workers = {each["name"]: each["session"] for each in lanes}
    depths = {each["name"]: each for each in queues}
    return [
        {
            "name": name,
            "turned": sum(counts.get(word, 0) for word in _HAD_THEIR_TURN),
            "bar": _bar(counts),
            "unconfirmed": counts.get("forwarded", 0),
            "failed_again": counts.get("failed-again", 0),
            "served_by": workers.get(name),
            "ready": depths[name]["ready"] if name in depths else None,
        }
        for name, counts in samples[-1]["lanes"].items()
        if name
    ]


def _bar(counts: Mapping[str, int]) -> list[tuple[str, int, bool]]:
    return [(kind, sum(counts.get(word, 0) for word in words), waits) for words, kind, waits in _COLOURS]
