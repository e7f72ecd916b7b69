# SPDX-License-Identifier: MIT
"""Every setting of a recovery is an option, by its field alone."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from redrive.cli.options import recovery_settings
from redrive.cli.options.recovery_settings import RecoveryOptions
from redrive.recovery import Canary, RecoverySettings, Transform

NOTHING = {each.name: each.default for each in RecoveryOptions.parameters()}


@dataclass(frozen=True, kw_only=True)
class LargerSettings(RecoverySettings):
    """Settings of a recovery with one more."""

    in_order: bool = field(default=False, metadata={"help": "send them in the order of their first failure"})


def test_the_options_are_those_of_the_settings():
    assert list(NOTHING) == ["limit", "rate", "canary", "max_failures", "patience", "to", "again", "at", "in_"]
    settings = dict.fromkeys(RecoverySettings.names()) | {"again": False}
    assert RecoveryOptions(**NOTHING).how(None) == settings


def test_what_is_stated_is_what_recovery_takes():
    stated = NOTHING | {"limit": 3, "canary": 2, "patience": "1m", "to": "by-hand", "at": "2026-11-01T22:00"}
    transform = Transform(set_headers={"a": "b"})
    how = RecoveryOptions(**stated).how(transform)
    assert (how["limit"], how["redirect"], how["transform"]) == (3, "by-hand", transform)
    assert how["canary"] == Canary(count=2, patience=60.0)
    assert how["at"] == datetime(2026, 11, 1, 22, tzinfo=UTC)
    assert RecoveryOptions(**NOTHING).how(None)["at"] is None
    assert RecoveryOptions(**NOTHING | {"in_": "2h"}).how(None)["at"] == 7_200.0


def test_a_new_setting_is_an_option_without_another_line(monkeypatch):
    monkeypatch.setattr(recovery_settings, "RecoverySettings", LargerSettings)
    (added,) = [each for each in RecoveryOptions.parameters() if each.name == "in_order"]
    assert added.annotation.__metadata__[0].help == "Send them in the order of their first failure."
    assert RecoveryOptions(**NOTHING, in_order=True).how(None)["in_order"] is True
