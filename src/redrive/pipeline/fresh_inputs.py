# SPDX-License-Identifier: MIT
"""What was submitted in this process a moment ago, so that it need not be read again to be processed. Pure: no I/O.

A process that stores the outcome of a task learns from the store whether it is still as its message says; what is kept
here never changes. A task of another process, and one that has waited for long, is read from the store.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from redrive.pipeline.records import NewTask, TaskItem
from redrive.pipeline.task_token import TaskToken

MOST_BYTES: Final = 8_000_000
"""How many bytes of bodies are kept; those that were submitted first go first."""


_Kept: TypeAlias = tuple[int, int, tuple[tuple[str, bytes, str], ...]]
"""The version, the number of bytes, and the items: their ids, their bodies, and where these are stored."""


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
        # tuples of texts and bytes: Python's garbage collector does not look at them again and again
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, task: NewTask) -> None:
        """Keep the input of a task that is about to be stored."""
        items = tuple([(item.id, item.body, item.body_id) for item in task.items if item.body is not None])
        self._kept[task.id] = task.version, task.size, items
        self._bytes += task.size
        while self._bytes > self._most_bytes:
            _, (_, size, _) = self._kept.popitem(last=False)
            self._bytes -= size

    def taken(self, token: TaskToken) -> ProcessInput | None:
        """Return the input of a task whose course no one has changed, and keep it no longer."""
        found = self._popped(token.task)
        if found is None or token.epoch or token.retries:
            return None
        version, _, items = found
        return ProcessInput(
            version,
            [
                TaskItem(index=index, id=id_, body=body, body_id=body_id)
                for index, (id_, body, body_id) in enumerate(items, 1)
            ],
        )

    def forget(self, task: str) -> None:
        """Keep the input of a task no longer: it was not stored, or someone has changed its course."""
        self._popped(task)

    def _popped(self, task: str) -> _Kept | None:
        found = self._kept.pop(task, None)
        if found is not None:
            self._bytes -= found[1]
        return found
