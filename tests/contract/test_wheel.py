# SPDX-License-Identifier: MIT
"""What a user installs: the wheel alone, in an empty environment."""

import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.docs.pages import ROOT, blocks


def run(*command: str | Path, cwd: Path) -> str:
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Return the interpreter of an environment that has the wheel and nothing else, not even pip."""
    folder = tmp_path_factory.mktemp("user") / "venv"
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel, cwd=folder)
    return python


def test_the_readme_runs_with_the_wheel_alone(python, tmp_path):
    page = ROOT / "README.md"
    for block in blocks(page, page.read_text()):
        if block.info == "python":
            ran = run(python, "-I", "-c", f"{block.text}\nimport redrive; print(redrive.__file__)", cwd=tmp_path)
            assert Path(ran.splitlines()[-1]).is_relative_to(python.parents[1])


def test_the_command_line_without_its_extra_says_how_to_install_it(python, tmp_path):
    ran = subprocess.run(
        [python.parent / "redrive", "queues"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr == "redrive: the command line needs the extra 'cli': pip install 'redrive[cli]'\n"


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel):
    source = {path for path in (ROOT / "src" / "redrive").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == {str(path.relative_to(ROOT / "src")) for path in source}
    assert "redrive/py.typed" in packed
