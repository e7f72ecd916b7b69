# SPDX-License-Identifier: MIT
"""The engine on NATS keeps every promise that its capabilities do not take back, against a real server."""

import pytest

from redrive.engines.nats import NatsEngine
from redrive.testing import PassingClock
from redrive.testing.conformance import EngineConformance


class TestNats(EngineConformance):
    pace = 1 / 30

    @pytest.fixture
    def clock(self):
        return PassingClock(self.pace, 0.35)

    @pytest.fixture
    def make_engine(self, engine_server, nats_namespace):
        return lambda clock: NatsEngine(
            [engine_server.url], namespace=nats_namespace, replicas=1, clock=clock, pace=self.pace
        )
