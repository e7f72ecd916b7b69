# SPDX-License-Identifier: MIT
"""Names that are made of shipments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidSetting
from redrive.pipeline.shipment_names import (
    NameTemplateSetting,
    UrlTemplateSetting,
    name_of,
    safe_part,
    temporary_name,
    url_of,
)
from tests.pipeline.transports.shipments import shipment

SLOT = 1_767_484_800.0  # Sun, 04 Jan 2026 00:00:00 GMT


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{pipeline}-{destination}-{task}-{index}.csv", "reports-lab-t-1-7.csv"),
        ("{delivery_id}", "9f1c54b2-6e1d-5c0a-8f43-000000000001"),
        ("{task}.{index:03}", "t-1.007"),
        ("{slot}", "20260104T000000Z"),
        ("{slot:%Y%m%d%H%M}_{index:2}.hl7".replace(":2}", "}"), "202601040000_7.hl7"),
    ],
)
def test_a_name_is_filled_in(template, name):
    assert NameTemplateSetting().checked("name", template) == template
    assert name_of("name", template, shipment(index=7, slot_at=SLOT)) == name


def test_a_key_may_have_folders():
    template = "{pipeline}/{slot:dt=%Y-%m-%d}/{task}.csv"
    assert NameTemplateSetting(has_folders=True).checked("key", template) == template
    assert name_of("key", template, shipment(slot_at=SLOT)) == "reports/dt=2026-01-04/t-1.csv"


@pytest.mark.parametrize(
    "template",
    [
        "", None, 5, "x", "{pipeline}", "{index}", "{task", "task}", "{task}}", "{}", "{0}", "{task.__class__}",
        "{task[0]}", "{task!r}", "{task:>9}", "{index:d}", "{index:9999}", "{index:{task}}{task}", "{slot:%c}",
        "{slot:%Y/%m}", "{slot:%}", "{slot: }", "../{task}", "a/{task}", "/{task}", ".{task}", "{task}/..",
        "{task}\\x", "{task}\0", "{task} x", "{task}\n",
        "ä{task}", "{body}{task}", "{attempt}{task}", "{task}~", "x" * 201 + "{task}",
    ],
)  # fmt: skip
def test_a_template_that_could_give_a_bad_name_is_refused_when_it_is_declared(template):
    with pytest.raises(InvalidSetting) as caught:
        NameTemplateSetting().checked("name", template)
    assert caught.value.setting == "name"


@pytest.mark.parametrize(
    "template", ["/{task}", "{task}/", "a//{task}", "../{task}", "a/../{task}", "a/./{task}", "a/.b/{task}"]
)
def test_no_key_leads_out_of_its_folders(template):
    with pytest.raises(InvalidSetting):
        NameTemplateSetting(has_folders=True).checked("key", template)


HOSTILE = [
    "..",
    ".",
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "",
    "\0",
    "a\nb",
    "~",
    "ä",
    "\ud800",
    "%2e%2e",
    "x" * 5_000,
    ".hidden",
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("place", ["task", "pipeline", "destination", "delivery_id"])
def test_no_value_leads_to_another_folder(place, value):
    name = name_of("name", "{pipeline}-{destination}-{delivery_id}-{task}"[-100:], shipment(**{place: value}))
    assert name.isascii()
    assert not set(name) & set("/\\\0\n%~")
    alone = name_of("name", "{task}", shipment(task=value))
    assert alone not in ("", ".", "..")
    assert not alone.startswith(".")


@given(st.text(), st.text())
def test_different_values_have_different_names(one, other):
    assert (safe_part(one) == safe_part(other)) == (one == other)
    assert len(safe_part(one)) <= 100


def test_a_name_that_is_too_long_is_refused():
    with pytest.raises(InvalidSetting, match="1 to 200 characters"):
        name_of("name", "{task}-{task}-{task}", shipment(task="x" * 100))


def test_a_shipment_without_a_slot_has_no_name_with_one():
    with pytest.raises(InvalidSetting, match="was not batched"):
        name_of("name", "{slot}", shipment())


def test_what_is_not_whole_yet_is_hidden_and_each_attempt_has_its_own():
    assert temporary_name("a.csv", 1) == ".a.csv.1.part"
    assert temporary_name("a.csv", 1) != temporary_name("a.csv", 2)


def test_a_url_may_have_places_in_its_path_and_query():
    template = "https://example.org/reports/{delivery_id}?pipeline={pipeline}"
    assert UrlTemplateSetting().checked("url", template) == template
    made = url_of("url", template, shipment(pipeline="a/../b&c=d"))
    assert made.startswith("https://example.org/reports/9f1c54b2-6e1d-5c0a-8f43-000000000001?pipeline=a_.._b_c_d-")


@pytest.mark.parametrize(
    "template",
    [
        "", None, "example.org", "ftp://example.org/", "https://{pipeline}.example.org/", "https://example.org:{index}/",
        "https://user:pass@example.org/", "https://example.org/{task", "https://example.org/{other}",
        "https://example.org/ x",
        "https://example.org/#{task}", "https://{task}@example.org/",
    ],
)  # fmt: skip
def test_a_url_that_could_lead_elsewhere_is_refused_when_it_is_declared(template):
    with pytest.raises(InvalidSetting):
        UrlTemplateSetting().checked("url", template)
