# SPDX-License-Identifier: MIT
"""The benchmark of the server runs, and writes what it says. Its figures are not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "server.py"


@pytest.mark.torture
def test_it_runs_is_written_down_and_leaves_nothing_behind(tmp_path):
    figures, page, folder = tmp_path / "figures.json", tmp_path / "page.md", tmp_path / "folder"
    page.write_text("before\n<!-- bench:begin -->\nstale\n<!-- bench:end -->\nafter\n", encoding="utf-8")
    folder.mkdir()
    options = ("--quick", "--engine", "sqlite", "--dir", folder, "--json", figures, "--markdown", page)
    ran = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr

    found = json.loads(figures.read_text())["figures"]["sqlite"]
    assert all(each["http"] and each["raw"] for each in found["questions"].values())
    assert all(each["ms"] and each["kB"] for each in found["pages"].values())
    assert set(found["load"]["alone"][0]["cpu"]) == {"answers", "work", "load"}
    to_stand_in = ("beside 500 requests/s to a stand-in", "beside browsers of a stand-in")
    for kind in ("beside 500 requests/s", "beside browsers", *to_stand_in):
        assert [each["errors"] for each in found["load"][kind]] == [0]
        assert found["load"][kind][0]["requests"] > 0
    written = page.read_text(encoding="utf-8")
    assert written.startswith("before\n<!-- bench:begin -->\n")
    assert written.endswith("<!-- bench:end -->\nafter\n")
    assert "stale" not in written
    assert list(folder.iterdir()) == []
