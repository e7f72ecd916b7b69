# SPDX-License-Identifier: MIT
"""What the console says before anything has happened is true: its commands make a message fail."""

import re
import shlex
from pathlib import Path

import redrive

PAGE = Path(redrive.__file__).parent / "server" / "console" / "templates" / "overview.html"


def test_the_commands_of_the_first_page_make_a_message_fail(ok, read):
    first_run = PAGE.read_text().partition("{% else %}")[0]
    commands = re.findall(r'ui\.command\("redrive (.*?)"\)', first_run)
    assert len(commands) == 4
    for command in commands:
        ok(*shlex.split(command))
    (failure,) = read("failed", "list")
    assert failure["queue"] == "orders"
    assert "the warehouse is closed" in ok("failed", "show", failure["id"])
