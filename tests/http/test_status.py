# SPDX-License-Identifier: MIT
"""What statuses and heads of answers mean."""

import pytest

from redrive.errors import InvalidSetting
from redrive.http.status import LONGEST_PAUSE, StatusTableSetting, pause_of, words_by_status
from redrive.parts import ChoiceSetting

SETTING = StatusTableSetting(ChoiceSetting(("fine", "down")))


def test_a_status_may_be_a_number_or_a_text():
    assert SETTING.checked("statuses", {404: "fine", "503": "down"}) == (("404", "fine"), ("503", "down"))
    assert words_by_status("statuses", (("404", "fine"),)) == {404: "fine"}


@pytest.mark.parametrize(
    ("key", "word"),
    [("4xx", "down"), ("99", "down"), ("600", "down"), ("404", "good"), ("٤٠٤", "down"), (True, "down")],
)
def test_what_is_no_status_or_no_word_is_refused(key, word):
    with pytest.raises(InvalidSetting) as raised:
        SETTING.checked("statuses", {key: word})
    assert raised.value.setting in {f"statuses.{key}", "statuses"}


def test_a_pause_is_a_day_at_most():
    assert pause_of(503, {"Retry-After": "7"}, 0.0) == 7.0
    assert pause_of(503, {"Retry-After": "999999999999"}, 0.0) == LONGEST_PAUSE
    assert pause_of(503, {}, 0.0) is None
