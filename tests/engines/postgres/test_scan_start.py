# SPDX-License-Identifier: MIT
"""Beside a long transaction, receives begin where the last one found something, and seldom at the beginning."""

import pytest

from redrive.engines.postgres.scan_start import Heads

ORDERS, BILLING = 1, 2


@pytest.fixture
def heads():
    heads = Heads()
    assert heads.of(ORDERS, 100.0) == 0
    heads.note({ORDERS: 50_000}, 0.001)
    return heads


def test_the_next_receive_begins_where_the_last_one_found_something(heads):
    assert 0 < heads.of(ORDERS, 100.1) <= 50_000


def test_numbers_a_little_lower_may_be_committed_later(heads):
    assert heads.of(ORDERS, 100.1) <= 49_000


def test_a_place_is_never_before_the_first_number(heads):
    heads.note({ORDERS: 3}, 0.001)
    assert heads.of(ORDERS, 100.1) == 1


def test_a_queue_of_which_nothing_is_known_is_looked_through(heads):
    assert heads.of(BILLING, 100.1) == 0


def test_once_a_second_the_beginning_is_looked_at(heads):
    assert heads.of(ORDERS, 100.9) > 0
    assert heads.of(ORDERS, 101.0) == 0


def test_a_look_that_takes_long_is_made_seldom(heads):
    assert heads.of(ORDERS, 101.0) == 0
    heads.note({ORDERS: 60_000}, 0.5)
    assert heads.of(ORDERS, 110.9) > 0
    assert heads.of(ORDERS, 111.0) == 0


def test_looks_at_several_queues_count_together(heads):
    assert heads.of(ORDERS, 101.0) == heads.of(BILLING, 101.0) == 0
    heads.note({ORDERS: 60_000}, 0.2)
    heads.note({BILLING: 60_000}, 0.2)
    assert heads.of(ORDERS, 108.9) > 0
    assert heads.of(ORDERS, 109.0) == 0


def test_a_look_is_made_every_ten_seconds_whatever_it_costs(heads):
    assert heads.of(ORDERS, 101.0) == 0
    heads.note({ORDERS: 60_000}, 500.0)
    assert heads.of(ORDERS, 111.0) == 0


def test_a_receive_that_begins_later_does_not_count_as_a_look(heads):
    heads.note({ORDERS: 60_000}, 9.0)
    assert heads.of(ORDERS, 101.0) == 0


def test_what_became_ready_again_is_looked_for_at_once(heads):
    heads.look_again()
    assert heads.of(ORDERS, 100.1) == 0


def test_what_becomes_ready_again_all_the_time_does_not_make_every_receive_a_look(heads):
    assert heads.of(ORDERS, 101.0) == 0
    heads.note({ORDERS: 60_000}, 0.5)
    heads.look_again()
    assert heads.of(ORDERS, 110.9) > 0
    assert heads.of(ORDERS, 111.0) == 0


def test_where_nothing_is_found_the_place_stays(heads):
    assert heads.of(ORDERS, 101.0) == 0
    heads.note({ORDERS: 0}, 0.001)
    assert heads.of(ORDERS, 101.1) == 49_000
