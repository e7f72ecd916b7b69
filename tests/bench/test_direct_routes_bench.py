# SPDX-License-Identifier: MIT
"""The benchmark of direct delivery runs, and writes what it says. Its figures are not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "direct_routes.py"


def run(*arguments: str | Path) -> str:
    ran = subprocess.run([sys.executable, SCRIPT, "--quick", *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_it_runs_and_is_written_down(tmp_path):
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text("before\n<!-- bench:begin -->\nstale\n<!-- bench:end -->\nafter\n", encoding="utf-8")
    assert "Direct, nothing stored" in run("--json", figures, "--markdown", page)
    found = json.loads(figures.read_text())["figures"]
    assert found.keys() == {"1", "5", "10"}
    for rates in found.values():
        assert {"bare asyncio", "redrive, direct"} <= rates.keys()
        assert all(rate > 0 for rounds in rates.values() for rate in rounds)
    assert "stale" not in page.read_text()


@pytest.mark.torture
def test_it_shows_the_memory_on_the_way():
    assert "MiB at the end" in run("--memory")
