# SPDX-License-Identifier: MIT
"""The numbers over time of the overview: asked for together, so that all of them are of the same moment."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from redrive.broker import tallies
from redrive.broker.views import View
from redrive.history import SeriesQuestion, metrics
from redrive.server.api.endpoint import Caller
from redrive.server.api.series import list_several_series

FAILED: Final = "failed"
HANDLED: Final = "handled"
RECOVERED: Final = "recovered"
FAILED_HOUR: Final = "failed in an hour"
FAILED_DAY: Final = "failed in a day"
HANDLED_LATELY: Final = "handled lately"
OF_GROUPS: Final = "failed, by group"
SENT_LATELY: Final = "sent lately, by queue"
COMPLETED_LATELY: Final = "completed lately, by queue"
READY: Final = "ready, by queue"

LATELY_S: Final = 300


class OverviewLines:
    """Numbers over time.

    Args:
        found: for each line of the page the series of the API, one for each thing.
        counts: how many steps each has.
    """

    def __init__(self, found: Mapping[str, Sequence[View]], counts: Mapping[str, int]) -> None:
        self._found = found
        self._counts = counts

    def of(self, line: str, name: str) -> list[int] | None:
        """Return the numbers of one thing; None if they were not asked for."""
        return next((each["values"] for each in self._found.get(line, ()) if each["name"] == name), None)

    def total(self, line: str) -> list[int]:
        """Return the numbers of all things together, step by step; zeros where nothing is known."""
        columns: Iterable[tuple[Any, ...]] = zip(*(each["values"] for each in self._found.get(line, ())), strict=True)
        return [sum(each or 0 for each in column) for column in columns] or [0] * self._counts[line]

    def mean(self, line: str, name: str) -> float:
        """Return what the numbers of one thing are on average."""
        values = self.of(line, name) or []
        return sum(each or 0 for each in values) / max(len(values), 1)


async def overview_lines(
    caller: Caller, span: tuple[int, int], groups: Sequence[str], queues: Sequence[str]
) -> OverviewLines:
    """Return the numbers over time that the overview shows.

    Args:
        caller: who looks.
        span: how many seconds its charts go back, and how many a step is.
        groups: the groups that need a person.
        queues: the queues that are listed.
    """
    asked = {
        FAILED: (tallies.FAILED, tallies.QUEUE, None, *span),
        HANDLED: (tallies.COMPLETED, tallies.QUEUE, None, *span),
        RECOVERED: (tallies.RECOVERED, tallies.LANE, None, *span),
        FAILED_HOUR: (tallies.FAILED, tallies.QUEUE, None, 3_600, 60),
        FAILED_DAY: (tallies.FAILED, tallies.QUEUE, None, 86_400, 3_600),
        HANDLED_LATELY: (tallies.COMPLETED, tallies.QUEUE, None, LATELY_S, 60),
        OF_GROUPS: (tallies.FAILED, tallies.GROUP, groups, 21_600, 600),
        SENT_LATELY: (tallies.SENT, tallies.QUEUE, queues, LATELY_S, 60),
        COMPLETED_LATELY: (tallies.COMPLETED, tallies.QUEUE, queues, LATELY_S, 60),
        READY: (metrics.READY, tallies.QUEUE, queues, *span),
    }
    counts = {line: length_s // step_s for line, (_, _, _, length_s, step_s) in asked.items()}
    questions = {
        line: SeriesQuestion(metric=metric, topic=topic, names=names, span=length_s, step=step_s)
        for line, (metric, topic, names, length_s, step_s) in asked.items()
        if names != [] and (topic == tallies.QUEUE or caller.principal.queues is None)
    }
    found = await caller.ask(list_several_series, questions=list(questions.values()))
    return OverviewLines(dict(zip(questions, found, strict=True)), counts)
