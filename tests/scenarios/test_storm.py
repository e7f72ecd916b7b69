# SPDX-License-Identifier: MIT
"""Storms: several processes, a queue, sessions and duplicates, ``kill -9`` and pauses at random moments.

All processes write journals; afterwards a checker looks for whatever must not have happened. That it would notice is
shown with engines that are broken on purpose.
"""

import asyncio
import random
import time

import pytest

from tests.patience import PATIENCE_S
from tests.scenarios.sites import PostgresSite, SqliteSite
from tests.scenarios.storm import Director, declare, play_in_one_process
from tests.scenarios.storm_checker import check
from tests.scenarios.storm_sabotage import SABOTAGES

TORTURE = [pytest.mark.torture, pytest.mark.timeout(1_200)]


@pytest.fixture
def sqlite_site(tmp_path):
    return SqliteSite(tmp_path / "storm.db")


@pytest.fixture
def postgres_site(breakable_postgres, breakable_url):
    return PostgresSite(breakable_postgres, breakable_url)


@pytest.fixture(params=["sqlite_site", "postgres_site"])
def site(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def director(site, tmp_path):
    director = Director(site, tmp_path)
    yield director
    director.clear()


@pytest.mark.parametrize(
    ("each", "kills", "pauses"),
    [
        pytest.param(2, 2, 2, id="short"),
        pytest.param(3, 200, 200, id="long", marks=TORTURE),
    ],
)
def test_a_storm_loses_nothing_doubles_nothing_and_keeps_every_lock(director, each, kills, pauses):
    seed = random.Random().randrange(2**32)
    chance = random.Random(seed)
    asyncio.run(declare(director.site.url))
    for place in range(each):
        director.start("producer", place)
        director.start("consumer", place)
    wait_for(director.is_under_way)
    director.rage(kills, pauses, chance)
    director.stop()
    director.site.check_integrity()
    storm = director.storm()
    faults = check(storm)
    print(f"seed {seed}: {figures(storm, director)}, faults: {len(faults)}")
    assert faults == []
    assert [ended for ended, expected in director.ends if ended != expected] == []
    assert director.said() == {}


def wait_for(holds, limit_s=PATIENCE_S):
    """Wait for something that the processes will do."""
    ends_at = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < ends_at, f"no sign of it after {limit_s} s"
        time.sleep(0.05)


def figures(storm, director):
    """Return what happened, in a line."""
    sends = [call for call in storm.calls if call.do == "send"]
    numbers = [number for call in sends if call.is_done for number in call.result["sequences"]]
    completed = sum(call.is_done for call in storm.calls if call.do == "complete")
    told = {
        "sent": sum(number is not None for number in numbers),
        "duplicates": numbers.count(None),
        "completed": completed,
        "left": len(storm.left),
        "sessions accepted": sum(call.do == "accept" and call.is_done for call in storm.calls),
        "calls": len(storm.calls),
        "calls without an answer": sum(call.answered is None for call in storm.calls),
        **director.done,
    }
    return ", ".join(f"{count:,} {what}" for what, count in told.items())


# --- is the checker worth anything?

SOUND = "Sound"
EXPECTED = {
    "LosesSends": {"lost"},
    "SendsTwice": {"doubled"},
    "Invents": {"invented"},
    "ChangesBodies": {"invented"},
    "DropsCompletions": {"returned"},
    "IgnoresTokens": {"stale"},
    "EndsLocks": {"two holders"},
    "EndsSessions": {"two holders"},
    "KeepsLocks": {"stuck"},
    "PassesOver": {"out of order"},
    "ForgetsIds": {"duplicate"},
    "Swallows": {"swallowed"},
    "Miscounts": {"miscounted"},
    SOUND: set(),
}


@pytest.fixture
def sqlite_sites(tmp_path):
    return lambda name: SqliteSite(tmp_path / f"{name}.db")


@pytest.fixture
def postgres_sites(breakable_postgres, breakable_url):
    return lambda name: PostgresSite(breakable_postgres, breakable_url, f"storm_{name.lower()}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("sites", "together"),
    [
        pytest.param("sqlite_sites", len(EXPECTED), id="sqlite"),
        pytest.param("postgres_sites", 1, id="postgres", marks=pytest.mark.torture),  # connections are few
    ],
)
def test_the_checker_notices_every_engine_that_is_broken_and_none_that_is_sound(request, sites, together, tmp_path):
    site_of = request.getfixturevalue(sites)
    to_try, faults = list(EXPECTED), {}
    for turn in range(10):  # whether something is broken while it matters is chance, and depends on the machine
        seconds = 2.5 * (1 + turn / 2)  # on a busy machine less happens in a second
        for place in range(0, len(to_try), together):
            names = to_try[place : place + together]
            faults |= asyncio.run(play_all(site_of, tmp_path / f"{turn}", names, turn, seconds))
        to_try = [name for name in EXPECTED if not EXPECTED[name] <= {fault.kind for fault in faults[name]}]
        if not to_try:
            break
    assert to_try == [], "the checker has not noticed these"
    assert faults[SOUND] == []


async def play_all(site_of, folder, names, turn, seconds):
    """Let several engines be played on at once for some seconds; return what the checker finds in each."""
    playing = {}
    for name in names:
        (folder / name).mkdir(parents=True)
        site = site_of(f"{name}_{turn}")
        playing[name] = asyncio.create_task(play_in_one_process(site, folder / name, SABOTAGES.get(name), seconds))
    return {name: check(await each) for name, each in playing.items()}


def test_every_sabotage_is_tried():
    assert {*SABOTAGES, SOUND} == EXPECTED.keys()
