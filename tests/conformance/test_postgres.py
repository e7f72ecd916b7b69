# SPDX-License-Identifier: MIT
"""The PostgreSQL engine keeps every promise."""

import pytest

from redrive.engines.postgres import PostgresEngine
from redrive.testing.conformance import EngineConformance


class TestPostgres(EngineConformance):
    @pytest.fixture
    def make_engine(self, postgres_url, emptied_schema):
        return lambda clock: PostgresEngine(postgres_url, schema=emptied_schema, clock=clock)
