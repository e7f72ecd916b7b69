# SPDX-License-Identifier: MIT
"""The benchmark of the queues runs, with or without its peers, and writes what it says. Its figures are not tested."""

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
}
engines = pytest.mark.parametrize("engine", PEERS)


@pytest.fixture
def folder():
    """A folder that other users may enter, as tmp_path is not: PostgreSQL does not run as root."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


def bench(*arguments):
    ran = subprocess.run([sys.executable, SCRIPT, "--quick", *arguments], capture_output=True, text=True, check=False)
    if "no PostgreSQL found" in ran.stderr or "No module named 'asyncpg'" in ran.stderr:
        missing = pytest.fail if os.environ.get("CI") else pytest.skip
        missing("NOT SHOWN HERE: that the benchmark of PostgreSQL runs. There is no server, or no driver")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@engines
def test_a_scenario_runs_and_is_written_down(engine, folder, tmp_path):
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text("before\n<!-- bench:begin -->\nstale\n<!-- bench:end -->\nafter\n", encoding="utf-8")

    printed = bench(
        "--engine", engine, "--only", "lone-send", "--dir", folder, "--json", figures, "--markdown", page
    )  # fmt: skip

    data = json.loads(figures.read_text())
    found = data["figures"]["lone-send"]
    assert found.keys() == {"redrive"} | PEERS[engine]
    assert all(runs is None or min(runs) > 0 for runs in found.values())
    assert printed.count("not installed") == sum(runs is None for runs in found.values())
    assert "syncs a page" in printed
    assert "synchronous" in data["durability"]
    assert data["disk"].keys() == {"overwritten", "appended"}
    written = page.read_text(encoding="utf-8")
    assert written.startswith("before\n<!-- bench:begin -->\n")
    assert written.endswith("<!-- bench:end -->\nafter\n")
    assert "stale" not in written


@engines
def test_what_was_not_measured_is_not_claimed(engine, folder):
    printed = bench("--engine", engine, "--only", "latency", "--dir", folder)
    verdicts = printed.partition("What we hold ourselves to")[2].splitlines()[3:]
    assert [line for line in verdicts if line and "not measured" not in line] == []


@pytest.mark.parametrize(
    ("engine", "scenarios"),
    [
        ("sqlite", ["batch-send", "callers-64", "worker", "memory", "depth"]),
        ("postgres", ["callers-64", "worker", "memory", "depth"]),
        ("postgres", ["churn", "churn-held", "scaling"]),
    ],
)
def test_nothing_is_left_behind(engine, scenarios, folder):
    bench("--engine", engine, "--only", *scenarios, "--dir", folder)
    assert list(folder.iterdir()) == []


def test_a_scenario_of_another_engine_is_refused():
    ran = subprocess.run([sys.executable, SCRIPT, "--only", "churn"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "sqlite has no scenario churn" in ran.stderr
