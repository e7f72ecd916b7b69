# SPDX-License-Identifier: MIT
"""All filters together: files find each by its kind, and write it as code does."""

from dataclasses import FrozenInstanceError, fields

import pytest

from redrive.errors import InvalidSetting, UnknownSetting
from redrive.routes.kinds import class_of, filter_of, kinds
from redrive.routes.parts import EventFilter, OutsideFilter

EXAMPLES = {
    "call": {"function": "tests.routes.filters.functions:later"},
    "dedup": {"key": "body.order", "window": 60.0},
    "enrich": {"url": "https://example.org/{id}", "into": "customer", "params": {"id": "body.customer"}},
    "hash": {"header": "digest", "path": "body", "algorithm": "md5"},
    "log": {"text": "an order", "level": "debug"},
    "match": {"expression": "body.total > 100"},
    "metric": {"name": "orders", "labels": {"region": "headers.region"}, "value": "body.total"},
    "python": {"function": "tests.routes.filters.functions:result"},
    "regex": {"pattern": "(?P<level>[A-Z]+)", "path": "subject", "headers": True},
    "sample": {"rate": 0.25},
    "split": {"path": "body.items"},
    "transform": {"fields": {"order": "body.id"}},
    "ttl": {"max_age": 60.0, "path": "body.at", "on_expired": "reject"},
    "unwrap": {"path": "body.Message", "encoding": "base64"},
}


def test_every_kind_has_an_example():
    assert sorted(EXAMPLES) == sorted(kinds("filters"))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_filter_is_written_as_it_was_read(kind):
    table = {"kind": kind, **EXAMPLES[kind]}
    made = filter_of(table)
    assert made.to_table() == table
    assert filter_of(made.to_table()) == made
    assert hash(filter_of(table)) == hash(made)
    assert str(made).startswith(f"{kind}(")


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_filter_is_frozen_and_says_what_its_settings_mean(kind):
    found = class_of("filters", kind)
    assert issubclass(found, EventFilter) != issubclass(found, OutsideFilter)
    made = filter_of({"kind": kind, **EXAMPLES[kind]})
    for each in fields(found):
        assert each.metadata["help"]
        with pytest.raises(FrozenInstanceError):
            setattr(made, each.name, None)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_setting_that_does_not_exist_is_refused(kind):
    with pytest.raises(UnknownSetting):
        filter_of({"kind": kind, **EXAMPLES[kind], "no_such_setting": 1})


@pytest.mark.parametrize("kind", sorted(set(EXAMPLES) - {"dedup", "log", "split"}))
def test_a_filter_without_what_it_needs_is_refused(kind):
    with pytest.raises(InvalidSetting, match="must be given"):
        filter_of({"kind": kind})
