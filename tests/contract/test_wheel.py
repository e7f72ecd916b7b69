# SPDX-License-Identifier: MIT
"""What a user installs: the wheel alone, in an empty environment, and the extras that it names."""

import ast
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.docs.pages import ROOT, blocks
from tools.house import import_statements

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {
    "asyncpg": "asyncpg",
    "asyncssh[bcrypt]": "asyncssh",
    "cel-expr-python": "cel_expr_python",
    "cronsim": "cronsim",
    "fastapi": "fastapi",
    "google-re2": "re2",
    "httpx": "httpx",
    "jinja2": "jinja2",
    "joserfc": "joserfc",
    "jmespath": "jmespath",
    "nats-py": "nats",
    "obstore": "obstore",
    "opentelemetry-api": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pyyaml": "yaml",
    "redis": "redis",
    "rich": "rich",
    "typer": "typer",
    "tzdata; sys_platform == 'win32'": "zoneinfo",
    "uvicorn": "uvicorn",
}
"""The module that each package of an extra is imported as, or that reads its data."""


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


def test_an_extra_exists_when_code_uses_what_it_installs():
    imported = {name for path in (ROOT / "src").rglob("*.py") for name in roots(ast.parse(path.read_text()))}
    extras = {extra: packages for extra, packages in PROJECT["optional-dependencies"].items() if extra != "all"}
    for extra, packages in extras.items():
        assert {MODULES[package.partition(">=")[0]] for package in packages} <= imported, extra
    assert PROJECT["optional-dependencies"]["all"] == [f"redrive[{','.join(sorted(extras))}]"]


def roots(tree: ast.AST) -> set[str]:
    """Return the first part of every absolute import."""
    names: set[str] = set()
    for node, _ in import_statements(tree):
        names |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else {str(node.module)}
    return {name.partition(".")[0] for name in names}
