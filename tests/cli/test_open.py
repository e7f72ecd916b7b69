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
    program = "from redrive.cli.main import app; app(prog_name='redrive')"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    return ran.stdout.split()


def test_a_shell_completes_the_names_of_queues(ok, tmp_path):
    ok("queues", "declare", "orders")
    ok("queues", "declare", "readings")
    assert completions("redrive peek ", tmp_path) == ["orders", "readings"]
    assert completions("redrive send re", tmp_path) == ["readings"]


def test_a_shell_completes_the_names_of_pipelines_and_their_destinations(ok, tmp_path):
    from tests.cli.commands.test_pipeline import FILE

    ok("queues", "declare", "daily")
    (tmp_path / "reports.toml").write_text(FILE)
    ok("pipeline", "submit", "reports.toml", "-", "--key", "k", stdin="x")
    assert completions("redrive pipeline show ", tmp_path) == ["reports"]
    assert completions("redrive pipeline hold reports l", tmp_path) == ["lab"]
    assert completions("redrive pipeline resend --pipeline reports --destination ", tmp_path) == [
        "archive",
        "daily",
        "lab",
    ]


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


def test_a_file_is_found_whose_name_has_to_be_quoted(ok, tmp_path):
    ok("queues", "declare", "orders", "--url", "sqlite:///a%20b.db")
    assert (tmp_path / "a b.db").exists()
    assert "orders" in ok("queues", "--url", "sqlite:///a%20b.db?synchronous=normal")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+asyncpg://u:hunter2@h/d",
        "sqlite:///u:hunter2@h/d",
        "sqlite:///nowhere.db?password=hunter2",
        "mysql://u:hunter2@h/d",
        "postgresql://u:hunter2@/d?host=/nowhere",
        "postgresql://u:hunter2/@h/d",
    ],
)
def test_no_command_repeats_a_password(run, ok, url):
    ok("queues", "declare", "error")
    for command in (("queues",), ("send", "a", "b"), ("failed", "list"), ("recover", "--all", "--yes"), ("ingest",)):
        for place in ({"--url": url}, {"--url": "sqlite:///redrive.db", "--store": url}):
            if "--store" in place and command[0] in ("queues", "send"):
                continue
            ran = run(*command, *(word for option in place.items() for word in option))
            assert ran.exit_code != 0 or command == ("ingest",)
            assert "hunter2" not in ran.output


def test_no_command_but_declare_makes_a_database(run, tmp_path):
    """A URL with a mistake in it must not look as if everything were empty."""
    from tests.cli.test_hostile_text import COMMANDS

    url = "sqlite:///mistyped.db"
    for name, (first, *_) in COMMANDS.items():
        if name in ("queues declare", "topics declare", "routes add", "routes check", "pipeline check"):
            continue
        if name in (
            "tokens create",
            "users add",
            "webhooks add",
            "redactions add",
        ):  # a server may be set up before there are queues
            continue
        if first[0] == "policies":
            continue
        ran = run(*first, "--url", url)
        assert (ran.exit_code, "there is no database mistyped.db" in ran.stderr) == (1, True), name
    assert list(tmp_path.iterdir()) == []
    run("queues", "declare", "error")
    for name, (first, *_) in COMMANDS.items():
        if first[0] in ("failed", "recover", "archive", "restore", "resolve", "operations", "redirects", "edit"):
            ran = run(*first, "--store", url)
            assert (ran.exit_code, "there is no store mistyped.db" in ran.stderr) == (1, True), name
    assert not (tmp_path / "mistyped.db").exists()


def test_a_variable_that_is_empty_does_not_mean_another_database(refused, ok):
    ok("queues", "declare", "error")
    assert "url='': must be sqlite:///" in refused("queues", "--url", "", status=2)
    assert "url='': must be sqlite:///" in refused("failed", "list", "--url", "", status=2)
    assert "store='': must be sqlite:///" in refused("failed", "list", "--store", "", status=2)
