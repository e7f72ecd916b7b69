# SPDX-License-Identifier: MIT
"""Every setting of a queue is an option, by its field alone."""

from dataclasses import dataclass, field, fields

import pytest

from redrive.broker import QueueSettings, TopicSettings
from redrive.broker.settings import DurationSetting
from redrive.cli.options.queue_settings import StatedSettings, StatedTopicSettings, setting_text


@dataclass(frozen=True, kw_only=True)
class LargerSettings(QueueSettings):
    """Settings of a queue with one more."""

    cool_down: float | None = field(
        default=None, metadata={"kind": DurationSetting(), "help": "how long to rest after a failure"}
    )


def test_every_setting_has_an_option_with_its_help_and_its_default():
    options = {each.name: each.annotation.__metadata__[0] for each in StatedSettings.parameters()}
    assert tuple(options) == QueueSettings.names()
    assert options["lock_duration"].help == "How long a received message is locked; 60 s by default."
    assert options["requires_session"].metavar == "yes|no"


def test_the_settings_of_a_topic_are_options_too():
    assert tuple(each.name for each in StatedTopicSettings.parameters()) == TopicSettings.names()
    assert StatedTopicSettings(keep_unmatched="yes", max_message_bytes=None).stated == {"keep_unmatched": True}


def test_a_new_setting_is_an_option_without_another_line(monkeypatch):
    monkeypatch.setattr(StatedSettings, "kind", LargerSettings)
    assert StatedSettings.parameters()[-1].name == "cool_down"
    assert StatedSettings(cool_down="2m", lock_duration=None).stated == {"cool_down": 120.0}


def test_what_was_not_stated_is_left_out_and_none_switches_off():
    stated = StatedSettings(default_ttl="none", max_delivery_count="5", requires_session="yes", lock_duration=None)
    assert stated.stated == {"default_ttl": None, "max_delivery_count": 5, "requires_session": True}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("lock_duration", 60.0, "60 s"),
        ("default_ttl", None, "none"),
        ("requires_session", False, "no"),
        ("max_message_bytes", 1_048_576, "1,048,576"),
        ("journey", "all", "all"),
    ],
)
def test_a_setting_is_shown_in_words(name, value, text):
    (setting,) = [each for each in fields(QueueSettings) if each.name == name]
    assert setting_text(setting, value) == text
