"""What we hold ourselves to: the promises about the speed of queues, and whether the figures keep them."""

from statistics import median

from queue_subjects import PEERS, PersistQueue, Raw, RawCoalescer, Redrive
from retry_claims import Claim, table_of_claims

__all__ = ["claims", "table_of_claims"]

ACKNOWLEDGING = [peer.name for peer in PEERS if peer.is_acknowledging]


def middle(figures, scenario, name):
    """Return a subject's median in a scenario, or None."""
    runs = (figures.get(scenario) or {}).get(name)
    return median(runs) if runs else None


def ratio_claim(promise, limit, ours, theirs):
    """Claim that ours is at least so many times theirs."""
    if ours is None or theirs is None:
        return Claim(promise)
    return Claim(promise, f"{ours / theirs:.2f}x", ours / theirs >= limit)


def to(figures, scenario, subject, limit, what):
    """Claim a rate beside another subject's in the same scenario."""
    ours, theirs = middle(figures, scenario, Redrive.name), middle(figures, scenario, subject.name)
    return ratio_claim(f"{what} ≥ {limit:g}x {subject.name}", limit, ours, theirs)


def claim_of_peers(figures):
    """Claim to be far ahead of every library that acknowledges."""
    rates = [middle(figures, "callers-64", name) for name in ACKNOWLEDGING]
    best = max((rate for rate in rates if rate is not None), default=None)
    ours = middle(figures, "callers-64", Redrive.name)
    return ratio_claim("64 callers ≥ 8x the best acknowledging peer", 8, ours, best)


def claim_of_worker(figures):
    """Claim that the worker, end to end, is far ahead of bare receiving."""
    ours, theirs = middle(figures, "worker", "redrive worker"), middle(figures, "worker", PersistQueue.name)
    return ratio_claim("worker, empty handler ≥ 5x persist-queue's bare receive and ack", 5, ours, theirs)


def claim_of_depth(figures):
    """Claim that depth does not matter."""
    by_depth = figures.get("depth")
    if not by_depth:
        return Claim("receive from a deep queue ≥ 0.8x of depth 1,000")
    shallow, deep = min(by_depth), max(by_depth)
    promise = f"receive at depth {deep:,} ≥ 0.8x of depth {shallow:,}"
    return ratio_claim(promise, 0.8, median(by_depth[shallow]), median(by_depth[deep]))


def claim_of_memory(figures):
    """Claim that memory is flat once the caches are warm: nothing may grow between the second tenth and the last."""
    seen = figures.get("memory")
    promise = "memory flat while messages pass (≤ 5 % between the second tenth and the last)"
    if not seen:
        return Claim(promise)
    growth = seen[-1] / seen[1] - 1
    return Claim(promise, f"{growth:+.1%}", growth <= 0.05)


def claims(figures):
    """Return all that we hold ourselves to."""
    return [
        to(figures, "batch-send", Raw, 0.5, "batch send"),
        to(figures, "batch-receive", Raw, 0.5, "batch receive and complete"),
        claim_of_peers(figures),
        to(figures, "callers-64", RawCoalescer, 0.5, "64 callers"),
        to(figures, "lone-send", Raw, 0.8, "a lone sender"),
        to(figures, "lone-receive", Raw, 0.8, "a lone receiver"),
        claim_of_worker(figures),
        claim_of_depth(figures),
        claim_of_memory(figures),
    ]
