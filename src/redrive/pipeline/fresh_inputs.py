# SPDX-License-Identifier: MIT
"""What was submitted in this process a moment ago, so that it need not be read again to be processed. Pure: no I/O.

A process that stores the outcome of a task learns from the store whether it is still as its message says; what is kept
here never changes. A task of another process, and one that has waited for long, is read from the store.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from redrive.pipeline.records import NewTask, TaskItem, TaskToken

MOST_BYTES: Final = 8_000_000
"""How many bytes of bodies are kept; those that were submitted first go first."""


class ProcessInput(NamedTuple):
    """What a process task works on.

    Attributes:
        version: the version of the pipeline that made the task.
        items: its items in order.
    """

    version: int
    items: Sequence[TaskItem]


class FreshInputs:
    """The inputs of process tasks that were submitted here, for a while.

    Args:
        most_bytes: how many bytes of bodies are kept.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, ProcessInput] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, task: NewTask) -> None:
        """Keep the input of a task that is about to be stored."""
        items = [
            TaskItem(index=index, id=item.id, body=item.body, body_id=item.body_id)
            for index, item in enumerate(task.items, 1)
            if item.body is not None
        ]
        self._kept[task.id] = ProcessInput(task.version, items)
        self._bytes += _size_of(items)
        while self._bytes > self._most_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _size_of(oldest.items)

    def taken(self, token: TaskToken) -> ProcessInput | None:
        """Return the input of a task whose course no one has changed, and keep it no longer."""
        found = self._kept.pop(token.task, None)
        if found is not None:
            self._bytes -= _size_of(found.items)
        return None if token.epoch or token.retries else found

    def forget(self, task: str) -> None:
        """Keep the input of a task no longer: it was not stored, or someone has changed its course."""
        self.taken(TaskToken(task))


def _size_of(items: Sequence[TaskItem]) -> int:
    return sum(len(item.body) for item in items)
