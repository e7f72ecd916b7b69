# SPDX-License-Identifier: MIT
"""The benchmark of recovery runs, and writes what it says. Its figures are not tested."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "recovery.py"
RAW = {"raw loop, 1,000 at a time", "raw loop, 100 at a time"}
engines = pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)])


@pytest.fixture
def folder():
    """A folder that other users may enter, as tmp_path is not: PostgreSQL does not run as root."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


def bench(*arguments):
    ran = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    if "no PostgreSQL found" in ran.stderr or "No module named 'asyncpg'" in ran.stderr:
        missing = pytest.fail if os.environ.get("CI") else pytest.skip
        missing("NOT SHOWN HERE: that the benchmark of PostgreSQL runs. There is no server, or no driver")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@engines
def test_it_runs_is_written_down_and_leaves_nothing_behind(engine, folder, tmp_path):
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text("before\n<!-- bench:begin -->\nstale\n<!-- bench:end -->\nafter\n", encoding="utf-8")

    printed = bench("--quick", "--engine", engine, "--dir", folder, "--json", figures, "--markdown", page)

    data = json.loads(figures.read_text())
    found = data["figures"][engine]
    assert found["recover"].keys() == {"100", "400"}
    assert found["recover"]["100"].keys() == {"redrive", "redrive, reads failures"} | RAW
    assert found["recover"]["400"].keys() == {"redrive", "redrive, run() in one process"} | RAW
    assert all(len(runs) == 1 and runs[0] > 0 for runs in found["recover"]["400"].values())
    assert found["ingest"].keys() == {"100", "400"}
    assert len(found["look"]) == 4
    assert "syncs a page" in printed
    assert "synchronous" in data["durability"][0]
    assert data["disk"].keys() == {"overwritten", "appended"}
    written = page.read_text(encoding="utf-8")
    assert written.startswith("before\n<!-- bench:begin -->\n")
    assert written.endswith("<!-- bench:end -->\nafter\n")
    assert "stale" not in written
    assert list(folder.iterdir()) == []


@pytest.mark.torture
def test_what_was_not_measured_is_not_claimed(folder):
    printed = bench("--only", "look", "--size", "123", "--rounds", "1", "--engine", "sqlite", "--dir", folder)

    verdicts = printed.partition("what we hold ourselves to")[2].partition("MISSED:")[0].splitlines()[3:]
    assert [line for line in verdicts if line and "over 123" not in line and "not measured" not in line] == []
    assert sum("over 123" in line and "not measured" not in line for line in verdicts) == 4


def test_it_says_what_it_cannot_do():
    ran = subprocess.run([sys.executable, SCRIPT, "--size", "0"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "must be 1 or more" in ran.stderr
