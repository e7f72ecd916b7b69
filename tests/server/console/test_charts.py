# SPDX-License-Identifier: MIT
"""Drawings: numbers in, SVG out."""

import re
from xml.etree import ElementTree as ET

import pytest

from redrive.server.console.charts import icon, journey_row, outcome_bar, round_number, spark, stacked_bars
from tests.server.console.conftest import HOSTILE


def parsed(markup):
    return ET.fromstring(str(markup))  # noqa: S314 - our own


@pytest.mark.parametrize("values", [[], [3], [0, 0, 0], [1, None, 4], [5, 2, 9]])
def test_a_line_stays_in_its_box(values):
    drawn = parsed(spark(values, "bad", "failures"))
    line = next(each.get("d") for each in drawn if each.get("class") == "line")
    points = [tuple(map(float, each.split())) for each in re.findall(r"[\d.]+ [\d.]+", line)]
    assert all(0 <= x <= 100 and 0 <= y <= 26 for x, y in points)
    assert points[-1][0] == 100


def test_the_parts_of_a_bar_add_up_to_what_is_done():
    drawn = parsed(outcome_bar([("f-ok", 30, False), ("f-bad", 0, False), ("f-info", 20, True)], 100))
    solid = [each for each in drawn if each.get("class") != "f-hatch"]
    assert [each.get("width") for each in solid] == ["30.00%", "20.00%"]
    assert sum(float(each.get("width")[:-1]) for each in solid) == 50


def test_a_bar_of_nothing_is_empty():
    assert len(parsed(outcome_bar([("f-ok", 0, False)], 0))) == 0


@pytest.mark.parametrize(
    ("highest", "top"), [(0, 4), (4, 4), (5, 8), (11, 12), (13, 20), (41, 80), (81, 100), (101, 200), (4_904, 8_000)]
)
def test_a_scale_ends_with_a_round_number(highest, top):
    assert round_number(highest) == top


def test_a_chart_has_a_bar_for_every_step_and_its_flags():
    drawn = str(
        stacked_bars([("f-bad", [1, 2, None]), ("f-ok", [0, 2, 0])], [(1, "08:00")], [(2, "127")], "", "messages")
    )
    assert drawn.count('<g class="b">') == 3
    assert "4 messages" in drawn
    assert "08:00" in drawn
    assert "127" in drawn


def test_a_row_of_a_journey_has_its_lanes_its_dot_and_its_curves():
    drawn = str(journey_row([(0, "l0", ""), (1, "l1", "dash up")], (0, 2), forks=[(0, 1, "l2")], joins=[(1, 0, "l1")]))
    assert drawn.count("<line") == 3
    assert 'class="l1 dash"' in drawn
    assert "p2" in drawn


def test_a_drawing_has_no_style_and_escapes_its_words():
    for drawn in (spark([1, 2], label=HOSTILE), outcome_bar([], 1, label=HOSTILE), icon("x", label=HOSTILE)):
        assert "style=" not in drawn
        assert "<script>" not in drawn
    assert "<script>" not in stacked_bars([("f-ok", [1])], [(0, HOSTILE)], [(0, HOSTILE)], "", HOSTILE)
