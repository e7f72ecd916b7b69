# SPDX-License-Identifier: MIT
"""The benchmark of fan-out runs, and writes what it says. Its figures are not tested."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "routes.py"
RAW = {"sqlite": "raw sqlite3", "postgres": "raw asyncpg"}
engines = pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)])


@pytest.fixture
def folder():
    """A folder that other users may enter, as tmp_path is not: PostgreSQL does not run as root."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


@engines
def test_it_runs_is_written_down_and_leaves_nothing_behind(engine, folder, tmp_path):
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text("before\n<!-- bench:begin -->\nstale\n<!-- bench:end -->\nafter\n", encoding="utf-8")
    command = [sys.executable, SCRIPT, "--quick", "--engine", engine, "--dir", folder]
    ran = subprocess.run([*command, "--json", figures, "--markdown", page], capture_output=True, text=True, check=False)
    if "no PostgreSQL found" in ran.stderr:
        missing = pytest.fail if os.environ.get("CI") else pytest.skip
        missing("NOT SHOWN HERE: that the benchmark of PostgreSQL runs. There is no server")
    assert ran.returncode == 0, ran.stderr
    written = json.loads(figures.read_text())
    found, durable = written["figures"], written["durable"]
    assert found.keys() == durable.keys() == {"1", "5", "10"}
    for rates in found.values():
        assert rates.keys() == {RAW[engine], "redrive, a topic", "redrive, a send for each"}
        assert all(rate > 0 for rounds in rates.values() for pair in rounds for rate in pair)
    for rates in durable.values():
        assert rates.keys() == {RAW[engine], "redrive, routes"}
        assert all(rate > 0 for rounds in rates.values() for rate in rounds)
    assert "Accept" in ran.stdout
    assert "Store and deliver" in ran.stdout
    assert "stale" not in page.read_text()
    assert list(folder.iterdir()) == []
