# SPDX-License-Identifier: MIT
"""The page about the HTTP API has every endpoint that there is."""

from tools.api_tables import PAGE, endpoints, table, with_table


def test_the_page_shows_every_endpoint():
    page = PAGE.read_text()
    assert page == with_table(page), "run: python -m tools.api_tables"
    assert page.count("| `") >= len(endpoints())


def test_a_table_survives_what_its_texts_contain():
    """A bar in a text would begin another column."""
    rows = [line for line in table().splitlines() if line.startswith("| ")]
    assert [row for row in rows if row.replace("\\|", "").count("|") != 5] == []
