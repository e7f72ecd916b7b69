# SPDX-License-Identifier: MIT
"""The benchmark of the queues runs, with or without its peers, and writes what it says. Its figures are not tested."""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "queues.py"
PEERS = {
    "sqlite": {"raw sqlite3", "litequeue", "persist-queue", "huey (no acknowledgement)"},
    "postgres": {"raw asyncpg", "procrastinate", "pgqueuer", "pgmq"},
    "nats": {"redrive, three replicas", "nats-py, one replica", "nats-py, three replicas", "redrive on PostgreSQL"},
}
OURS = {"sqlite": "redrive", "postgres": "redrive", "nats": "redrive, one replica"}
RATES = {"batch-send", "batch-receive", "headers-send", "headers-receive", "callers-64", "lone-send", "lone-receive"}
SCENARIOS = {"sqlite": RATES | {"worker", "latency", "memory", "depth"}}
SCENARIOS["postgres"] = SCENARIOS["sqlite"] | {"scaling", "churn", "churn-held"}
SCENARIOS["nats"] = {name for name in RATES if not name.startswith("headers")} | {"hand-over", "hand-over-64"}
engines = pytest.mark.parametrize("engine", PEERS)
on_engines = pytest.mark.parametrize(
    "engine", ["sqlite", *(pytest.param(each, marks=pytest.mark.torture) for each in ("postgres", "nats"))]
)


@pytest.fixture
def folder():
    """A folder that other users may enter, as tmp_path is not: PostgreSQL does not run as root."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


def bench(*arguments):
    ran = subprocess.run([sys.executable, SCRIPT, "--quick", *arguments], capture_output=True, text=True, check=False)
    absent = ("no PostgreSQL found", "no NATS found", "No module named 'asyncpg'", "No module named 'nats'")
    if any(each in ran.stderr for each in absent):
        missing = pytest.fail if os.environ.get("CI") else pytest.skip
        missing("NOT SHOWN HERE: that the benchmark of a server runs. There is no server, or no driver")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@on_engines
def test_it_runs_is_written_down_and_leaves_nothing_behind(engine, folder, tmp_path):
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text("before\n<!-- bench:begin -->\nstale\n<!-- bench:end -->\nafter\n", encoding="utf-8")

    printed = bench("--engine", engine, "--dir", folder, "--json", figures, "--markdown", page)

    data = json.loads(figures.read_text())
    assert data["figures"].keys() == SCENARIOS[engine]
    found = data["figures"]["lone-send"]
    assert found.keys() == {OURS[engine]} | PEERS[engine]
    assert all(runs is None or min(runs) > 0 for runs in found.values())
    names = (RATES | {"worker"}) & SCENARIOS[engine]
    missing = [subject for name in names for subject, runs in data["figures"][name].items() if not runs]
    assert printed.count("not installed") == len(missing)
    assert "syncs a page" in printed
    assert "synchronous" in data["durability"]
    assert data["disk"].keys() == {"overwritten", "appended"}
    written = page.read_text(encoding="utf-8")
    assert written.startswith("before\n<!-- bench:begin -->\n")
    assert written.endswith("<!-- bench:end -->\nafter\n")
    assert "stale" not in written
    assert list(folder.iterdir()) == []


@pytest.fixture
def modules(monkeypatch):
    """Imports a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module


@engines
def test_what_was_not_measured_is_not_claimed(engine, modules):
    promised = modules("queue_claims").claims({}, modules("queue_engines").ENGINES[engine])
    assert [claim.promise for claim in promised if claim.holds is not None] == []
    verdicts = modules("queue_claims").table_of_claims(promised).rows
    assert len(verdicts) == len(promised) > 0
    assert [row for row in verdicts if "not measured" not in row] == []


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_stretch_of_time_in_which_nobody_got_through_is_shown_and_not_claimed(calls, modules):
    """On a busy machine a fifth of a quick run may be over before anybody has received anything."""
    fifth = modules("postgres_endurance").described([0.004] * calls, 2.0, 8_192)
    assert (fifth["cycles/s"], fifth["MB"]) == (calls / 2, 0.008192)
    assert fifth["p50 ms"] == (4.0 if calls else None)
    assert (fifth["p99 ms"] is None) == (calls < 2)
    figures = {name: {"redrive": [fifth] * 5} for name in ("churn", "churn-held")}
    (row, *_) = modules("queue_tables").table("churn", figures["churn"]).rows
    assert ("-" in row) == (calls < 2)
    *_, of_receive, of_foreign = modules("queue_claims").claims_of_churn(figures)
    assert {of_receive.holds, of_foreign.holds} == {True if calls else None}


def test_a_scenario_of_another_engine_is_refused():
    ran = subprocess.run([sys.executable, SCRIPT, "--only", "churn"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "sqlite has no scenario churn" in ran.stderr
