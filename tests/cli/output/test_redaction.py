# SPDX-License-Identifier: MIT
"""The command line hides what the server hides, by the same file."""

import pytest

CARD = "4111111111111111"
RULES = """\
[server.hide]
headers = ["authorization"]
pointers = ["/card"]
patterns = ['secret-\\w+']
"""


@pytest.fixture(autouse=True)
def sent(ok, tmp_path):
    ok("queues", "declare", "orders")
    ok("send", "orders", f'{{"card": "{CARD}", "note": "secret-word"}}', "--header", "authorization=Basic-x")
    (tmp_path / "redrive.toml").write_text(RULES)


@pytest.mark.parametrize(
    "command", [("peek", "orders"), ("peek", "orders", "--json"), ("receive", "orders", "--abandon", "--json")]
)
def test_what_is_hidden_is_not_printed(ok, command):
    printed = ok(*command)
    for hidden in (CARD, "Basic-x", "secret-word"):
        assert hidden not in printed
    assert "[hidden]" in printed


def test_a_received_message_is_printed_without_what_is_hidden(ok):
    printed = ok("receive", "orders", "--abandon")
    assert CARD not in printed
    assert "authorization: [hidden]" in printed


def test_a_rule_that_cannot_be_used_is_named_and_nothing_is_shown(refused, tmp_path):
    (tmp_path / "redrive.toml").write_text("[server.hide]\npatterns = ['(']\n")
    assert "redrive.toml, line 2: patterns=" in refused("peek", "orders", "--json", status=2)


def test_another_file_is_named_by_the_environment(ok, tmp_path, monkeypatch):
    (tmp_path / "redrive.toml").unlink()
    assert CARD in ok("peek", "orders", "--json")
    (tmp_path / "other.toml").write_text(RULES)
    monkeypatch.setenv("REDRIVE_CONFIG", "other.toml")
    assert CARD not in ok("peek", "orders", "--json")
