# SPDX-License-Identifier: MIT
"""The receiver that follows a file: every line once, in order, through rotation, truncation and crashes."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from redrive.errors import EngineUnavailable, InvalidSetting, MessageTooLarge, UsageError
from redrive.routes.receivers import tail_reader
from redrive.routes.receivers.followed_file import split_lines
from redrive.routes.receivers.receiver_events import EventGivenUp, SourceFault
from redrive.routes.receivers.tail import FileTailReceiver
from redrive.routes.receivers.tail_reader import TailReader
from tests.patience import PATIENCE_S
from tests.routes.local.bench_of_parts import ScriptedIntake, nack

ROOT = Path(__file__).parents[3]


@pytest.fixture
def log(tmp_path):
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "app.log"


def write(path, *lines, end="\n"):
    with path.open("ab") as file:
        file.write("".join(f"{line}{end}" for line in lines).encode())


def following(log, **settings):
    return FileTailReceiver(path=str(log), **{"start": "beginning", **settings})


async def taken(bench, receiver, intake, count):
    """Run a receiver until so many events were taken, and then a little longer; stop it."""
    task = bench.start(receiver, intake)
    await bench.until(lambda: len(intake.taken) >= count, step=0.5)
    await look(bench)
    await bench.stop(task)
    return intake


async def look(bench, times=3):
    """Have the receiver look at its file some times."""
    for _ in range(times):
        await bench.settle_down()
        bench.clock.advance(1.0)
    await bench.settle_down()


async def test_each_line_is_an_event(bench, log):
    write(log, "one", "", "two\r", "drei ✓")
    intake = await taken(bench, following(log), ScriptedIntake(), 4)
    assert intake.bodies == [b"one", b"", b"two", "drei ✓".encode()]
    assert [each.headers for each in intake.taken] == [{"path": str(log)}] * 4
    assert len(set(intake.ids)) == 4
    assert all(each.startswith(f"tail:{log.stat().st_ino}:") for each in intake.ids)


async def test_a_line_counts_when_it_is_whole(bench, log):
    write(log, "one", "tw", end="")
    intake = ScriptedIntake()
    bench.start(following(log), intake)
    await look(bench)
    assert intake.taken == []
    write(log, "", "o", end="\n")
    await bench.until(lambda: len(intake.taken) == 2, step=0.5)
    assert intake.bodies == [b"onetw", b"o"]


async def test_a_new_follower_begins_at_the_end_and_with_the_line_that_is_being_written(bench, log):
    write(log, "old", "older")
    write(log, "half ", end="")
    intake, receiver = ScriptedIntake(), following(log, start="end")
    task = bench.start(receiver, intake)
    await bench.until(receiver.position_path.exists)
    await look(bench)
    assert intake.taken == []
    write(log, "a line", "new")
    await bench.until(lambda: len(intake.taken) == 2, step=0.5)
    assert intake.bodies == [b"half a line", b"new"]
    await bench.stop(task)


async def test_the_first_position_is_stored_at_once_so_that_a_restart_skips_nothing(bench, log):
    write(log, "old")
    receiver = following(log, start="end")
    task = bench.start(receiver, ScriptedIntake())
    await bench.until(receiver.position_path.exists)
    await bench.stop(task)
    write(log, "new")
    assert (await taken(bench, receiver, ScriptedIntake(), 1)).bodies == [b"new"]


async def test_a_file_that_comes_later_is_read_from_its_beginning(bench, log):
    receiver = following(log, start="end")
    task = bench.start(receiver, ScriptedIntake())
    await bench.until(receiver.position_path.exists)
    await bench.stop(task)
    write(log, "one", "two")
    assert (await taken(bench, receiver, ScriptedIntake(), 2)).bodies == [b"one", b"two"]
    assert bench.events == []


async def test_after_a_restart_it_goes_on_where_it_was(bench, log):
    write(log, "one", "two")
    await taken(bench, following(log), ScriptedIntake(), 2)
    write(log, "three")
    assert (await taken(bench, following(log), ScriptedIntake(), 1)).bodies == [b"three"]


async def test_the_position_file_can_be_elsewhere(bench, log, tmp_path):
    write(log, "one")
    await taken(bench, following(log, position_file=str(tmp_path / "here")), ScriptedIntake(), 1)
    assert json.loads((tmp_path / "here").read_text())["offset"] == 4
    assert list(log.parent.iterdir()) == [log]


# --- rotation


async def test_a_renamed_file_is_read_to_its_end_before_its_successor(bench, log):
    write(log, "one")
    intake = ScriptedIntake()
    bench.start(following(log), intake)
    await bench.until(lambda: len(intake.taken) == 1, step=0.5)
    log.rename(log.with_suffix(".1"))
    write(log, "three")
    write(log.with_suffix(".1"), "two")  # its writer has not noticed yet
    await bench.until(lambda: len(intake.taken) == 3, step=0.5)
    assert intake.bodies == [b"one", b"two", b"three"]
    assert len(set(intake.ids)) == 3


def test_a_renamed_file_may_grow_between_two_looks(log):
    write(log, "one")
    position = log.with_suffix(".position")
    reader = TailReader(log, position, from_beginning=True, max_line=1_024, on_problem=pytest.fail)
    reader.acknowledge(reader.read()[0])
    log.rename(log.with_suffix(".1"))
    write(log, "three")
    assert reader.read() == []  # its writer may not have noticed yet
    write(log.with_suffix(".1"), "two")
    assert [line.body for line in reader.read()] == [b"two"]
    reader.close()


async def test_the_last_line_of_a_renamed_file_needs_no_end(bench, log):
    write(log, "one")
    write(log, "two", end="")
    intake = ScriptedIntake()
    bench.start(following(log), intake)
    await bench.until(lambda: len(intake.taken) == 1, step=0.5)
    log.rename(log.with_suffix(".1"))
    await look(bench)
    assert intake.bodies == [b"one"]  # there is no successor yet
    write(log, "three")
    await bench.until(lambda: len(intake.taken) == 3, step=0.5)
    assert intake.bodies == [b"one", b"two", b"three"]


async def test_a_file_that_was_renamed_while_it_was_not_followed_is_found(bench, log):
    write(log, "one")
    await taken(bench, following(log), ScriptedIntake(), 1)
    write(log, "two")
    log.rename(log.with_name("app-2026.log"))
    write(log, "three")
    intake = await taken(bench, following(log), ScriptedIntake(), 2)
    assert intake.bodies == [b"two", b"three"]
    assert bench.events == []


async def test_a_file_that_is_gone_is_reported_and_its_successor_read_from_the_beginning(bench, log):
    write(log, "one")
    first = await taken(bench, following(log), ScriptedIntake(), 1)
    write(log.with_name("next"), "one", "two")
    log.with_name("next").replace(log)
    second = await taken(bench, following(log), ScriptedIntake(), 2)
    assert second.bodies == [b"one", b"two"]
    assert not set(first.ids) & set(second.ids)
    assert [type(each) for each in bench.events] == [SourceFault]


async def test_a_link_that_moves_to_the_next_file_is_followed(bench, log, tmp_path):
    for day in ("monday", "tuesday"):
        (tmp_path / day).mkdir()
        write(tmp_path / day / "app.log", day)
    log.symlink_to(tmp_path / "monday" / "app.log")
    intake = ScriptedIntake()
    task = bench.start(following(log), intake)
    await bench.until(lambda: len(intake.taken) == 1, step=0.5)
    await bench.stop(task)
    task = bench.start(following(log), intake)  # a restart finds it through the link
    write(log, "evening")
    await bench.until(lambda: len(intake.taken) == 2, step=0.5)
    log.unlink()
    log.symlink_to(tmp_path / "tuesday" / "app.log")
    await bench.until(lambda: len(intake.taken) == 3, step=0.5)
    assert intake.bodies == [b"monday", b"evening", b"tuesday"]
    assert bench.events == []


async def test_a_file_that_was_emptied_has_new_ids(bench, log):
    write(log, "one", "and one")
    intake = ScriptedIntake()
    bench.start(following(log), intake)
    await bench.until(lambda: len(intake.taken) == 2, step=0.5)
    os.truncate(log, 0)  # as logrotate does with copytruncate
    write(log, "one")
    await bench.until(lambda: len(intake.taken) == 3, step=0.5)
    assert intake.bodies[2:] == [b"one"]
    assert len(set(intake.ids)) == 3


async def test_a_file_that_was_emptied_and_is_longer_than_before_has_new_ids(bench, log):
    write(log, "one", "and one")
    intake = ScriptedIntake()
    bench.start(following(log), intake)
    await bench.until(lambda: len(intake.taken) == 2, step=0.5)
    with log.open("r+b", buffering=0) as file:
        file.write(b"one\nlonger than it was before\n")  # at once: the receiver does not see it empty
    await bench.until(lambda: len(intake.taken) == 4, step=0.5)
    assert intake.bodies[2:] == [b"one", b"longer than it was before"]
    assert len(set(intake.ids)) == 4


async def test_a_file_that_was_emptied_while_it_was_not_followed_has_new_ids(bench, log):
    write(log, "one", "and one")
    first = await taken(bench, following(log), ScriptedIntake(), 2)
    os.truncate(log, 0)
    write(log, "one", "two and three")
    second = await taken(bench, following(log), ScriptedIntake(), 2)
    assert second.bodies == [b"one", b"two and three"]
    assert not set(first.ids) & set(second.ids)


async def test_equal_files_one_after_the_other_have_different_ids(bench, log):
    intake = ScriptedIntake()
    write(log, "header", "line")
    bench.start(following(log), intake)
    for number in range(1, 4):
        await bench.until(lambda: len(intake.taken) == 2 * number, step=0.5)  # noqa: B023 - it is called at once
        log.unlink()  # the next file may get its inode
        write(log, "header", "line")
    await bench.until(lambda: len(intake.taken) == 8, step=0.5)
    assert len(set(intake.ids)) == 8


# --- long lines


async def test_a_line_that_is_too_long_comes_in_pieces(bench, log):
    write(log, "x" * 2_500, "y" * 1_024, "z")
    intake = await taken(bench, following(log, max_line=1_024), ScriptedIntake(), 5)
    assert [len(body) for body in intake.bodies] == [1_024, 1_024, 452, 1_024, 1]
    assert [each.headers.get("truncated") for each in intake.taken] == [True, True, None, None, None]


async def test_lines_are_found_across_the_bytes_that_are_read_at_a_time(bench, log):
    lines = [f"{n} {'x' * (n % 900)}" for n in range(1_000)]
    write(log, *lines)
    intake = await taken(bench, following(log, max_line=1_024), ScriptedIntake(), 1_000)
    assert intake.bodies == [line.encode() for line in lines]
    assert len(set(intake.ids)) == 1_000


@pytest.mark.parametrize("is_all", [False, True])
def test_lines_are_the_same_wherever_reading_begins(is_all):
    data = b"one\n\ntwo\r\n" + b"x" * 25 + b"\nend"
    whole = list(split_lines(data, 0, 10, is_all=is_all))
    for line in whole:
        again = list(split_lines(data[line.offset :], line.offset, 10, is_all=is_all))
        assert [(each.body, each.offset) for each in again] == [
            (each.body, each.offset) for each in whole if each.offset >= line.offset
        ]
    assert b"".join(line.body for line in whole) == b"onetwo" + b"x" * 25 + (b"end" if is_all else b"")


# --- what is not taken


async def test_an_event_that_cannot_be_taken_now_is_offered_again_and_nothing_overtakes_it(bench, log):
    write(log, "one", "two")
    intake = ScriptedIntake([EngineUnavailable("down")] * 20)
    await taken(bench, following(log, max_replays=0), intake, 2)
    assert intake.bodies == [b"one", b"two"]
    assert [each.body for each in intake.offered] == [b"one"] * 21 + [b"two"]
    assert len(set(intake.ids)) == 2


async def test_a_nacked_event_is_replayed_and_then_given_up(bench, log):
    write(log, "one", "two")
    intake = ScriptedIntake([nack("no")] * 3)
    await taken(bench, following(log, delivery="linked", max_replays=2), intake, 1)
    assert [each.body for each in intake.offered] == [b"one"] * 3 + [b"two"]
    (given_up,) = bench.events
    assert given_up == EventGivenUp("default", "the part", intake.offered[0].id, "billing: no")


async def test_an_event_that_cannot_be_taken_at_all_is_given_up(bench, log):
    write(log, "one", "two")
    intake = await taken(bench, following(log), ScriptedIntake([MessageTooLarge("events", 3, 2)]), 1)
    assert intake.bodies == [b"two"]
    assert [type(each) for each in bench.events] == [EventGivenUp]


async def test_several_lines_can_be_on_their_way(bench, log):
    write(log, *map(str, range(10)))
    intake = ScriptedIntake()
    intake.gate.clear()
    task = bench.start(following(log, concurrency=4), intake)
    await bench.until(lambda: len(intake.offered) == 4)
    await bench.settle_down()
    assert len(intake.offered) == 4
    intake.gate.set()
    await bench.until(lambda: len(intake.taken) == 10, step=0.5)
    await bench.stop(task)


async def test_when_it_ends_it_finishes_the_line_that_it_has_begun(bench, log):
    write(log, "one", "two")
    intake = ScriptedIntake()
    intake.gate.clear()
    task = bench.start(following(log), intake)
    await bench.until(lambda: intake.offered)
    task.cancel()
    await bench.settle_down()
    assert not task.done()
    intake.gate.set()
    await bench.ended(task)
    assert task.cancelled()
    assert intake.bodies == [b"one"]
    assert (await taken(bench, following(log), ScriptedIntake(), 1)).bodies == [b"two"]


async def test_when_it_ends_while_nothing_is_taken_nothing_is_lost(bench, log):
    write(log, "one")
    intake = ScriptedIntake([EngineUnavailable("down")] * 100)
    task = bench.start(following(log), intake)
    await bench.until(lambda: intake.offered)
    await bench.stop(task)
    assert task.cancelled()
    assert (await taken(bench, following(log), ScriptedIntake(), 1)).bodies == [b"one"]


# --- crashes


async def test_lines_whose_position_was_not_stored_come_again_with_the_same_ids(bench, log, monkeypatch):
    write(log, *map(str, range(250)))
    first = ScriptedIntake()
    stored = []

    def store(path, position, really=tail_reader.store_position):
        if position.offset > 300:
            raise RuntimeError("killed")
        really(path, position)
        stored.append(position)

    with monkeypatch.context() as patch:
        patch.setattr(tail_reader, "store_position", store)
        task = bench.start(following(log), first)
        with pytest.raises(RuntimeError, match="killed"):
            await task
    bench.running.clear()
    second = await taken(bench, following(log), ScriptedIntake(), 150)
    assert len(first.taken) == 200
    assert second.ids[:100] == first.ids[100:]
    assert sorted({*first.bodies, *second.bodies}, key=int) == [str(n).encode() for n in range(250)]


async def test_no_more_is_read_while_the_position_cannot_be_stored(bench, log, monkeypatch):
    write(log, *map(str, range(250)))
    failures = [OSError(28, "no space left")] * 5
    really = tail_reader.store_position

    def store(path, position):
        if position.offset and failures:
            raise failures.pop()
        really(path, position)

    monkeypatch.setattr(tail_reader, "store_position", store)
    intake = ScriptedIntake()
    task = bench.start(following(log), intake)
    await bench.until(lambda: bench.events)
    await bench.settle_down()
    assert len(intake.taken) == 100
    await bench.until(lambda: len(intake.taken) == 250, step=0.5)
    await bench.stop(task)
    assert len(bench.events) == 5
    assert "no space left" in str(bench.events[0])


def test_a_process_that_is_killed_repeats_a_window_at_most(log, tmp_path):
    write(log, *map(str, range(500)))
    seen = tmp_path / "seen"
    child = [sys.executable, str(Path(__file__).with_name("killed_tail.py")), str(log), str(seen)]
    ended = [subprocess.run(child, cwd=ROOT, timeout=PATIENCE_S, check=False).returncode]
    while ended[-1] == 9 and len(ended) < 20:
        ended.append(subprocess.run(child, cwd=ROOT, timeout=PATIENCE_S, check=False).returncode)
    assert ended[-1] == 0
    assert len(ended) > 2
    pairs = [line.split() for line in seen.read_text().splitlines()]
    ids = dict(pairs)
    assert sorted(map(int, ids.values())) == list(range(500))
    assert len(pairs) - len(ids) <= 100 * (len(ended) - 1)


async def test_a_position_file_with_something_else_in_it_is_an_error_that_says_what_to_do(bench, log):
    write(log, "one")
    receiver = following(log)
    receiver.position_path.write_text("{")
    with pytest.raises(UsageError, match="delete it to begin anew"):
        await asyncio.wait_for(receiver.open(bench.environment).run(ScriptedIntake()), PATIENCE_S)


async def test_a_file_that_cannot_be_read_is_an_error(bench, log):
    log.mkdir()
    with pytest.raises(OSError, match="directory"):
        await asyncio.wait_for(following(log).open(bench.environment).run(ScriptedIntake()), PATIENCE_S)


def test_what_it_is():
    receiver = FileTailReceiver(path="/var/log/app.log")
    assert (receiver.address, receiver.start) == ("/var/log/app.log", "end")
    assert str(receiver.position_path) == "/var/log/app.log.redrive-position"
    assert receiver.can_hold
    table = {"kind": "tail", "path": "x", "interval": "500ms", "start": "beginning"}
    assert FileTailReceiver.from_table(table).interval == 0.5


@pytest.mark.parametrize("settings", [{"path": ""}, {"start": "middle"}, {"interval": 0}, {"max_line": 10}])
def test_wrong_settings_are_refused(settings):
    with pytest.raises(InvalidSetting):
        FileTailReceiver(**{"path": "x", **settings})
