# SPDX-License-Identifier: MIT
"""The benchmark of the queues runs, with or without its peers, and writes what it says. Its figures are not tested."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "bench" / "queues.py"


def bench(*arguments):
    ran = subprocess.run([sys.executable, SCRIPT, "--quick", *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_scenario_runs_and_is_written_down(tmp_path):
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text("before\n<!-- bench:begin -->\nstale\n<!-- bench:end -->\nafter\n", encoding="utf-8")

    printed = bench("--only", "lone-send", "--dir", tmp_path, "--json", figures, "--markdown", page)

    data = json.loads(figures.read_text())
    found = data["figures"]["lone-send"]
    assert found.keys() == {"redrive", "raw sqlite3", "litequeue", "persist-queue", "huey (no acknowledgement)"}
    assert all(runs is None or min(runs) > 0 for runs in found.values())
    assert printed.count("not installed") == sum(runs is None for runs in found.values())
    assert "syncs a page" in printed
    assert data["disk"].keys() == {"overwritten", "appended"}
    written = page.read_text(encoding="utf-8")
    assert written.startswith("before\n<!-- bench:begin -->\n")
    assert written.endswith("<!-- bench:end -->\nafter\n")
    assert "stale" not in written


def test_what_was_not_measured_is_not_claimed(tmp_path):
    printed = bench("--only", "latency", "--dir", tmp_path)
    verdicts = printed.partition("What we hold ourselves to")[2].splitlines()[3:]
    assert [line for line in verdicts if line and "not measured" not in line] == []


def test_nothing_is_left_behind(tmp_path):
    bench("--only", "batch-send", "callers-64", "worker", "memory", "depth", "--dir", tmp_path)
    assert list(tmp_path.iterdir()) == []
