# SPDX-License-Identifier: MIT
"""Every test that asks for a place is run on SQLite and on PostgreSQL."""

from tests.history.conftest import broker, place  # noqa: F401 - pytest finds fixtures by their names
