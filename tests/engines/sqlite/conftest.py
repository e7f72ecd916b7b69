# SPDX-License-Identifier: MIT
"""Tests of the SQLite engine make their tables as a user's program does."""

import pytest

from tests.migrated import use_migrations


@pytest.fixture(autouse=True)
def tables_are_made_step_by_step(monkeypatch):
    use_migrations(monkeypatch)
