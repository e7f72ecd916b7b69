# SPDX-License-Identifier: MIT
"""Tests for the behaviour that every engine must have. They need pytest and pytest-asyncio.

Derive a class and override the fixture that makes your engine::

    from redrive.testing.conformance import EngineConformance


    class TestMyEngine(EngineConformance):
        @pytest.fixture
        def make_engine(self, tmp_path):
            return lambda clock: MyEngine(tmp_path / "queues", clock=clock)

Behaviours an engine cannot have are skipped with a reason, by what its ``capabilities`` say, and the run ends with a
list of them. No behaviour sleeps: time is a ``ManualClock`` that is moved. If your store has its own clock, override
the fixture ``clock`` with one that moves it; if no one can move it, with a ``PassingClock``, which waits.
"""

import pytest

_PARTS = (
    *("borders", "choosing", "clock_steps", "company", "leaving", "messages", "queues", "receiving", "sessions"),
    *("settling", "subscriptions", "timing", "topics", "transactions", "verbs"),
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from redrive.testing.conformance.borders import BorderBehaviours  # noqa: E402 - asserts are rewritten first
from redrive.testing.conformance.choosing import ChoosingBehaviours  # noqa: E402 - same
from redrive.testing.conformance.clock_steps import ClockStepBehaviours  # noqa: E402 - same
from redrive.testing.conformance.company import CompanyBehaviours  # noqa: E402 - same
from redrive.testing.conformance.leaving import LeavingBehaviours  # noqa: E402 - same
from redrive.testing.conformance.messages import MessageBehaviours  # noqa: E402 - same
from redrive.testing.conformance.queues import QueueBehaviours  # noqa: E402 - same
from redrive.testing.conformance.receiving import ReceivingBehaviours  # noqa: E402 - same
from redrive.testing.conformance.sessions import SessionBehaviours  # noqa: E402 - same
from redrive.testing.conformance.settling import SettlingBehaviours  # noqa: E402 - same
from redrive.testing.conformance.subscriptions import SubscriptionBehaviours  # noqa: E402 - same
from redrive.testing.conformance.timing import TimingBehaviours  # noqa: E402 - same
from redrive.testing.conformance.topics import TopicBehaviours  # noqa: E402 - same
from redrive.testing.conformance.transactions import TransactionBehaviours  # noqa: E402 - same

__all__ = ["EngineConformance"]


@pytest.mark.asyncio
class EngineConformance(
    QueueBehaviours,
    MessageBehaviours,
    ReceivingBehaviours,
    SettlingBehaviours,
    ChoosingBehaviours,
    TimingBehaviours,
    TransactionBehaviours,
    SessionBehaviours,
    TopicBehaviours,
    SubscriptionBehaviours,
    CompanyBehaviours,
    LeavingBehaviours,
    ClockStepBehaviours,
    BorderBehaviours,
):
    """Everything an engine promises. A subclass overrides the fixture ``make_engine``."""
