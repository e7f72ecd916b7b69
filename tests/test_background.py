# SPDX-License-Identifier: MIT
"""Work in the background goes on after any error, and the log says so once."""

import asyncio
import logging

import pytest

from redrive.background import KeepGoing
from redrive.errors import QueueNotFound

logger = logging.getLogger("redrive.test")


@pytest.fixture
def keep_going(caplog):
    caplog.set_level(logging.DEBUG, "redrive.test")
    return KeepGoing(logger, "upkeep failed", level=logging.INFO)


def fail(keep_going, error):
    with keep_going:
        raise error


def test_an_error_of_redrive_is_a_line_of_the_level_that_was_asked_for(keep_going, caplog):
    fail(keep_going, QueueNotFound("orders\nx"))
    ((_, level, text),) = caplog.record_tuples
    assert level == logging.INFO
    assert text.startswith("upkeep failed and will be tried again: ")
    assert "\n" not in text
    assert caplog.records[0].exc_info is None


def test_any_other_error_is_logged_with_its_traceback(keep_going, caplog):
    fail(keep_going, KeyError("a bug"))
    (record,) = caplog.records
    assert (record.levelno, record.exc_info[0]) == (logging.ERROR, KeyError)
    assert record.getMessage() == "upkeep failed with an unexpected error and will be tried again"


def test_errors_in_a_row_are_logged_once(keep_going, caplog):
    for _ in range(3):
        fail(keep_going, KeyError("a bug"))
        assert keep_going.has_failed
    with keep_going:
        assert keep_going.has_failed  # the attempt before
    assert not keep_going.has_failed
    fail(keep_going, KeyError("a bug"))
    assert len(caplog.records) == 2


@pytest.mark.parametrize("stop", [asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_task_or_the_process_is_no_error(keep_going, caplog, stop):
    with pytest.raises(stop):
        fail(keep_going, stop())
    assert not caplog.records
    assert not keep_going.has_failed
