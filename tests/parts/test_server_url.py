# SPDX-License-Identifier: MIT
"""URLs of servers: what may be shown of them."""

import pytest

from redrive.parts import ServerUrlSetting, shown_url, without_secrets

SETTING = ServerUrlSetting(("redis",), 6379, "redis://host")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host", "redis://host"),
        ("redis://host:1/2", "redis://host:1/2"),
        ("redis://user:pass@host/2", "redis://…@host/2"),
        ("redis://token@host", "redis://…@host"),
        ("redis://host?password=pass", "redis://host?…"),
        ("redis://host#pass", "redis://host?…"),
        ("redis://a:pass@host,redis://b:pass@other", "redis://…@host,redis://…@other"),
        ("env:NAME", "env:NAME"),
    ],
)
def test_what_could_be_secret_is_not_shown(url, shown):
    assert shown_url(url) == shown


@pytest.mark.parametrize("url", ["redis://user:p%40ss@host", "redis://p%40ss@host", "redis://host?password=p@ss"])
def test_secrets_are_removed_from_texts(url):
    assert "p@ss" not in without_secrets(f"cannot connect to {url} with p@ss", url)
    assert "p%40ss" not in without_secrets(f"cannot connect to {url} with p@ss", url)
    assert without_secrets("cannot connect to host", url) == "cannot connect to host"


def test_a_url_comes_from_the_environment_that_is_given():
    assert SETTING.resolved("url", "env:A", {"A": "redis://host"}) == "redis://host"
    assert SETTING.resolved("url", "redis://host", {}) == "redis://host"
