# SPDX-License-Identifier: MIT
"""Importing the retry layer is cheap: nothing third-party, and none of the slow modules of the standard library."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
SLOW = {"asyncio", "dataclasses", "enum", "functools", "inspect", "logging", "re", "tomllib", "typing"}

# -S: the .pth files of development tools import half of what we want to see missing. The installed packages are put
# back on the path by hand, so that importing one would still succeed and be found out.
PROBE = """
import sys
before = set(sys.modules)
sys.path += {path!r}
import {module}
print(*sorted(set(sys.modules) - before), sep="\\n")
"""


def modules_loaded_by(module: str) -> set[str]:
    """Return what ``import module`` adds to a bare interpreter."""
    probe = PROBE.format(module=module, path=[str(SRC), sysconfig.get_path("purelib")])
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", probe], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize("module", ["redrive", "redrive.clock", "redrive.errors", "redrive.retry"])
def test_importing_loads_nothing_slow_and_nothing_foreign(module):
    loaded = modules_loaded_by(module)
    assert module in loaded
    assert sorted(loaded & SLOW) == []
    roots = {name.partition(".")[0] for name in loaded}
    assert sorted(roots - sys.stdlib_module_names - {"redrive"}) == []


def test_a_program_that_sends_and_receives_loads_neither_worker_nor_recovery_nor_an_engine():
    loaded = modules_loaded_by("redrive.wiring")
    packages = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("redrive.")}
    assert packages.isdisjoint({"redrive.recovery", "redrive.worker", "redrive.cli", "redrive.testing"})
    engines = {name for name in loaded if name.startswith("redrive.engines.")}
    assert engines == {"redrive.engines.registry"}


def test_a_process_that_works_for_a_server_loads_nothing_that_answers_requests():
    loaded = modules_loaded_by("redrive.server.work_program")
    assert loaded.isdisjoint({"fastapi", "jinja2", "prometheus_client", "redrive.server.app"})


def test_the_probe_sees_foreign_and_slow_modules():
    loaded = modules_loaded_by("iniconfig")  # comes with pytest
    assert "iniconfig" in loaded
    assert loaded & SLOW
