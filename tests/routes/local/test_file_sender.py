# SPDX-License-Identifier: MIT
"""The sender to a file: whole lines, whatever happens to the file meanwhile."""

import asyncio
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import Message
from redrive.errors import InvalidSetting
from redrive.routes.outcomes import Delivered, DestinationDown
from redrive.routes.senders import appended_file
from redrive.routes.senders.file import FileSender
from redrive.routes.senders.json_line import json_line
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]
WRITER = """
import sys
from pathlib import Path
from redrive.routes.senders.appended_file import AppendedFile
from redrive.routes.senders.json_line import json_line
file = AppendedFile(Path(sys.argv[1]), is_synced=False)
for number in range(300):
    file.append(json_line(('"%s-%d-' % (sys.argv[2], number) + 'x' * (number * 41 % 20_000) + '"').encode()))
"""


@pytest.fixture
async def sending(bench, tmp_path):
    """Return a function that opens a sender and closes it at the end."""
    opened = []

    def open_sender(path=tmp_path / "out.jsonl", **settings):
        opened.append(FileSender(str(path), **settings).open(bench.environment))
        return opened[-1]

    yield open_sender
    for each in opened:
        await each.close()


async def test_an_event_is_a_line(sending, tmp_path):
    sender = sending(tmp_path / "new" / "folder" / "out.jsonl", fsync=True)
    for body in (b'{"a": 1}', b"text", b"\xff"):
        assert await sender.send(Message(body), "k") == Delivered()
    lines = (tmp_path / "new" / "folder" / "out.jsonl").read_bytes().split(b"\n")
    assert lines == [b'{"a": 1}', b'"text"', b'{"base64": "/w=="}', b""]


async def test_the_key_can_be_part_of_it(sending, tmp_path):
    await sending(with_key=True).send(Message(b"[1]"), 'e"1:billing')
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"key": 'e"1:billing', "body": [1]}


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b'{"a":\r\n  1.00,\n"b": 12345678901234567890.5}\n', b'{"a":    1.00, "b": 12345678901234567890.5}'),
        (b"NaN", b'"NaN"'),
        (b"two\nlines", b'"two\\nlines"'),
        (b"", b'""'),
        ("\ufeff1".encode(), b'"\\ufeff1"'),
        (b"[" * 100_000, b'"' + b"[" * 100_000 + b'"'),
    ],
)
def test_json_stays_as_it_is_and_anything_else_becomes_json(body, line):
    assert json_line(body) == line + b"\n"


@given(st.binary() | st.text().map(str.encode) | st.text().map(json.dumps).map(str.encode), st.none() | st.text())
def test_whatever_it_is_it_becomes_one_line_of_json(body, key):
    line = json_line(body, key)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    value = json.loads(line)
    assert key is None or value["key"] == key


async def test_a_file_that_was_renamed_or_removed_is_made_again(sending, tmp_path):
    path, sender = tmp_path / "out.jsonl", sending()
    await sender.send(Message(b"1"), "k")
    path.rename(tmp_path / "out.1")
    await sender.send(Message(b"2"), "k")
    path.unlink()
    await sender.send(Message(b"3"), "k")
    assert ((tmp_path / "out.1").read_text(), path.read_text()) == ("1\n", "3\n")


async def test_a_path_that_cannot_be_written_is_down(sending, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "out", tmp_path / "folder"):
        outcome = await sending(path).send(Message(b"1"), "k")
        assert isinstance(outcome, DestinationDown)
        assert str(path) in outcome.reason


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_a_full_disk_is_down(sending, monkeypatch):
    monkeypatch.setattr(appended_file.AppendedFile, "_end_last_line", lambda *_: None)  # the device has no end
    outcome = await sending("/dev/full").send(Message(b"1"), "k")
    assert isinstance(outcome, DestinationDown)
    assert "No space left" in outcome.reason


async def test_of_a_line_that_does_not_fit_nothing_stays(sending, tmp_path, monkeypatch):
    sender, really = sending(), os.write
    await sender.send(Message(b"1"), "k")
    with monkeypatch.context() as patch:
        patch.setattr(appended_file.os, "write", lambda fd, line: really(fd, line[:3]))
        outcome = await sender.send(Message(b'"a long line"'), "k")
    assert isinstance(outcome, DestinationDown)
    assert os.strerror(errno.ENOSPC) in outcome.reason
    assert (tmp_path / "out.jsonl").read_text() == "1\n"
    await sender.send(Message(b"2"), "k")
    assert (tmp_path / "out.jsonl").read_text() == "1\n2\n"


async def test_what_a_power_cut_has_left_of_a_line_does_not_spoil_the_next(sending, tmp_path):
    (tmp_path / "out.jsonl").write_text('1\n{"a": ')
    await sending().send(Message(b"2"), "k")
    assert (tmp_path / "out.jsonl").read_text() == '1\n{"a": \n2\n'


async def test_lines_of_many_senders_do_not_mix(sending, tmp_path):
    senders = [sending() for _ in range(4)]
    bodies = [json.dumps(f"{n}-" + "x" * (n * 97 % 9_000)).encode() for n in range(400)]
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(senders[n % 4].send(Message(body), "k") for n, body in enumerate(bodies)))
    assert sorted((tmp_path / "out.jsonl").read_bytes().splitlines()) == sorted(bodies)


def test_lines_of_many_processes_do_not_mix(tmp_path):
    path = tmp_path / "out.jsonl"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], cwd=ROOT) for name in ("a", "b", "c", "d")
    ]
    assert [writer.wait(PATIENCE_S) for writer in writers] == [0] * 4
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 1_200
    assert {line.rsplit("-", 1)[0] for line in lines} == {f"{name}-{n}" for name in "abcd" for n in range(300)}


def test_what_it_is():
    sender = FileSender("out.jsonl", fsync=True)
    assert (sender.destination, sender.writes) == ("file out.jsonl", None)
    assert FileSender.from_table(sender.to_table()) == sender
    with pytest.raises(InvalidSetting):
        FileSender("")
