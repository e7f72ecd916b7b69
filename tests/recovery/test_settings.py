# SPDX-License-Identifier: MIT
"""The settings of a recovery: one list, for callers, type checkers, the stored plan and the reference."""

import json
import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from redrive.errors import InvalidSetting, UnknownSetting
from redrive.recovery import Canary, Filter, Kind, Plan, RecoverySettings, Transform
from redrive.recovery.settings import RecoverOptions

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "recovery.md"
ALSO_GIVEN = {"canary": {int}, "at": {timedelta, float}}
GIVEN = {
    "limit": 5,
    "rate": 0.5,
    "canary": Canary(count=2, max_failures=1, patience=7.0),
    "redirect": "orders",
    "transform": Transform(set_headers={"a": "b"}),
    "again": True,
    "at": datetime(2026, 11, 1, 22, tzinfo=UTC),
}


def test_what_type_checkers_read_is_what_there_is():
    kept, given = get_type_hints(RecoverySettings), get_type_hints(RecoverOptions)
    assert list(given) == list(RecoverySettings.names()) == list(GIVEN)
    for name, kind in given.items():
        members = set(get_args(kind) or {kind}) - ALSO_GIVEN.get(name, set())
        assert members == set(get_args(kept[name]) or {kept[name]}), name


def test_every_setting_is_in_the_reference_and_says_what_it_does():
    section = REFERENCE.read_text().split("| `how` | default |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", section, re.MULTILINE)
    assert rows == [(each.name, str(each.default)) for each in fields(RecoverySettings)]
    assert all(each.metadata["help"] for each in fields(RecoverySettings))


@pytest.mark.parametrize("name", GIVEN)
def test_a_plan_is_stored_and_read_with_each_setting(name):
    plan = Plan(filter=Filter(queues=("orders",)), **{name: GIVEN[name]})
    stored = json.loads(json.dumps(plan.to_json()))
    assert len(stored) == 3  # kind, filter and the one that is not as usual
    assert Plan.from_json(stored) == plan


def test_a_plan_that_was_stored_before_reads_the_same():
    """Plans are in databases: their keys never change."""
    stored = {
        "kind": "recover",
        "filter": Filter().to_json(),
        "limit": 5,
        "rate": 0.5,
        "redirect": "orders",
        "again": True,
        "is_edit": True,
        "canary": {"count": 2, "max_failures": 1, "patience": 7.0},
        "transform": GIVEN["transform"].to_json(),
        "not_before": "2026-11-01T22:00:00+00:00",
    }
    plan = Plan(is_edit=True, **GIVEN)
    assert Plan.from_json(stored) == plan
    assert plan.to_json() == stored


def test_a_canary_may_be_given_as_a_number():
    assert RecoverySettings(canary=3).canary == Canary(count=3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("limit", 0), ("limit", True), ("rate", 0), ("rate", "5"), ("rate", True), ("canary", 0), ("canary", "3")],
        *[("redirect", 5), ("transform", {}), ("again", 1), ("at", datetime(2026, 1, 1))],  # noqa: DTZ001 - that is it
    ],
)
def test_a_wrong_value_is_refused(name, value):
    with pytest.raises(InvalidSetting) as caught:
        RecoverySettings(**{name: value})
    assert caught.value.setting == name


@pytest.mark.parametrize("name", ["rate", "canary", "redirect", "transform", "again"])
def test_what_is_about_sending_has_no_meaning_for_what_sends_nothing(name):
    with pytest.raises(InvalidSetting, match="has no meaning for archive"):
        Plan(kind=Kind.ARCHIVE, **{name: GIVEN[name]})
    assert Plan(kind=Kind.ARCHIVE, limit=5).limit == 5


async def test_an_option_that_there_is_not_is_refused_before_anything_is_done(process):
    """It must not be left out: a rate with a typing error in its name would send at full speed."""
    (id_,) = await process.fail()
    recovery = process.recovery
    for request in (
        recovery.recover("status:unresolved", ratee=5),
        recovery.dry_run("status:unresolved", ratee=5),
        recovery.archive([id_], rate=5),
        recovery.edit(id_, Transform(set_headers={"a": "b"}), rate=5),
    ):
        with pytest.raises(UnknownSetting, match="rate"):
            await request
    assert await recovery.operations() == []
