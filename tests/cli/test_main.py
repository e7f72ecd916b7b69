# SPDX-License-Identifier: MIT
"""The commands, run as a person runs them."""

import json
import subprocess
import sys
from itertools import pairwise

import pytest

from redrive import __version__
from redrive.cli.main import command_line

GOOD = """
default = "standard"
[policies.standard]
kind = "fixed"
delay = "1s"
jitter = "none"
max_attempts = 3
[policies.told]
kind = "adaptive"
fallback = "standard"
"""


@pytest.fixture
def policy_file(tmp_path):
    file = tmp_path / "retry.toml"
    file.write_text(GOOD)
    return file


def test_no_command_shows_the_help(run):
    assert "policies" in run().output


def test_version_is_the_packages_own(run):
    assert run("--version").output.strip() == f"redrive {__version__}"


def test_check_of_a_good_file_says_so(run, policy_file):
    checked = run("policies", "check", policy_file)
    assert checked.exit_code == 0
    assert "2 policies, default 'standard'" in checked.output.replace("\n", "")


def test_check_in_json_names_the_policies(run, policy_file):
    checked = json.loads(run("policies", "check", policy_file, "--json").output)
    assert checked["default"] == "standard"
    assert checked["policies"] == ["standard", "told"]


def test_check_of_a_wrong_file_names_the_line_and_fails(run, policy_file):
    policy_file.write_text(GOOD.replace("delay", "dealy"))
    checked = run("policies", "check", policy_file)
    assert checked.exit_code == 1
    assert "line 5: policies.standard: unknown setting 'dealy'; did you mean 'delay'?" in checked.output


def test_preview_shows_every_wait(run, policy_file):
    shown = run("policies", "preview", policy_file).output
    assert "all waits together: at most 2 s" in shown
    assert "waits as long as the server asks" in shown


def test_preview_of_one_policy_in_json_is_its_waits(run, policy_file):
    shown = json.loads(run("policies", "preview", policy_file, "standard", "--json").output)
    assert shown == {"standard": [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]}


def test_preview_of_an_unknown_policy_lists_those_there_are(run, policy_file):
    shown = run("policies", "preview", policy_file, "nope")
    assert shown.exit_code == 1
    assert "no policy is called 'nope'; the file defines: standard, told" in shown.output


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
