# SPDX-License-Identifier: MIT
"""The filter that writes a hash into a header."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import ExpressionFailed, InvalidSetting
from redrive.routes.filters.hash import HashFilter
from tests.routes.filters.events import event, leg


def hashed(body, **settings):
    (made,) = HashFilter("digest", **settings).apply(event(body, headers={"region": "eu"}), leg())
    assert made.body == event(body).body
    assert made.headers["region"] == "eu"
    return made.headers["digest"]


@pytest.mark.parametrize(
    ("algorithm", "digest"),
    [
        ("sha256", hashlib.sha256(b"abc").hexdigest()),
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("crc32", "352441c2"),
    ],
)
def test_a_hash_is_the_one_that_others_calculate(algorithm, digest):
    assert hashed(b"abc", algorithm=algorithm) == digest
    assert hashed({"key": "abc"}, algorithm=algorithm, path="body.key") == digest


def test_a_short_crc_has_all_its_digits():
    assert hashed(b"", algorithm="crc32") == "00000000"


@given(st.dictionaries(st.text(), st.integers() | st.text(), min_size=1))
def test_equal_values_have_equal_hashes_and_others_do_not(value):
    usual = hashed({"v": value}, path="body.v")
    assert hashed({"v": dict(reversed(value.items()))}, path="body.v") == usual
    assert hashed({"v": {**value, next(iter(value)): None}}, path="body.v") != usual


def test_what_is_missing_has_no_hash():
    with pytest.raises(ExpressionFailed, match="its result is null"):
        hashed({}, path="body.key")


def test_the_header_is_none_of_redrives_own():
    with pytest.raises(InvalidSetting, match="those with 'redrive-' are Redrive's own"):
        HashFilter("redrive-digest")
    with pytest.raises(InvalidSetting, match="must be one of: sha256, md5, crc32"):
        HashFilter("digest", algorithm="sha1")
