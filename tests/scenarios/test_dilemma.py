# SPDX-License-Identifier: MIT
"""The dilemma of one receiver for many routes: what a failing route costs the others, for each way of delivery."""

import re
from pathlib import Path

import pytest

from tests.scenarios.dilemma import WAYS, play, row

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "one-event-many-routes.md"


def figures_on_the_page() -> list[str]:
    table = re.search(r"<!-- dilemma:begin -->\n(.*)<!-- dilemma:end -->", PAGE.read_text(), re.DOTALL)
    assert table is not None
    return table[1].splitlines()


@pytest.mark.parametrize(
    ("delivery", "on_nack"),
    [way if way[0] == "durable" else pytest.param(*way, marks=pytest.mark.torture) for way in WAYS],
)
async def test_the_page_has_the_figures_of_each_way_of_delivery(delivery, on_nack, tmp_path):
    found = await play(delivery, on_nack, folder=tmp_path)
    assert row(delivery, on_nack, found) in figures_on_the_page()
    if delivery == "durable":
        assert (found.duplicates, found.missing, found.missing_at_failing, found.dead_in_outage) == (0, 0, 0, 0)
    else:
        assert found.duplicates > 0
        assert (found.missing > 0) == (on_nack == "fail_fast")
