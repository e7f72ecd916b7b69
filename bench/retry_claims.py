"""What we hold ourselves to: the promises of redrive.retry about its speed, and whether the figures keep them."""

from statistics import median
from typing import NamedTuple

from report import Table
from retry_subjects import BARE, GUARDED, HAND_LOOP, NO_WAITS, REDRIVE, TENACITY


class Claim(NamedTuple):
    """A promise, its figure if it was measured, and whether that keeps it."""

    promise: str
    figure: str = "not measured"
    holds: bool | None = None

    def verdict(self):
        """Return one word, loud where it must be."""
        return {True: "holds", False: "MISSED", None: "-"}[self.holds]


def at_most(promise, limit, value, unit):
    """Claim that a value is not above its limit."""
    return Claim(promise) if value is None else Claim(promise, f"{value:.2f}{unit}", value <= limit)


def at_least(promise, limit, value, unit):
    """Claim that a value is not below its limit."""
    return Claim(promise) if value is None else Claim(promise, f"{value:,.0f}{unit}", value >= limit)


def nanoseconds(figures, scenario, subject):
    """Return a subject's median in a scenario, or None."""
    runs = figures.get(scenario, {}).get(subject.name)
    return median(runs) if runs else None


def to_hand_loop(figures, scenario, subject):
    """Return how much longer than the hand-written loop a subject takes, or None."""
    ns, hand = nanoseconds(figures, scenario, subject), nanoseconds(figures, scenario, HAND_LOOP)
    return None if ns is None else ns / hand


def less_than_tenacity(figures, scenario):
    """Return how many times smaller our overhead is, or None."""
    theirs, ours = nanoseconds(figures, scenario, TENACITY), nanoseconds(figures, scenario, REDRIVE)
    bare = nanoseconds(figures, scenario, BARE)
    return None if theirs is None else (theirs - bare) / (ours - bare)


def claim_of_garbage(figures):
    """Claim that none of our ways leaves anything behind."""
    promise = "nothing left for the cycle collector"
    ours = [row for name, row in figures.get("garbage", {}).items() if name.startswith("redrive")]
    if not ours:
        return Claim(promise)
    most = max(value for row in ours for column, value in row.items() if column != "bytes")
    return Claim(promise, f"{most:g} objects", most == 0)


def claims_of_imports(figures):
    """Claim that importing is quick and brings nothing foreign."""
    row = figures.get("import", {}).get("redrive.retry")
    quick, pure = "import redrive.retry ≤ 10 ms", "import redrive.retry loads no third-party module"
    if row is None:
        return [Claim(quick), Claim(pure)]
    loaded = f"loads {' '.join(row['foreign'])}" if row["foreign"] else "none"
    return [
        Claim(quick, f"{row['best']:.1f} ms (median {row['median']:.1f})", row["best"] <= 10),
        Claim(pure, loaded, not row["foreign"]),
    ]


def claims(figures):
    """Return all that we hold ourselves to."""
    found = []
    for kind in ("sync", "async"):
        ratio = to_hand_loop(figures, kind, REDRIVE)
        found.append(at_most(f"{kind}: @retry as it comes ≤ 1.0x the hand loop", 1.0, ratio, "x"))
        ratio = to_hand_loop(figures, kind, GUARDED)
        found.append(at_most(f"{kind}: with breaker and budget ≤ 1.3x the hand loop", 1.3, ratio, "x"))
        ratio = less_than_tenacity(figures, kind)
        found.append(at_least(f"{kind}: overhead ≥ 50x less than tenacity's", 50, ratio, "x"))
        ratio = to_hand_loop(figures, f"{kind}-failing", NO_WAITS)
        found.append(at_most(f"{kind}: two failures, no wait ≤ 4x the hand loop", 4.0, ratio, "x"))
    return [*found, claim_of_garbage(figures), *claims_of_imports(figures)]


def table_of_claims(found):
    """Show the claims."""
    rows = [[claim.promise, claim.figure, claim.verdict()] for claim in found]
    return Table("What we hold ourselves to", ["promise", "measured", "verdict"], rows)
