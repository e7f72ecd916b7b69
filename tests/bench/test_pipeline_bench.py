# SPDX-License-Identifier: MIT
"""The benchmark of pipelines runs, and writes what it says. Its figures are not tested, what is lost is."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "pipeline.py"
WAYS = {
    "four stages, 64 submitters",
    "four stages, a lone submitter",
    "no slots: sent at once, 64 submitters",
    "no slots: sent at once, a lone submitter",
}
engines = pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)])


@pytest.fixture
def folder():
    """A folder that other users may enter, as tmp_path is not: PostgreSQL does not run as root."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


@engines
@pytest.mark.torture
def test_it_runs_is_written_down_and_leaves_nothing_behind(engine, folder, tmp_path):
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text("before\n<!-- bench:begin -->\nstale\n<!-- bench:end -->\nafter\n", encoding="utf-8")
    command = [sys.executable, SCRIPT, "--quick", "--engine", engine, "--dir", folder]
    ran = subprocess.run([*command, "--json", figures, "--markdown", page], capture_output=True, text=True, check=False)
    if "no PostgreSQL found" in ran.stderr:
        missing = pytest.fail if os.environ.get("CI") else pytest.skip
        missing("NOT SHOWN HERE: that the benchmark of PostgreSQL runs. There is no server")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(figures.read_text())["figures"][engine]
    assert found["stages"].keys() == WAYS
    for rates in found["stages"].values():
        assert {"layer 2, no ledger", "redrive, a pipeline"} <= rates.keys()
        assert all(rate > 0 for rounds in rates.values() for rate in rounds)
    assert found["size"].keys() == {"100", "1000"}
    assert found["questions"].keys() == {"stuck", "tasks", "destinations", "counts"}
    for name, (twice, never) in found["kills"].items():
        assert never == 0, name
        assert twice == 0 or name != "redrive, asks before"
    assert "Through all stages" in ran.stdout
    assert "stale" not in page.read_text()
    assert list(folder.iterdir()) == []


def test_the_share_of_the_hand_overs_is_measured_in_turns(folder, tmp_path):
    figures = tmp_path / "figures.json"
    command = [sys.executable, SCRIPT, "--quick", "--engine", "sqlite", "--only", "share", "--dir", folder]
    ran = subprocess.run([*command, "--json", figures], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(figures.read_text())["figures"]["sqlite"]["share"]
    assert {label: len(pairs) for label, pairs in found.items()} == {"64 submitters": 2, "a lone submitter": 2}
    assert "half of the rounds" in ran.stdout
