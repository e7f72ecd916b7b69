"""What we hold ourselves to in the speed of recovery, whether the figures keep it, and the tables of them."""

from itertools import pairwise
from statistics import median

from queue_claims import ratio_claim
from recovery_scenarios import MILLION, RAW, READ, STEP
from report import Table
from retry_claims import Claim, at_most, table_of_claims

__all__ = ["claims", "draw", "tables"]

TITLES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


def middle(figures, scenario, size, name):
    """Return a subject's median, or None."""
    runs = figures[scenario].get(size, {}).get(name)
    return median(runs) if runs and None not in runs else None


def best_raw(figures, size):
    """Return the rate of the better raw loop, or None."""
    return max((rate for one in RAW if (rate := middle(figures, "recover", size, one.name))), default=None)


def claim_of_rate(figures, size):
    """Claim the rate beside the raw loop."""
    promise = f"recover {size:,} end to end ≥ 0.25x the better raw loop"
    return ratio_claim(promise, 0.25, middle(figures, "recover", size, STEP.name), best_raw(figures, size))


def claim_of_reading(figures, size):
    """Claim the rate at which failures are read beside the raw loop."""
    promise = f"read {size:,} failures ≥ 0.4x the better raw loop"
    reading = middle(figures, "recover", size, READ.name) or figures["ingest"].get(size)
    return ratio_claim(promise, 0.4, reading, best_raw(figures, size))


def growth(figures, scenario, small, large):
    """Return how many times a figure is what it was, or None."""
    before, after = (middle(figures, scenario, size, STEP.name) for size in (small, large))
    return None if before is None or after is None or small == large else after / before


def claim_of_cost(figures, small, large):
    """Claim that a message costs the same, however many there are."""
    faster = growth(figures, "recover", small, large)
    promise = f"cost of a message at {large:,} ≤ 1.2x of that at {small:,}"
    return at_most(promise, 1.2, faster and 1 / faster, "x")


def claim_of_memory(figures, small, large):
    """Claim that memory does not grow with what is recovered."""
    promise = f"memory flat: high-water at {large:,} ≤ 1.1x of that at {small:,}"
    return at_most(promise, 1.1, growth(figures, "memory", small, large), "x")


def claim_of_look(figures, name, size):
    """Claim that looking up takes hardly longer than a statement made for nothing else."""
    promise = f"{name} over {size:,} ≤ 3x a raw indexed query"
    found = figures["look"].get(name)
    return Claim(promise) if not found else at_most(promise, 3, median(found["redrive"]) / median(found["raw"]), "x")


def claims(figures, sizes, looks):
    """Return all that we hold ourselves to; what is measured with --million only is not measured without."""
    small, main = min(sizes), max(size for size in sizes if size < MILLION or len(sizes) == 1)
    larger = sorted({main, MILLION})
    found = [claim_of_rate(figures, size) for size in larger]
    found += [claim_of_reading(figures, size) for size in sorted({small, *larger})]
    found += [claim_of_cost(figures, small, size) for size in larger]
    found += [claim_of_memory(figures, before, after) for before, after in pairwise([small, *larger])]
    return [*found, *(claim_of_look(figures, name, max(sizes)) for name in looks)]


# --- tables -----------------------------------------------------------------------------------------------------------


def table_of_rates(title, figures, size):
    """Show who moves how many messages a second, and with how much memory."""
    raw = best_raw(figures, size)
    rows = []
    for name, runs in figures["recover"][size].items():
        rate, peak = median(runs), middle(figures, "memory", size, name)
        memory = "-" if peak is None else f"{peak:.0f}"
        rows.append([name, f"{rate:,.0f}", f"{min(runs):,.0f}", f"{max(runs):,.0f}", f"{rate / raw:.2f}x", memory])
    rounds = len(runs)
    headers = ["subject", "messages/s", "lowest", "highest", "to the better raw loop", "high-water MB"]
    return Table(f"{title}: {size:,} failed messages, {rounds} round{'s' * (rounds > 1)}", headers, rows)


def table_of_costs(title, figures):
    """Show what a message costs, by how many there are."""
    rows = []
    for size in figures["recover"]:
        ours, raw = middle(figures, "recover", size, STEP.name), best_raw(figures, size)
        if ours is None:
            continue
        reading = figures["ingest"].get(size)
        reads = f"{reading:,.0f}" if reading else "-"
        rows.append([f"redrive, {size:,}", f"{1e6 / ours:.0f}", f"{1e6 / raw:.0f}", reads])
    headers = ["failed messages", "µs to recover one", "µs in the better raw loop", "failures read/s"]
    return Table(f"{title}: what one message costs", headers, rows)


def table_of_looks(title, figures, size):
    """Show how long it takes to look something up."""
    rows = []
    for name, found in figures["look"].items():
        ours, raw = median(found["redrive"]), median(found["raw"])
        rows.append([name, f"{ours:.1f}", f"{raw:.1f}", f"{ours / raw:.2f}x"])
    return Table(f"{title}: looking at {size:,} failures, ms", ["", "redrive", "raw indexed query", "ratio"], rows)


def tables(engine, figures, sizes, promised):
    """Return all tables of an engine."""
    title = TITLES[engine]
    found = [table_of_rates(title, figures, size) for size in figures["recover"]]
    costs = table_of_costs(title, figures)
    if costs.rows:
        found.append(costs)
    if figures["look"]:
        found.append(table_of_looks(title, figures, max(sizes)))
    held = table_of_claims(promised)
    return [*found, held._replace(title=f"{title}: what we hold ourselves to")]


def draw(measured, page, warning):
    """Draw the rates as bars, an engine below the other; matplotlib is only needed here."""
    import matplotlib as mpl  # noqa: PLC0415 - only here
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mpl.rcParams.update({"svg.hashsalt": "redrive", "svg.fonttype": "none", "font.size": 9})
    shown = [(name, size, runs) for name, found in measured.items() for size, runs in found["recover"].items()]
    picture, places = plt.subplots(len(shown), 1, figsize=(8, 1.4 * len(shown)), squeeze=False)
    for place, (engine, size, runs) in zip(places[:, 0], shown, strict=True):
        known = sorted((median(rates), name) for name, rates in runs.items())
        names = [name for _, name in known]
        colours = ["#c2410c" if name.startswith("redrive") else "#94a3b8" for name in names]
        bars = place.barh(names, [rate for rate, _ in known], color=colours)
        place.bar_label(bars, fmt="{:,.0f}", padding=3)
        place.set_title(f"{TITLES[engine]}, {size:,} messages, messages/s", loc="left", fontsize=10)
        place.margins(x=0.12)
        place.xaxis.set_visible(False)
        place.spines[["top", "right", "bottom"]].set_visible(False)
    if warning:
        picture.suptitle(warning, color="#b91c1c", fontsize=8)
    picture.tight_layout()
    picture.savefig(page, metadata={"Date": None} if str(page).endswith(".svg") else None)
