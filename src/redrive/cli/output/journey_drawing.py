# SPDX-License-Identifier: MIT
"""A journey as a drawing for a terminal: a tree of its places, what happened there, and where the time went."""

from collections import defaultdict
from dataclasses import dataclass, field

from rich.text import Text

from redrive.clock import utc
from redrive.journey import Journey, Node
from redrive.printable import one_line

_STYLES = {
    "failed": "red",
    "dead": "red",
    "unresolved": "red",
    "succeeded": "green",
    "completed": "green",
    "done": "green",
}
_LONGEST = 200


@dataclass(slots=True)
class JourneyDrawing:
    """Draws a journey: below each place the places that it led to.

    Attributes:
        journey: the journey.
    """

    journey: Journey
    _drawn: set[str] = field(default_factory=set[str])
    _below: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))

    def lines(self) -> list[Text]:
        """Return the drawing, line by line."""
        found = self.journey
        nodes = {node.id: node for node in found.nodes}
        order = {node.id: place for place, node in enumerate(found.nodes)}
        above: set[str] = set()
        for edge in sorted(found.edges, key=lambda edge: order[edge.target]):
            self._below[edge.source].append((edge.target, edge.kind))
            if order[edge.source] < order[edge.target] or edge.source not in above:
                above.add(edge.target)
        lines = [_head(found), _times(found), Text("")]
        roots = [node.id for node in found.nodes if node.id not in above] or [found.nodes[0].id]
        for root in roots:
            lines += self._branch(nodes, root, "", "", "")
        for node in found.nodes:  # what only a circle leads to
            if node.id not in self._drawn:
                lines += self._branch(nodes, node.id, "", "", "")
        return lines + [Text(f"! {one_line(note, _LONGEST)}", style="yellow") for note in found.notes]

    def _branch(self, nodes: dict[str, Node], id_: str, first: str, rest: str, kind: str) -> list[Text]:
        node = nodes[id_]
        label = (f"{kind}: ", "dim") if kind else ""
        if id_ in self._drawn:
            return [Text.assemble((first, "dim"), label, f"{_name(node)} ", ("(above)", "dim"))]
        self._drawn.add(id_)
        state = (node.state, _STYLES.get(node.state, ""))
        lines = [Text.assemble((first, "dim"), label, f"{_name(node)} ", (_clock(node.begin), "dim"), " ", state)]
        below = self._below[id_]
        stem = rest + ("│  " if below else "   ")
        for each in node.happenings:
            said = f": {one_line(each.said, _LONGEST)}" if each.said else ""
            lines.append(Text.assemble((f"{stem}{_clock(each.at)} ", "dim"), f"{each.event}{said}"))
        for number, (child, step) in enumerate(below, 1):
            is_last = number == len(below)
            corner, stem = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            lines += self._branch(nodes, child, rest + corner, rest + stem, step)
        return lines


def _head(found: Journey) -> Text:
    total = length(found.end - found.begin)
    begin = utc(found.begin).strftime("%Y-%m-%d %H:%M:%S")
    return Text.assemble((one_line(found.id, _LONGEST), "bold"), f": {found.state}, {total} from {begin} UTC")


def _times(found: Journey) -> Text:
    return Text(", ".join(f"{kind} {length(seconds)}" for kind, seconds in found.times.items()))


def _name(node: Node) -> str:
    title = one_line(node.title, _LONGEST)
    return title if node.kind == "operation" else f"{title} {one_line(node.message_id, _LONGEST)}"


def _clock(at: float) -> str:
    return utc(at).strftime("%H:%M:%S")


def length(seconds: float) -> str:
    """Return a length of time for people: ``2 h 34 min``, ``66.2 s``."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
