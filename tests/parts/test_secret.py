# SPDX-License-Identifier: MIT
"""Secrets in the environment."""

import pytest

from redrive.errors import InvalidSetting
from redrive.parts.secret import from_environment, hidden_secret


def test_a_value_is_itself_or_in_a_variable(monkeypatch):
    monkeypatch.setenv("TOKEN", " geheim\n")
    assert from_environment("token", "plain") == "plain"
    assert from_environment("token", "env:TOKEN") == "geheim"


@pytest.mark.parametrize("found", [None, "", "  ", "two\nlines", "naïve"])
def test_a_variable_that_is_missing_or_cannot_be_sent_is_named_and_not_shown(monkeypatch, found):
    monkeypatch.delenv("TOKEN", raising=False)
    if found is not None:
        monkeypatch.setenv("TOKEN", found)
    with pytest.raises(InvalidSetting, match="environment variable 'TOKEN'") as caught:
        from_environment("token", "env:TOKEN")
    assert not (found or "").strip() or found not in str(caught.value)


def test_only_where_a_secret_is_read_from_may_be_shown():
    assert hidden_secret("env:TOKEN") == "env:TOKEN"
    assert hidden_secret("geheim") == "***"
