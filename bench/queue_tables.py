"""The figures of queues as tables and as a picture."""

from statistics import median

from queue_scenarios import HAND_OVERS, RATES
from report import Table

CHURN = "64 callers at a depth of 1,000 churn as fast as they can"
TITLES = {
    "depth": "Receive and complete from a deep queue, a tenth of it scheduled or locked at the head",
    "latency": "From send to the handler of an idle worker, µs",
    "memory": "Memory of the process while messages pass, MB",
    "worker": "The worker with an empty handler, 64 at once, messages/s",
    "churn": f"{CHURN}: each fifth of the time",
    "churn-held": f"{CHURN}, beside a foreign transaction that stays open",
    "scaling": "Worker processes on one queue, empty handler, 64 at once each",
}


def shown(figure, form):
    """Write a figure; one that there is not is a dash."""
    return "-" if figure is None else format(figure, form)


def table_of_rates(title, figures):
    """Show rates, the highest first."""
    known = sorted(((median(runs), min(runs), max(runs), name) for name, runs in figures.items() if runs), reverse=True)
    rows = [[name, f"{middle:,.0f}", f"{low:,.0f}", f"{high:,.0f}"] for middle, low, high, name in known]
    missing = [[name, "not installed", "", ""] for name, runs in figures.items() if not runs]
    return Table(title, ["subject", "median", "lowest", "highest"], rows + missing)


def table_of_depth(title, figures):
    """Show what a receive takes, by depth."""
    rows = [
        [f"{name}, {depth:,} messages", f"{median(runs):,.0f}"]
        for name, by_depth in figures.items()
        for depth, runs in by_depth.items()
    ]
    return Table(title, ["depth", "median µs"], rows)


def table_of_latency(title, figures):
    """Show how long a message is on its way."""
    return Table(title, ["", "µs"], [[f"redrive, {which}", f"{value:,.0f}"] for which, value in figures.items()])


def table_of_memory(title, figures):
    """Show what the process held."""
    rows = [[f"redrive, after {tenth} tenths", f"{figures[tenth - 1]:.1f}"] for tenth in (1, 2, 5, 10)]
    return Table(title, ["", "resident"], rows)


def table_of_churn(title, figures):
    """Show what became of a queue, fifth by fifth."""
    headers = ["subject and fifth", "cycles/s", "receive p50 ms", "receive p99 ms", "tables and indexes MB"]
    rows = [
        [
            f"{name}, {number}",
            f"{fifth['cycles/s']:,.0f}",
            shown(fifth["p50 ms"], ".2f"),
            shown(fifth["p99 ms"], ".2f"),
            f"{fifth['MB']:.1f}",
        ]
        for name, fifths in figures.items()
        for number, fifth in enumerate(fifths, 1)
    ]
    return Table(title, headers, rows)


def table_of_scaling(title, figures):
    """Show what more processes bring, and who is busy then."""
    headers = ["processes", "messages/s", "cores of database", "of workers", "CPU µs/message of database", "of workers"]
    rows = [
        [
            f"redrive, {processes}",
            f"{found['messages/s']:,.0f}",
            f"{found['database cores']:.2f}",
            f"{found['worker cores']:.2f}",
            shown(found["database µs"], ".0f"),
            shown(found["worker µs"], ".0f"),
        ]
        for processes, found in figures.items()
    ]
    return Table(title, headers, rows)


def table(name, figures):
    """Show the figures of one scenario."""
    if rates := {**RATES, **HAND_OVERS}.get(name):
        return table_of_rates(rates.title, figures)
    title = TITLES[name]
    if not figures:
        return Table(title, ["", ""], [["not measured", "-"]])
    show = {
        "depth": table_of_depth,
        "latency": table_of_latency,
        "memory": table_of_memory,
        "worker": table_of_rates,
        "churn": table_of_churn,
        "churn-held": table_of_churn,
        "scaling": table_of_scaling,
    }
    return show[name](title, figures)


def draw(figures, page, warning):
    """Draw the rates as bars; matplotlib is only needed here."""
    import matplotlib as mpl  # noqa: PLC0415 - only here
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mpl.rcParams.update({"svg.hashsalt": "redrive", "svg.fonttype": "none", "font.size": 9})
    shown = [name for name in RATES if figures.get(name)]
    picture, places = plt.subplots(len(shown), 1, figsize=(8, 1.6 * len(shown)), squeeze=False)
    for place, name in zip(places[:, 0], shown, strict=True):
        known = sorted((median(runs), subject) for subject, runs in figures[name].items() if runs)
        names = [subject for _, subject in known]
        colours = ["#c2410c" if subject.startswith("redrive") else "#94a3b8" for subject in names]
        bars = place.barh(names, [rate for rate, _ in known], color=colours)
        place.bar_label(bars, fmt="{:,.0f}", padding=3)
        place.set_title(RATES[name].title, loc="left", fontsize=10)
        place.margins(x=0.12)
        place.xaxis.set_visible(False)
        place.spines[["top", "right", "bottom"]].set_visible(False)
    if warning:
        picture.suptitle(warning, color="#b91c1c", fontsize=8)
    picture.tight_layout()
    picture.savefig(page, metadata={"Date": None} if str(page).endswith(".svg") else None)
