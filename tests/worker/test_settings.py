# SPDX-License-Identifier: MIT
"""The settings of a handler: one list, for callers, type checkers and the reference."""

import re
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from redrive.errors import InvalidSetting, UnknownSetting
from redrive.worker import Worker
from redrive.worker.settings import HandlerOptions, HandlerSettings

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "worker.md"


def test_what_type_checkers_read_is_what_there_is():
    kept, given = get_type_hints(HandlerSettings), get_type_hints(HandlerOptions)
    assert list(given) == list(HandlerSettings.names())
    for name, kind in given.items():  # a length of time may be given as a timedelta too
        members = set(get_args(kind)) - {timedelta} if get_args(kind) else {kind}
        assert members == (set(get_args(kept[name])) or {kept[name]}), name


def test_every_setting_is_in_the_reference_and_in_the_help_of_handler():
    section = REFERENCE.read_text().split("## `@worker.handler(")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)[: len(HandlerSettings.names())] == list(
        HandlerSettings.names()
    )
    assert re.findall(r"``(\w+)``", Worker.handler.__doc__.split("settings: ")[1]) == list(HandlerSettings.names())


def test_every_setting_says_what_it_does():
    assert all(each.metadata["help"] for each in fields(HandlerSettings))


def test_lengths_of_time_are_kept_as_seconds():
    settings = HandlerSettings(timeout=timedelta(minutes=1), max_lock_renewal=0)
    assert (settings.timeout, settings.max_lock_renewal) == (60.0, 0.0)


@pytest.mark.parametrize(
    ("declare", "error", "says"),
    [
        ("yes", InvalidSetting, "must be True, False, or settings of the queue"),
        ({"lock_duraton": 5}, UnknownSetting, "lock_duration"),
        ({"lock_duration": 3_600}, InvalidSetting, "lock_duration"),
    ],
)
def test_wrong_settings_of_a_queue_are_refused_when_its_handler_is_declared(declare, error, says):
    with pytest.raises(error, match=says):
        Worker().handler("orders", declare=declare)
