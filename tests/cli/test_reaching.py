# SPDX-License-Identifier: MIT
"""Finding the broker, and the names that a shell completes."""

import os
import subprocess
import sys

import pytest


def completions(typed: str, directory) -> list[str]:
    """Return what bash would be offered after the words typed."""
    words = typed.split(" ")
    environment = os.environ | {
        "_REDRIVE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    program = "from redrive.cli.app import app; app(prog_name='redrive')"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    return ran.stdout.split()


def test_a_shell_completes_the_names_of_queues(ok, tmp_path):
    ok("queues", "declare", "orders")
    ok("queues", "declare", "readings")
    assert completions("redrive peek ", tmp_path) == ["orders", "readings"]
    assert completions("redrive send re", tmp_path) == ["readings"]


def test_a_shell_completes_nothing_where_nothing_is(tmp_path):
    assert completions("redrive peek ", tmp_path) == []
    (tmp_path / "redrive.db").write_text("no database, however long this text may be" * 100)
    assert completions("redrive peek ", tmp_path) == []


@pytest.mark.parametrize("url", ["sqlite:////nowhere/at/all.db", "sqlite:///no/folder.db?synchronous=normal"])
def test_a_missing_file_is_named(refused, url):
    assert url.removeprefix("sqlite:///").partition("?")[0] in refused("queues", "--url", url)


def test_a_file_that_is_no_database_is_refused_with_advice(refused, tmp_path):
    (tmp_path / "notes.txt").write_text("no database, however long this text may be" * 100)
    assert "the file is not a database" in refused("queues", "--url", "sqlite:///notes.txt")


def test_queues_in_memory_can_be_asked_for(ok):
    assert "no queues yet" in ok("queues", "--url", "sqlite:///:memory:")
