"""What we hold ourselves to: the promises about the speed of queues, and whether the figures keep them."""

from statistics import median

from nats_subjects import FENCED, RedriveOne, RedriveThree
from queue_scenarios import RECEIVERS, WORKER
from queue_subjects import Redrive
from retry_claims import Claim, table_of_claims

__all__ = ["claims", "table_of_claims"]


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


def to_best_peer(figures, scenario, engine, limit, what):
    """Claim a rate beside the best of the libraries that acknowledge."""
    peers = [kind.name for kind in engine.subjects if kind.is_peer and kind.is_acknowledging]
    rates = [middle(figures, scenario, name) for name in peers]
    best = max((rate for rate in rates if rate is not None), default=None)
    ours = middle(figures, scenario, Redrive.name)
    return ratio_claim(f"{what} ≥ {limit:g}x the best acknowledging peer", limit, ours, best)


def claims_of_worker(figures, engine):
    """Claim that the worker, end to end, is far ahead of bare receiving, and costs nothing beside callers of ours."""
    beside = engine.beside_worker.name
    ours, theirs = middle(figures, "worker", WORKER), middle(figures, "worker", beside)
    yield ratio_claim(f"worker, empty handler ≥ 5x {beside}'s bare receive and ack", 5, ours, theirs)
    callers = middle(figures, "worker", RECEIVERS)
    yield ratio_claim("worker, empty handler ≥ 1x 64 callers who receive and complete", 1, ours, callers)


def claim_of_depth(figures):
    """Claim that depth does not matter."""
    by_depth = (figures.get("depth") or {}).get(Redrive.name)
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


def claim_of_fifths(figures, scenario, column, limit, promise, *, first=0):
    """Claim that what a churn shows in its last fifth is at most so many times what it showed in an earlier one."""
    fifths = (figures.get(scenario) or {}).get(Redrive.name)
    if not fifths:
        return Claim(promise)
    before, after = fifths[first][column], fifths[-1][column]
    if before is None or after is None:
        return Claim(promise)
    growth = after / before
    return Claim(promise, f"{growth:.2f}x", growth <= limit)


def claims_of_churn(figures):
    """Claim that nothing grows by itself, and that a foreign transaction makes it slower, not slow."""
    # A table has found its size after two vacuums or so: in the second fifth.
    yield claim_of_fifths(
        figures, "churn", "MB", 1.5, "churn: size in the last fifth ≤ 1.5x that in the second", first=1
    )
    yield claim_of_fifths(figures, "churn", "p50 ms", 1.5, "churn: receive in the last fifth ≤ 1.5x that in the first")
    yield claim_of_foreign_transaction(figures)


def claim_of_foreign_transaction(figures):
    """Claim the worst fifth beside a foreign transaction, not the last: it may get worse before it gets better."""
    promise = "receive beside a foreign transaction, in the worst fifth ≤ 2x that without one"
    fifths = [(figures.get(name) or {}).get(Redrive.name) or [] for name in ("churn", "churn-held")]
    calm, held = ([fifth["p50 ms"] for fifth in part] for part in fifths)
    if not calm or not held or None in (*calm, *held):
        return Claim(promise)
    times = max(held) / median(calm)
    return Claim(promise, f"{times:.2f}x", times <= 2)


def claims_of_sqlite(figures, engine):
    """Return what we hold ourselves to with a file."""
    return [
        to(figures, "batch-send", engine.raw, 0.5, "batch send"),
        to(figures, "batch-receive", engine.raw, 0.5, "batch receive and complete"),
        to(figures, "headers-send", engine.raw, 0.7, "batch send with headers"),
        to(figures, "headers-receive", engine.raw, 0.7, "batch receive and complete with headers"),
        to_best_peer(figures, "callers-64", engine, 8, "64 callers"),
        to(figures, "callers-64", engine.coalescer, 0.5, "64 callers"),
        to(figures, "lone-send", engine.raw, 0.8, "a lone sender"),
        to(figures, "lone-receive", engine.raw, 0.8, "a lone receiver"),
        *claims_of_worker(figures, engine),
        claim_of_depth(figures),
        claim_of_memory(figures),
    ]


def claims_of_postgres(figures, engine):
    """Return what we hold ourselves to with a server."""
    return [
        to(figures, "batch-send", engine.raw, 0.5, "batch send"),
        to_best_peer(figures, "batch-send", engine, 1, "batch send"),
        to(figures, "batch-receive", engine.raw, 0.5, "batch receive and complete"),
        to_best_peer(figures, "batch-receive", engine, 1, "batch receive and complete"),
        to(figures, "headers-send", engine.raw, 0.7, "batch send with headers"),
        to(figures, "headers-receive", engine.raw, 0.7, "batch receive and complete with headers"),
        to_best_peer(figures, "callers-64", engine, 5, "64 callers"),
        to(figures, "callers-64", engine.coalescer, 0.5, "64 callers"),
        *claims_of_worker(figures, engine),
        claim_of_depth(figures),
        claim_of_memory(figures),
        *claims_of_churn(figures),
    ]


def to_best_hand(figures, scenario, ours, limit, what):
    """Claim a rate beside the best that is written by hand with the same guarantees, with as many replicas."""
    (best,) = [kind.name for kind in FENCED if kind.home == ours.home]
    replicas = ours.name.partition(", ")[2]
    promise = f"{what}, {replicas} ≥ {limit:g}x the best written by hand with the same guarantees"
    return ratio_claim(promise, limit, middle(figures, scenario, ours.name), middle(figures, scenario, best))


def claims_of_nats(figures, _engine):
    """Return what we hold ourselves to with NATS."""
    whats = {"callers-64": "64 callers", "hand-over-64": "64 callers hand over"}
    kinds = (RedriveOne, RedriveThree)
    return [to_best_hand(figures, name, kind, 0.5, what) for name, what in whats.items() for kind in kinds]


def claims(figures, engine):
    """Return all that we hold ourselves to."""
    of_engines = {"sqlite": claims_of_sqlite, "postgres": claims_of_postgres, "nats": claims_of_nats}
    return of_engines[engine.name](figures, engine)
