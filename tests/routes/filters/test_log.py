# SPDX-License-Identifier: MIT
"""The filter that logs a line for each event."""

import logging

import pytest

from redrive.errors import InvalidSetting
from redrive.routes.filters.log import LogFilter
from tests.routes.filters.events import event, leg


def test_one_line_is_logged_and_the_event_passes(caplog):
    caplog.set_level(logging.DEBUG, "redrive.routes.events")
    order = event({"secret": 1}, id="o-1:2")
    assert list(LogFilter("got an order", level="warning").apply(order, leg("o-1", attempt=3))) == [order]
    (record,) = caplog.records
    assert record.getMessage() == "got an order: o-1:2 on route shop/big"
    assert (record.name, record.levelno) == ("redrive.routes.events", logging.WARNING)
    assert record.redrive == {"event_id": "o-1", "application": "shop", "route": "big", "attempt": 3}


def test_an_event_without_an_id_is_named_by_that_of_its_leg(caplog):
    caplog.set_level(logging.INFO, "redrive.routes.events")
    LogFilter().apply(event(b"", id=None), leg("o-7"))
    assert caplog.messages == ["event: o-7 on route shop/big"]


def test_neither_text_nor_id_can_forge_a_line(caplog):
    caplog.set_level(logging.INFO, "redrive.routes.events")
    LogFilter("a\nb % s").apply(event(b"", id="o\r\n1"), leg())
    assert caplog.messages == [r"a\nb % s: o\r\n1 on route shop/big"]


def test_nothing_is_logged_below_the_level_of_the_logger(caplog):
    caplog.set_level(logging.WARNING, "redrive.routes.events")
    assert LogFilter(level="info").apply(event(b""), leg())
    assert caplog.records == []


def test_the_level_is_a_known_one():
    with pytest.raises(InvalidSetting, match="must be one of: debug, info, warning, error"):
        LogFilter(level="fatal")
