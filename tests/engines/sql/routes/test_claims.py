# SPDX-License-Identifier: MIT
"""Claims: one holder at a time, for as long as was said, whatever the key looks like."""

import asyncio

import pytest

ROUTE = "default/orders"
KEYS = [
    "",
    "a" * 200,
    "a" * 201,
    "a" * 202,
    "é" * 200,
    "\U0001f600" * 10_000,
    "a\0b",
    "ab",
    "\0",
    "\ud800",
    "\\ud800",
    "\ud83d\ude00",
    "\U0001f600",
    "sha256:",
    "'; DROP TABLE redrive_route_claims; -- ? @. @lock $1",
]


async def test_a_key_belongs_to_one_holder_until_it_is_released(ledger, other):
    assert await ledger.claim(ROUTE, "k", "one", 60)
    assert not await other.claim(ROUTE, "k", "two", 60)
    assert await other.claim(ROUTE, "another", "two", 60)
    assert await other.claim("default/other", "k", "two", 60)
    await ledger.release(ROUTE, "k", "one")
    assert await other.claim(ROUTE, "k", "two", 60)
    assert not await ledger.claim(ROUTE, "k", "one", 60)


async def test_only_its_holder_can_release_a_key(ledger, other):
    await ledger.claim(ROUTE, "k", "one", 60)
    await other.release(ROUTE, "k", "two")
    await other.release(ROUTE, "other", "one")
    await other.release("default/other", "k", "one")
    assert not await other.claim(ROUTE, "k", "two", 60)
    await other.release(ROUTE, "k", "one")
    await other.release(ROUTE, "k", "one")
    assert await other.claim(ROUTE, "k", "two", 60)


async def test_a_key_is_free_when_its_time_is_over(place, ledger, other):
    await ledger.claim(ROUTE, "k", "one", 60)
    place.clock.advance(59.9)
    assert not await other.claim(ROUTE, "k", "two", 60)
    place.clock.advance(0.1)
    assert await other.claim(ROUTE, "k", "two", 60)
    assert not await ledger.claim(ROUTE, "k", "one", 60)
    await ledger.release(ROUTE, "k", "one")
    place.clock.advance(59.9)
    assert not await ledger.claim(ROUTE, "k", "one", 60)
    place.clock.advance(0.1)
    assert await ledger.claim(ROUTE, "k", "one", 60)


async def test_the_same_holder_may_claim_again_and_has_the_key_no_longer_for_it(place, ledger, other):
    await ledger.claim(ROUTE, "k", "one", 60)
    place.clock.advance(30)
    assert await other.claim(ROUTE, "k", "one", 60)
    assert await other.claim(ROUTE, "k", "one", 1)
    place.clock.advance(29.9)
    assert not await other.claim(ROUTE, "k", "two", 60)
    place.clock.advance(0.1)
    assert await other.claim(ROUTE, "k", "two", 60)


async def test_the_same_holder_begins_anew_when_its_time_is_over(place, ledger, other):
    await ledger.claim(ROUTE, "k", "one", 60)
    place.clock.advance(60)
    assert await ledger.claim(ROUTE, "k", "one", 60)
    place.clock.advance(59)
    assert not await other.claim(ROUTE, "k", "two", 60)


@pytest.mark.parametrize("is_over", [False, True])
async def test_of_many_who_claim_a_key_at_once_one_gets_it(place, is_over):
    ledgers = [await place.ledger() for _ in range(4)]
    for key in map(str, range(10)):
        if is_over:
            await ledgers[0].claim(ROUTE, key, "earlier", 0)
        results = await asyncio.gather(
            *(each.claim(ROUTE, key, f"holder-{number}", 60) for number, each in enumerate(ledgers))
        )
        assert sorted(results) == [False, False, False, True]
        again = [await each.claim(ROUTE, key, f"holder-{number}", 60) for number, each in enumerate(ledgers)]
        assert again == results


async def test_keys_that_differ_are_different_keys_whatever_is_in_them(place, ledger):
    hashed = [row[0] for row in await all_claimed(place, ledger, "one") if row[0].startswith("sha256:")]
    assert all(await asyncio.gather(*(ledger.claim(key, "", key, 60) for key in [*KEYS, *hashed])))
    assert all(await asyncio.gather(*(ledger.claim(ROUTE, key, "two", 60) for key in hashed)))
    assert [await ledger.claim(ROUTE, key, "two", 60) for key in KEYS] == [False] * len(KEYS)
    assert [await ledger.claim(key, "", "x", 60) for key in KEYS] == [False] * len(KEYS)
    for key in KEYS:
        await ledger.release(ROUTE, key, "one")
        await ledger.release(key, "", key)
    assert [await ledger.claim(ROUTE, key, "two", 60) for key in KEYS] == [True] * len(KEYS)
    assert [await ledger.claim(key, "", "x", 60) for key in KEYS] == [True] * len(KEYS)


async def all_claimed(place, ledger, holder):
    """Claim every key; return how they are stored."""
    assert [await ledger.claim(ROUTE, key, holder, 60) for key in KEYS] == [True] * len(KEYS)
    return await place.sql("SELECT key FROM @.route_claims")


async def test_no_stored_key_is_long(place, ledger):
    stored = [row[0] for row in await all_claimed(place, ledger, "one")]
    assert max(map(len, stored)) == 200
    assert {"", "ab", "a" * 200, "é" * 200, "\U0001f600", "\\ud800"} <= set(stored)


# --- claims whose time is over


async def test_claims_whose_time_is_over_are_forgotten_so_many_at_a_time(place, ledger, other):
    for number in range(5):
        await ledger.claim(ROUTE, f"short-{number}", "one", 10 + number)
    await ledger.claim(ROUTE, "long", "one", 60)
    assert await ledger.forget_claims() == 0
    place.clock.advance(20)
    assert await ledger.forget_claims(3) == 3
    assert sorted(await place.sql("SELECT key FROM @.route_claims")) == [("long",), ("short-3",), ("short-4",)]
    assert await other.forget_claims(3) == 2
    assert await ledger.forget_claims(3) == 0
    assert not await other.claim(ROUTE, "long", "two", 60)
    assert await place.sql("SELECT key, holder FROM @.route_claims") == [("long", "one")]


async def test_processes_that_forget_at_once_forget_each_claim_once(place, ledger, other):
    for number in range(100):
        await ledger.claim(ROUTE, f"{number}", "one", 1)
    place.clock.advance(2)
    counts = await asyncio.gather(*(each.forget_claims(10) for each in [ledger, other] * 10))
    assert await place.sql("SELECT count(*) FROM @.route_claims") == [(0,)]
    assert sum(counts) == 100


async def test_a_claim_that_somebody_takes_meanwhile_is_not_forgotten(place, ledger):
    await ledger.claim(ROUTE, "k", "one", 1)
    place.clock.advance(2)
    rival = place.rival()
    try:
        rival.execute(f"UPDATE {place.prefix}route_claims SET holder = 'two', expires = 1e12")  # noqa: S608
        forgetting = asyncio.create_task(ledger.forget_claims())
        while not place.is_waiting():
            assert not forgetting.done()
            await asyncio.sleep(0.001)  # noqa: TID251 - until a server or a thread is where it waits
        rival.commit()
    finally:
        rival.close()
    assert await forgetting == 0
    assert await place.sql("SELECT holder FROM @.route_claims") == [("two",)]
