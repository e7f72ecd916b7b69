# SPDX-License-Identifier: MIT
"""Passwords that are hashed quickly: to hash one as it should be takes longer than most tests."""

from redrive.access import access, credentials


def use_cheap_passwords(monkeypatch):
    """Let passwords cost next to nothing, until the end of a test."""
    monkeypatch.setattr(credentials, "_COST", 2)
    cheap = credentials.NO_PASSWORD.replace("$32768$", "$2$")
    assert cheap != credentials.NO_PASSWORD
    monkeypatch.setattr(access, "NO_PASSWORD", cheap)
