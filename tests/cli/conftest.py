# SPDX-License-Identifier: MIT
"""Commands run as a person runs them, in an empty directory."""

import json

import pytest

from tests.commands import run_command


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDRIVE_URL", raising=False)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def run():
    """Run a command; the result has what it said."""
    return run_command


@pytest.fixture
def ok(run):
    """Run a command that must succeed; return its output."""

    def runner(*arguments, stdin=None):
        ran = run(*arguments, stdin=stdin)
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    return runner


@pytest.fixture
def read(ok):
    """Run a command with ``--json``; return what it says."""
    return lambda *arguments, stdin=None: json.loads(ok(*arguments, "--json", stdin=stdin))


@pytest.fixture
def refused(run):
    """Run a command that must fail; return its reason."""

    def runner(*arguments, status=1):
        ran = run(*arguments)
        assert ran.exit_code == status, ran.output
        assert ran.stdout == ""
        return ran.stderr

    return runner


@pytest.fixture
def orders(ok):
    """A queue."""
    ok("queues", "declare", "orders", "--max-delivery-count", 3)
    return "orders"
