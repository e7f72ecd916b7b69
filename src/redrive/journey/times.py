# SPDX-License-Identifier: MIT
"""Where the time went: intervals of a message, and how much of the total each kind has. Pure: no I/O, no clock.

At one moment several things may be under way, as a message may have several legs. Each moment counts once, for the
first of ``KINDS`` that is under way then; a moment without any is a gap. So the parts always add up to the total.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["handling", "in recovery", "in batch", "delayed", "failed", "waiting", "no record"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
GAP: Final[Kind] = "no record"


@dataclass(frozen=True, slots=True)
class Interval:
    """A length of time in which something was under way.

    Attributes:
        kind: what it was.
        begin: since when, in seconds since 1970.
        end: until when.
        node: where, as the id of a node.
    """

    kind: Kind
    begin: float
    end: float
    node: str = ""


def parted(intervals: Iterable[Interval], begin: float, end: float) -> list[Interval]:
    """Return the time between two instants in parts that follow each other, the gaps between intervals included."""
    inside = [each for each in intervals if each.begin < end and each.end > begin and each.begin < each.end]
    cuts = sorted({begin, end, *(min(max(at, begin), end) for each in inside for at in (each.begin, each.end))})
    parts: list[Interval] = []
    for left, right in pairwise(cuts):
        under_way = [each for each in inside if each.begin <= left and each.end >= right]
        best = min(under_way, key=lambda each: KINDS.index(each.kind), default=Interval(GAP, left, right))
        part = Interval(best.kind, left, right, best.node)
        if parts and parts[-1].kind == part.kind and parts[-1].node == part.node:
            parts[-1] = Interval(part.kind, parts[-1].begin, right, part.node)
        else:
            parts.append(part)
    return parts


def totals(parts: Sequence[Interval]) -> dict[Kind, float]:
    """Return how many seconds each kind has, those that have some, in the order of ``KINDS``."""
    sums: dict[Kind, float] = dict.fromkeys(KINDS, 0.0)
    for part in parts:
        sums[part.kind] += part.end - part.begin
    return {kind: seconds for kind, seconds in sums.items() if seconds > 0}
