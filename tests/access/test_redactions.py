# SPDX-License-Identifier: MIT
"""Stored rules of redaction: what other processes change counts in a second."""

import pytest

from redrive import connect
from redrive.access import Redaction, RedactionRules
from redrive.errors import InvalidSetting
from redrive.testing import ManualClock
from redrive.wiring import open_access


async def test_a_rule_of_another_process_counts_in_a_second_and_none_is_read_before(tmp_path):
    clock, own = ManualClock(), Redaction(RedactionRules(headers=("a",)))
    async with connect(f"sqlite:///{tmp_path}/rules.db", clock=clock) as broker:
        here, there = open_access(broker).redactions, open_access(broker).redactions
        assert await here.current(own) is own
        await there.add("header", "b", actor="ann")
        assert (await here.current(own)) is own
        clock.advance(1.0)
        first = await here.current(own)
        assert first.rules.headers == ("a", "b")
        clock.advance(1.0)
        assert await here.current(own) is first
        with pytest.raises(InvalidSetting, match="header, pointer, pattern"):
            await here.add("place", "b")
