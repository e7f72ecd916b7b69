# SPDX-License-Identifier: MIT
"""The page about routes says what the classes of receivers, filters and senders say."""

import dataclasses

import pytest

from redrive.routes import RouteSettings
from tools.route_tables import GROUPS, PAGE, allowed, own_kinds, tables, with_tables

PARTS = [part for group in GROUPS for part in own_kinds(group).values()]


def test_the_page_shows_the_classes():
    page = PAGE.read_text()
    assert all(f"<!-- {mark}:{which} -->" in page for mark in tables() for which in ("begin", "end"))
    assert page == with_tables(page), "run: python -m tools.route_tables"


@pytest.mark.parametrize("owner", [*PARTS, RouteSettings], ids=lambda owner: owner.__name__)
def test_every_setting_says_what_it_is(owner):
    for each in dataclasses.fields(owner):
        assert each.metadata["help"].strip()
        assert allowed(each.metadata["kind"])


def test_a_setting_of_an_unknown_kind_is_noticed():
    with pytest.raises(KeyError):
        allowed(object())


def test_a_table_survives_what_its_texts_contain():
    """A bar in a text would begin another column."""
    rows = [line for written in tables().values() for line in written.splitlines() if line.startswith("| ")]
    assert [row for row in rows if row.replace("\\|", "").count("|") != 5] == []
