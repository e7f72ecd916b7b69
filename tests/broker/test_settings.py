# SPDX-License-Identifier: MIT
"""Settings and names of queues are checked before any engine sees them, and say what they may be."""

import math
from dataclasses import asdict, fields
from datetime import timedelta

import pytest

from redrive.broker import Capabilities, QueueSettings
from redrive.broker.rules import check_queue_name
from redrive.broker.settings import DurationSetting, FlagSetting, JourneySetting, QueueOptions, WholeSetting
from redrive.errors import InvalidSetting

WRONG = {
    "lock_duration": [0, -1, 300.1, math.nan, math.inf, "60", None, True, timedelta(minutes=6)],
    "max_delivery_count": [0, -1, 2_001, 1.0, "10", None, True],
    "default_ttl": [0, -1, math.nan, math.inf, "1", True, timedelta(days=400)],
    "auto_delete_on_idle": [0, -1, math.nan, "1", False],
    "duplicate_detection": [0, -1, math.inf, "1", False],
    "dead_letter_on_expiration": [1, 0, None, "yes"],
    "requires_session": [1, 0, None, "yes"],
    "max_message_bytes": [0, -1, 100 * 1_048_576 + 1, 1.5, "1", None, True],
    "journey": ["some", "", 0, -1, 1.5, True, None, math.nan, "2"],
}
RIGHT = {
    "lock_duration": [0.001, 1, 300, timedelta(minutes=5)],
    "max_delivery_count": [1, 2_000],
    "default_ttl": [None, 0.001, 366 * 86_400, timedelta(days=1)],
    "auto_delete_on_idle": [None, 1, timedelta(hours=1)],
    "duplicate_detection": [None, 1, timedelta(hours=1)],
    "dead_letter_on_expiration": [True, False],
    "requires_session": [True, False],
    "max_message_bytes": [1, 100 * 1_048_576],
    "journey": ["trouble", "all", "none", 0.01],
}


def pairs(table):
    return pytest.mark.parametrize(("name", "value"), [(name, value) for name in table for value in table[name]])


def test_the_defaults_are_these():
    assert asdict(QueueSettings()) == {
        "lock_duration": 60.0,
        "max_delivery_count": 10,
        "default_ttl": None,
        "dead_letter_on_expiration": False,
        "auto_delete_on_idle": None,
        "duplicate_detection": None,
        "requires_session": False,
        "max_message_bytes": 1_048_576,
        "journey": "trouble",
    }


def test_every_setting_is_tried_here():
    assert set(WRONG) == set(RIGHT) == set(QueueSettings.names()) == {each.name for each in fields(QueueSettings)}


def test_the_options_that_type_checkers_know_are_the_settings():
    written = {float: float | timedelta, float | None: float | timedelta | None}
    expected = {each.name: written.get(each.type, each.type) for each in fields(QueueSettings)}
    assert QueueOptions.__annotations__ == expected


def test_every_setting_says_what_it_is_and_what_it_may_be():
    kinds = {each.name: type(each.metadata["kind"]) for each in fields(QueueSettings)}
    assert set(kinds.values()) == {DurationSetting, FlagSetting, JourneySetting, WholeSetting}
    assert all(each.metadata["help"] for each in fields(QueueSettings))
    assert fields(QueueSettings)[0].metadata["kind"].longest == 300.0


@pairs(WRONG)
def test_a_wrong_setting_is_named_with_what_it_may_be(name, value):
    with pytest.raises(InvalidSetting) as caught:
        QueueSettings(**{name: value})
    assert (caught.value.setting, caught.value.value) == (name, value)
    assert "must be" in caught.value.allowed


@pairs(RIGHT)
def test_a_right_setting_is_taken_and_times_are_seconds(name, value):
    expected = value.total_seconds() if isinstance(value, timedelta) else value
    assert getattr(QueueSettings(**{name: value}), name) == expected


@pytest.mark.parametrize("name", ["orders", "a", "A-z_0.9/x", "x" * 260])
def test_a_sensible_name_is_taken(name):
    assert check_queue_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 261, "orders/$dead", "a b", "ü", "a\n", "a\x00b", "a;b", None, 7, b"orders"]
)
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InvalidSetting, match="queue="):
        check_queue_name(name)


def test_an_engine_can_do_everything_unless_it_says_otherwise():
    of_all = asdict(Capabilities())
    assert (of_all.pop("most_effects"), of_all.pop("time_resolution_s")) == (None, 0.0)
    assert all(of_all.values())
