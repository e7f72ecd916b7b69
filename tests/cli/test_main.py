# SPDX-License-Identifier: MIT
"""The commands, run as a person runs them."""

import subprocess
import sys
from itertools import pairwise

from redrive import __version__
from redrive.cli.main import command_line


def test_no_command_shows_the_help(run):
    assert "policies" in run().output


def test_version_is_the_packages_own(run):
    assert run("--version").output.strip() == f"redrive {__version__}"


def test_the_module_runs_as_a_program():
    ran = subprocess.run([sys.executable, "-m", "redrive.cli", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"redrive {__version__}"


def test_without_its_extra_the_command_line_says_how_to_install_it():
    program = "import sys; sys.modules['typer'] = None; from redrive.cli import run; run()"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "pip install 'redrive[cli]'" in ran.stderr


def paths(command, path=()):
    """Return the names of every command."""
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from paths(each, (*path, name))


def test_flags_do_not_look_as_if_they_took_a_value(capsys):
    whole = command_line()
    for path in paths(whole):
        whole.main([*path, "--help"], prog_name="redrive", standalone_mode=False)
        said = capsys.readouterr().out
        assert ("--help" in said, "bool" in said) == (True, False), path


def test_examples_are_indented_in_every_help(capsys):
    whole = command_line()
    for path in paths(whole):
        whole.main([*path, "--help"], prog_name="redrive", standalone_mode=False)
        lines = capsys.readouterr().out.splitlines()
        examples = [after for line, after in pairwise(lines) if line.strip() == "Examples:"]
        assert [line for line in examples if not line.startswith("   ")] == [], path


def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(run):
    assert "Did you mean 'queues'?" in run("qeues").output


def test_what_people_look_for_is_where_they_look():
    import redrive

    assert {"connect", "connect_blocking", "open_recovery"} <= set(dir(redrive))
