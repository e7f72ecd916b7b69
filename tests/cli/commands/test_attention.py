# SPDX-License-Identifier: MIT
"""``redrive attention``, run as a person runs it."""

import pytest

from redrive.cli.commands.attention import command_for


@pytest.mark.usefixtures("orders")
def test_where_all_is_well_it_says_so(ok, read):
    assert "nothing needs a person" in ok("attention")
    assert read("attention") == {"attention": []}


def test_figures_say_how_things_stand(ok, read, orders):
    ok("send", orders, "one")
    assert "waiting: 1" in ok("attention", "--figures")
    assert read("attention", "--figures")["figures"]["waiting"] == 1


@pytest.mark.parametrize(
    ("subject", "command"),
    [
        ("group:1f3a", "redrive failed list group:1f3a"),
        ("operation:128", "redrive operations show 128"),
        ("queue:orders", "redrive queues show orders"),
        ("asides", "redrive failed aside"),
    ],
)
def test_each_subject_has_a_command(subject, command):
    assert command_for(subject) == command
