# SPDX-License-Identifier: MIT
"""The SQLite engine keeps every promise, in a file and in memory."""

import pytest

from redrive.engines.sqlite import SqliteEngine
from redrive.testing.conformance import EngineConformance


class TestSqliteInAFile(EngineConformance):
    @pytest.fixture
    def make_engine(self, tmp_path):
        return lambda clock: SqliteEngine(tmp_path / "queues.db", clock=clock)


class TestSqliteInMemory(EngineConformance):
    has_shared_store = False

    @pytest.fixture
    def make_engine(self):
        return lambda clock: SqliteEngine(":memory:", clock=clock)
