# SPDX-License-Identifier: MIT
"""The page about events says what the classes say."""

import dataclasses

import pytest

from tools.event_tables import LAYERS, PAGE, events_of, meanings, with_tables

EVENTS = [event for layer in LAYERS for event in events_of(layer)]


def test_the_page_shows_the_classes():
    page = PAGE.read_text()
    assert all(f"<!-- {layer}:{which} -->" in page for layer in LAYERS for which in ("begin", "end"))
    assert page == with_tables(page), "run: python -m tools.event_tables"


@pytest.mark.parametrize("event", EVENTS, ids=lambda each: each.__name__)
def test_every_field_of_an_event_is_explained(event):
    assert list(meanings(event)) == [field.name for field in dataclasses.fields(event)]
    assert all(meanings(event).values())
