# SPDX-License-Identifier: MIT
"""The page about transports says what their classes say."""

import dataclasses

import pytest

from redrive import pipeline
from tools.route_tables import allowed
from tools.transport_tables import ABILITIES, PAGE, own_transports, tables, with_tables


def test_the_page_shows_the_classes():
    page = PAGE.read_text()
    assert all(f"<!-- {mark}:{which} -->" in page for mark in tables() for which in ("begin", "end"))
    assert page == with_tables(page), "run: python -m tools.transport_tables"


@pytest.mark.parametrize("owner", own_transports().values(), ids=lambda owner: owner.__name__)
def test_every_setting_says_what_it_is(owner):
    assert getattr(pipeline, owner.__name__) is owner
    for each in dataclasses.fields(owner):
        assert each.metadata["help"].strip()
        assert allowed(each.metadata["kind"])


def test_every_transport_says_what_it_can():
    assert ABILITIES.keys() == own_transports().keys()


def test_a_table_survives_what_its_texts_contain():
    """A bar in a text would begin another column."""
    rows = [line for line in tables()["transports"].splitlines() if line.startswith("| ")]
    assert [row for row in rows if row.replace("\\|", "").count("|") != 5] == []
