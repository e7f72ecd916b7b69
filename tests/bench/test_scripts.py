# SPDX-License-Identifier: MIT
"""Every benchmark can be started: its imports are there, and it says what it can do. ``make torture`` runs them all."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted(
    each for each in (Path(__file__).parents[2] / "bench").glob("*.py") if "ArgumentParser" in each.read_text()
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_it_says_what_it_can_do(script):
    ran = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("usage:")
