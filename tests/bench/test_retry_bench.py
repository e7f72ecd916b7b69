# SPDX-License-Identifier: MIT
"""The benchmark runs, with or without its peers, and writes what it says it writes. Its figures are not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "retry.py"
PEERS = {"tenacity", "stamina", "backoff", "pyresilience", "redress", "opnieuw", "google-api-core"}


def bench(*arguments):
    ran = subprocess.run([sys.executable, SCRIPT, "--quick", *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- bench:begin -->\nstale\n<!-- bench:end -->\nafter\n", encoding="utf-8")
    return path


def test_a_scenario_runs_and_is_written_down(tmp_path, page):
    figures = tmp_path / "figures.json"
    printed = bench("--only", "sync", "--json", figures, "--markdown", page)

    data = json.loads(figures.read_text())
    assert data["figures"].keys() == {"sync"}
    assert data["figures"]["sync"].keys() >= {"bare call", "hand-written loop", "redrive @retry, as it comes", *PEERS}
    assert all(runs is None or min(runs) > 0 for runs in data["figures"]["sync"].values())
    missing = [name for name, runs in data["figures"]["sync"].items() if runs is None]
    assert printed.count("not installed") == len(missing)
    assert all(claim["holds"] in (True, False, None) for claim in data["claims"])

    before, _, after = page.read_text(encoding="utf-8").partition("| hand-written loop |")
    assert before.startswith("before\n<!-- bench:begin -->\n")
    assert after.endswith("<!-- bench:end -->\nafter\n")
    assert "stale" not in before + after


def test_what_was_not_measured_is_not_claimed():
    printed = bench("--only", "block")
    verdicts = printed.partition("What we hold ourselves to")[2].splitlines()[3:]
    assert [line for line in verdicts if line and "not measured" not in line] == []


def test_a_page_without_marks_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no marks", encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--only", "block", "--markdown", page],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    assert "bench:begin" in ran.stderr
    assert page.read_text(encoding="utf-8") == "no marks"
