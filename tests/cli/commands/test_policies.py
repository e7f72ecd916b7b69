# SPDX-License-Identifier: MIT
"""``redrive policies``: a policy file is checked, and its waits are shown."""

import json

import pytest

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
