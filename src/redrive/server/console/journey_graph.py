# SPDX-License-Identifier: MIT
"""A journey as rows of a graph, as ``git log --graph`` draws one. Pure: no I/O, no clock.

Each thing that happened is a row. A message has a lane: its failures and the operations that sent it again stay in it.
A fork opens lanes, a batch joins them. A lane is dashed where the message waits, and not drawn where nothing is known.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from redrive.broker.views import View

GAP: Final = "no record"
_AFTER: Final = {"failure": 1, "operation": 2}
"""What comes after the message it is about, if both begin at one instant."""

_SAME_LANE: Final = ("failed", "recovery", "again", "edit", "sent")
_QUIET_S: Final = 600.0
_WAITS_S: Final = 1.0
_LANES: Final = 5
_LAYERS: Final = {"retry": 1, "redeliver": 2, "replay": 3, "re-run": 4, "recover": 5}
_KINDS: Final = {
    "event": "Topic",
    "message": "Queue",
    "failure": "Failed",
    "operation": "Recover",
    "task": "Task",
    "shipment": "Send",
}
_BAD: Final = frozenset({"failed", "failed-again", "dead", "dead-lettered", "unresolved", "refused", "expired"})
_GOOD: Final = frozenset({"completed", "succeeded", "resolved", "done", "arrived"})
_GREY, _RED, _GREEN, _AMBER, _BLUE = range(5)


@dataclass
class _Row:
    """Something that happened: which node's, when, what, and in which lane."""

    at: str
    node: View
    event: str
    said: str
    lane: int = 0
    is_first: bool = False
    is_last: bool = False
    is_now: bool = False
    forks: list[int] = field(default_factory=list)
    joins: list[int] = field(default_factory=list)


@dataclass
class _Lane:
    """A line: from the row in which it leaves another to the row in which it ends or joins another."""

    first: int
    last: int
    colour: int
    is_forked: bool = False
    joins_at: int | None = None
    dots: list[int] = field(default_factory=list)


def rows_of(journey: View) -> list[View]:
    """Return the rows of a journey, the oldest first, with what the graph needs to be drawn.

    Args:
        journey: the view of the API.
    """
    nodes = {each["id"]: each for each in journey["nodes"]}
    edges = [
        each
        for each in journey["edges"]
        if each["source"] in nodes
        and each["target"] in nodes
        and nodes[each["source"]]["begin"] <= nodes[each["target"]]["begin"]
    ]
    lanes_of, forks, joins = _placed(nodes, edges)
    rows = _happened(nodes.values(), lanes_of)
    lanes = _drawn(rows, forks, joins)
    return _with_gaps(rows, lanes, journey["parts"])


def _placed(
    nodes: Mapping[str, View], edges: Sequence[View]
) -> tuple[dict[str, int], list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the lane of each node, and the edges that leave a lane and that end in another."""
    lanes: dict[str, int] = {}
    forks, joins, used = list[tuple[str, str]](), list[tuple[str, str]](), 0
    leaving: dict[str, int] = {}
    for edge in edges:
        leaving[edge["source"]] = leaving.get(edge["source"], 0) + (edge["kind"] not in _SAME_LANE)
    for node in sorted(nodes.values(), key=lambda each: (each["begin"], _AFTER.get(each["kind"], 0), each["id"])):
        coming = [each for each in edges if each["target"] == node["id"] and each["source"] in lanes]
        near = next((each for each in coming if each["kind"] in _SAME_LANE), coming[0] if coming else None)
        if near is None:
            lanes[node["id"]], used = used, used + 1
        elif near["kind"] in (*_SAME_LANE, "join") or leaving[near["source"]] == 1:
            lanes[node["id"]] = lanes[near["source"]]
        else:
            lanes[node["id"]], used = used, used + 1
            forks.append((near["source"], node["id"]))
        joins += [
            (each["source"], node["id"])
            for each in coming
            if lanes[each["source"]] != lanes[node["id"]] and each is not near
        ]
    return lanes, forks, joins


def _happened(nodes: Collection[View], lanes: Mapping[str, int]) -> list[_Row]:
    """Return what happened, in order; a place where nothing is noted has one row, and one where it is now another."""
    rows: list[_Row] = []
    for node in nodes:
        known = node["happenings"] or [{"at": node["begin"], "event": node["state"], "said": ""}]
        own = [_Row(each["at"], node, each["event"], each["said"], lanes[node["id"]]) for each in known]
        own[0].is_first, own[-1].is_last = True, True
        rows += own
    rows.sort(key=lambda each: (each.at, _rank(each), each.lane))
    now = [
        _Row("", node, node["state"], "", lanes[node["id"]], is_now=True)
        for node in nodes
        if node["end"] is None and node["kind"] != "operation"
    ]
    return rows + now


def _rank(row: _Row) -> int:
    """Return what comes first of what happened at one instant: a request, what it sends, how that ends, the record."""
    if row.node["kind"] == "operation":
        return 0 if row.is_first else 4
    if row.node["kind"] == "failure":
        return 3
    return 1 if row.is_first else 2


def _drawn(rows: Sequence[_Row], forks: Sequence[tuple[str, str]], joins: Sequence[tuple[str, str]]) -> list[_Lane]:
    """Return the lanes, from row to row, and note at the rows which lanes leave and join there."""
    lanes: dict[int, _Lane] = {}
    for place, row in enumerate(rows):
        lane = lanes.setdefault(row.lane, _Lane(place, place, _GREY))
        lane.last, lane.colour = place, _colour(row)
        lane.dots.append(place)
    for source, target in forks:
        start, begins = _last_before(rows, source, target), _first(rows, target)
        lane = lanes[rows[begins].lane]
        if start < lane.first:
            lane.first, lane.is_forked = start, True
            rows[start].forks.append(rows[begins].lane)
    for source, target in joins:
        ends, meets = _last_before(rows, source, target), _first(rows, target)
        lane = lanes[rows[ends].lane]
        if lane.last < meets:
            lane.last = lane.joins_at = meets
            rows[meets].joins.append(rows[ends].lane)
    return [lanes[each] for each in sorted(lanes)]


def _first(rows: Sequence[_Row], node: str) -> int:
    return next(place for place, row in enumerate(rows) if row.node["id"] == node)


def _last_before(rows: Sequence[_Row], source: str, target: str) -> int:
    """Return the last row of a node before the first of another."""
    limit = _first(rows, target)
    own = [place for place, row in enumerate(rows) if row.node["id"] == source and place < limit]
    return own[-1] if own else _first(rows, source)


def _colour(row: _Row) -> int:
    if row.event in _BAD:
        return _RED
    if row.event in _GOOD:
        return _GREEN
    if row.node["kind"] in ("task", "shipment"):
        return _BLUE
    return _AMBER if row.is_now else _GREY


# --- rows of the page


def _with_gaps(rows: Sequence[_Row], lanes: Sequence[_Lane], parts: Sequence[View]) -> list[View]:
    """Return the rows, and between them one for each long time in which nothing happened or nothing is known."""
    shown: list[View] = []
    for place, row in enumerate(rows):
        shown.append(_shown(place, row, rows, lanes))
        if place + 1 == len(rows) or not rows[place + 1].at or not row.at:
            continue
        gap = _unknown_between(parts, row.at, rows[place + 1].at)
        quiet = _seconds(row.at, rows[place + 1].at)
        if gap or quiet >= _QUIET_S:
            passing = [] if gap else _passing(place, rows, lanes, between=True)
            shown.append({"is_gap": True, "is_unknown": gap > 0, "seconds": gap or quiet, "lanes": passing})
    return shown


def _shown(place: int, row: _Row, rows: Sequence[_Row], lanes: Sequence[_Lane]) -> View:
    node = row.node
    colour = _colour(row)
    return {
        "is_gap": False,
        "at": row.at or None,
        "is_now": row.is_now,
        "layer": _LAYERS.get(node["layer"], 0),
        "word": _KINDS.get(node["kind"], node["kind"]),
        "node": node,
        "event": row.event,
        "said": row.said,
        "tone": "bad" if row.event in _BAD else "ok" if row.event in _GOOD else "",
        "lanes": _passing(place, rows, lanes),
        "dot": (row.lane, colour),
        "forks": [(row.lane, each, f"l{lanes[each].colour}") for each in row.forks if each < len(lanes)],
        "joins": [(each, row.lane, f"l{lanes[each].colour}") for each in row.joins if each < len(lanes)],
    }


def _passing(
    place: int, rows: Sequence[_Row], lanes: Sequence[_Lane], *, between: bool = False
) -> list[tuple[int, str, str]]:
    """Return the lines of a row: the lane, the class of the colour, and which part is drawn."""
    passing: list[tuple[int, str, str]] = []
    for number, lane in enumerate(lanes[:_LANES]):
        if not lane.first <= place <= lane.last or (between and place == lane.last):
            continue
        words: list[str] = []
        if not between and place == lane.first:
            if lane.is_forked or lane.first == lane.last:
                continue  # the curve of the fork is its beginning; a single dot needs no line
            words.append("down")
        elif not between and place == lane.last:
            if lane.joins_at is not None:
                continue  # the curve of the join is its end
            words.append("up")
        if _waits(place, lane, rows):
            words.append("dash")
        passing.append((number, f"l{lane.colour}", " ".join(words)))
    return passing


def _waits(place: int, lane: _Lane, rows: Sequence[_Row]) -> bool:
    """Say whether a lane waits in a row: its next dot is later than its last one."""
    before = [each for each in lane.dots if each <= place]
    after = [each for each in lane.dots if each > place]
    if not before or not after:
        return False
    until = rows[after[0]].at
    return not until or _seconds(rows[before[-1]].at, until) >= _WAITS_S


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def _unknown_between(parts: Sequence[View], begin: str, end: str) -> float:
    """Return for how many seconds between two instants nothing is known."""
    first, last = datetime.fromisoformat(begin), datetime.fromisoformat(end)
    found = 0.0
    for part in parts:
        if part["kind"] == GAP:
            left = max(datetime.fromisoformat(part["begin"]), first)
            right = min(datetime.fromisoformat(part["end"]), last)
            found += max((right - left).total_seconds(), 0.0)
    return found
