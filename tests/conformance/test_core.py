# SPDX-License-Identifier: MIT
"""An engine that has the core alone keeps the core's promises; the suite skips what it cannot do."""

import pytest

from redrive.broker import Capabilities
from redrive.engines.sqlite import SqliteEngine
from redrive.testing.conformance import EngineConformance
from tests.conformance.core_engine import CoreEngine


class TestCore(EngineConformance):
    has_shared_store = False

    @pytest.fixture
    def make_engine(self):
        cannot = Capabilities(cancels_schedules=False, has_duplicate_detection=False, is_transactional=False)
        return lambda clock: CoreEngine(SqliteEngine(":memory:", clock=clock), cannot)
