# SPDX-License-Identifier: MIT
"""Where items have come from and gone to, as a tree of tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from redrive.cli.output.pipeline_tables import shipment_text, state_text
from redrive.cli.output.sentences import count, some
from redrive.pipeline import ShipmentInfo, TaskInfo, Trace
from redrive.printable import one_line

_MOST_SHIPMENTS = 20


@dataclass(slots=True)
class TraceTree:
    """Draws the tasks of a trace: below each the tasks that its items have gone to.

    Attributes:
        trace: the steps.
        shipments: the shipments of the tasks that have some.
        marked: the task that was asked for.
    """

    trace: Trace
    shipments: Mapping[str, Sequence[ShipmentInfo]]
    marked: str = ""
    _drawn: set[str] = field(default_factory=set[str])

    def lines(self) -> list[Text]:
        """Return the tree, a line for each task and each shipment."""
        tasks = {task.id: task for task in self.trace.tasks}
        below: dict[str, list[str]] = {id_: [] for id_ in tasks}
        roots = dict.fromkeys(tasks)
        for edge in self.trace.edges:
            child, parent = edge.child[0], None if edge.parent is None else edge.parent[0]
            if parent in below and child not in below[parent]:
                below[parent].append(child)
                roots.pop(child, None)
        return [line for root in roots for line in self._branch(tasks, below, root, "", "")]

    def _branch(
        self, tasks: Mapping[str, TaskInfo], below: Mapping[str, list[str]], id_: str, first: str, rest: str
    ) -> list[Text]:
        task = tasks[id_]
        if id_ in self._drawn:  # items of several tasks have come together in it
            return [Text.assemble((first, "dim"), f"{one_line(id_)} ", ("(above)", "dim"))]
        self._drawn.add(id_)
        lines = [Text.assemble((first, "dim"), self._task(task))]
        stem = rest + ("│  " if below[id_] else "   ")
        lines += [Text.assemble((stem, "dim"), each) for each in self._shipments(task)]
        for number, child in enumerate(below[id_], 1):
            is_last = number == len(below[id_])
            lines += self._branch(
                tasks, below, child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  ")
            )
        return lines

    def _task(self, task: TaskInfo) -> Text:
        to = f" to {one_line(task.destination)}" if task.destination else ""
        items = [edge.item for edge in self.trace.edges if edge.child[0] == task.id]
        style = "bold" if task.id == self.marked else ""
        line = Text.assemble((one_line(task.id), style), f"  {task.stage}{to}, {_items(items)}: ")
        line.append_text(state_text(task.state))
        return line.append(f": {one_line(task.reason)}" if task.reason else "")

    def _shipments(self, task: TaskInfo) -> list[Text]:
        wanted = {edge.shipment for edge in self.trace.edges if edge.child[0] == task.id}
        found = [each for each in self.shipments.get(task.id, ()) if each.index in wanted]
        lines: list[Text] = []
        for each in found[:_MOST_SHIPMENTS]:
            line = Text.assemble(f"shipment {each.index}: ", shipment_text(each))
            said = each.reason or each.receipt
            lines.append(line.append(f", {one_line(said)}" if said else ""))
        if len(found) > _MOST_SHIPMENTS:
            more = f"and {len(found) - _MOST_SHIPMENTS:,} more: redrive pipeline show {one_line(task.id)}"
            lines.append(Text(more, style="dim"))
        return lines


def _items(items: Sequence[str]) -> str:
    return f"item {one_line(items[0])}" if len(items) == 1 else count(len(items), "item") if items else some(items)
