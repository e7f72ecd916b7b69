# SPDX-License-Identifier: MIT
"""The SFTP transport, with a real server that fails at every step."""

import asyncio
import os
import socket

import pytest

from redrive.errors import InvalidSetting
from redrive.pipeline.shipment import DestinationAway, OutcomeUnknown, ShipmentDelayed, ShipmentRefused, ShipmentSent
from redrive.pipeline.transports.sftp import SftpTransport
from redrive.testing import ManualClock
from tests.pipeline.transports.listener import Listener
from tests.pipeline.transports.sftp_server import FAULTS, HOST_KEY, OTHER_KEY, PASSWORD, USER_KEY, FaultyServer
from tests.pipeline.transports.shipments import BODY, check_truth, environment, is_certain, shipment

NAME = "reports-lab-t-1-1"
PATH = f"./{NAME}"
STEPS = ["stat", "open", "write", "fsync", "fstat", "close", "rename", "remove"]


@pytest.fixture
async def server(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    server = FaultyServer(folder)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def opened(server, monkeypatch, clock):
    """Return a transport to the server at work."""
    monkeypatch.setenv("LAB_PASSWORD", PASSWORD)
    open_ones = []

    def make(**settings):
        transport = SftpTransport(**usual(server) | settings).open(environment(clock))
        open_ones.append(transport)
        return transport

    yield make
    for each in open_ones:
        await each.close()


def public(key):
    return key.export_public_key().decode().strip()


def usual(server):
    login = {"username": "lab", "password": "env:LAB_PASSWORD", "host_key": public(HOST_KEY)}
    return {"host": "127.0.0.1", "port": server.port, **login}


async def sent(transport, server, clock, it):
    """Send a shipment; when the server does not answer, let the time pass."""
    sending = asyncio.ensure_future(transport.send(it))
    failed = asyncio.ensure_future(server.has_failed.wait())
    await asyncio.wait({sending, failed}, return_when=asyncio.FIRST_COMPLETED)
    if "hang" in (server.fault or "") and not sending.done():
        clock.advance(60)
    failed.cancel()
    return await sending


async def test_a_shipment_is_a_whole_file(opened, server):
    transport = opened()
    assert await transport.send(shipment()) == ShipmentSent(PATH)
    assert server.files == {NAME: BODY}
    assert "fsync" in server.commands
    assert server.commands.index("fsync") < server.commands.index("rename")
    assert await transport.probe(shipment()) == ShipmentSent(PATH)


async def test_a_repetition_is_there_once(opened, server):
    transport = opened()
    for attempt in (1, 1, 2):
        assert await transport.send(shipment(attempt=attempt)) == ShipmentSent(PATH)
    assert server.files == {NAME: BODY}
    assert server.commands.count("rename") == 1


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_fails_the_outcome_is_true_and_the_next_attempt_leaves_one_file(
    opened, server, clock, step, fault
):
    transport = opened()
    server.fail(step, fault)
    outcome = await sent(transport, server, clock, shipment())
    assert server.step is None, "it has not come to that"
    check_truth(outcome, has_arrived=NAME in server.files)
    if step not in ("rename", "remove"):
        assert is_certain(outcome) or (step, fault) == ("stat", "forbid")
    if step == "remove":  # what happens after the answer does not count
        assert outcome == ShipmentSent(PATH)
    if step == "rename" and fault in ("drop_before", "drop_after", "hang_before", "hang_after"):
        assert isinstance(outcome, OutcomeUnknown)
    if isinstance(outcome, OutcomeUnknown):
        seen = await transport.probe(shipment())
        assert isinstance(seen, ShipmentSent if NAME in server.files else ShipmentDelayed)
    assert await transport.send(shipment(attempt=2)) == ShipmentSent(PATH)
    assert server.files == {NAME: BODY}
    assert await transport.probe(shipment()) == ShipmentSent(PATH)


@pytest.mark.parametrize("attempt", [1, 2])
async def test_half_a_file_is_completed_by_the_next_attempt(opened, server, attempt):
    transport = opened()
    server.fail("write", "half")
    assert isinstance(await transport.send(shipment()), DestinationAway)
    assert server.files == {f".{NAME}.1.part": BODY[: len(BODY) // 2]}
    assert await transport.send(shipment(attempt=attempt)) == ShipmentSent(PATH)
    assert server.files == {NAME: BODY}


async def test_a_file_that_is_too_long_is_not_renamed(opened, server):
    (server.folder / f".{NAME}.1.part").write_bytes(BODY + b"more")
    outcome = await opened().send(shipment())
    assert isinstance(outcome, ShipmentDelayed)
    assert "bytes" in outcome.reason
    assert server.files == {}


@pytest.mark.parametrize("body", [b"", b"other", BODY[:-1] + b"?"])
async def test_another_file_of_that_name_is_never_replaced(opened, server, body):
    (server.folder / NAME).write_bytes(body)
    transport = opened()
    assert isinstance(await transport.send(shipment()), ShipmentRefused)
    assert isinstance(await transport.probe(shipment()), ShipmentDelayed)
    assert server.files == {NAME: body}


async def test_a_box_that_one_cannot_look_into(opened, server):
    transport = opened()
    server.fail("stat", "forbid")
    assert await transport.send(shipment()) == ShipmentSent(PATH)
    server.fail("stat", "forbid")
    assert isinstance(await transport.probe(shipment()), OutcomeUnknown)
    server.fail("stat", "forbid")
    assert await transport.send(shipment(attempt=2)) == ShipmentSent(PATH)  # the server refuses to rename, a look tells
    assert server.files == {NAME: BODY}


async def test_a_server_that_can_only_rename_as_posix_does(opened, server):
    server.fail("rename", "unsupported")
    assert await opened().send(shipment()) == ShipmentSent(PATH)
    assert "posix_rename" in server.commands
    assert server.files == {NAME: BODY}


async def test_a_server_without_fsync(opened, server):
    server.fail("fsync", "unsupported")
    assert await opened().send(shipment()) == ShipmentSent(PATH)


@pytest.mark.parametrize("size", [0, 1, 100_000, 1_048_577])
async def test_any_size(opened, server, size):
    transport = opened()
    big = shipment(body=os.urandom(size))
    assert await transport.send(big) == ShipmentSent(PATH)
    assert await transport.send(big) == ShipmentSent(PATH)
    assert server.files == {NAME: big.body}


async def test_a_folder_that_is_missing_is_no_fault_for_ever(opened, server):
    outcome = await opened(folder="/nowhere").send(shipment())
    assert isinstance(outcome, ShipmentDelayed)
    (server.folder / "nowhere").mkdir()
    assert await opened(folder="/nowhere/").send(shipment()) == ShipmentSent(f"/nowhere/{NAME}")


# --- the connection


async def test_a_connection_is_kept_and_replaced_when_it_has_died(opened, server):
    transport = opened()
    await transport.send(shipment())
    await transport.send(shipment(index=2))
    assert len(server.connections) == 1
    server.drop()
    assert isinstance(await transport.send(shipment(index=3)), ShipmentSent)
    assert sorted(server.files) == [f"reports-lab-t-1-{index}" for index in (1, 2, 3)]


async def test_many_at_a_time(opened, server):
    transport = opened()
    outcomes = await asyncio.gather(*(transport.send(shipment(index=index)) for index in range(1, 21)))
    assert all(isinstance(each, ShipmentSent) for each in outcomes)
    assert len(server.files) == 20


async def test_a_server_that_is_not_there_is_away(opened):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listened at
        transport = opened(port=taken.getsockname()[1])
        assert isinstance(await transport.send(shipment()), DestinationAway)
        assert isinstance(await transport.probe(shipment()), OutcomeUnknown)


async def test_a_connection_that_is_dropped_at_once_is_away(opened, server):
    server.fail("connect", "drop_before")
    assert isinstance(await opened().send(shipment()), DestinationAway)
    assert server.files == {}


async def test_a_server_that_says_nothing_is_away(opened, clock):
    begun = asyncio.Event()

    async def silent(reader, _):
        begun.set()
        await reader.read()

    async with Listener(silent) as listener:
        sending = asyncio.ensure_future(opened(port=listener.port).send(shipment()))
        await begun.wait()
        clock.advance(60)
        assert isinstance(await sending, DestinationAway)


async def test_a_server_with_another_key_gets_nothing(opened, server):
    outcome = await opened(host_key=public(OTHER_KEY)).send(shipment())
    assert isinstance(outcome, DestinationAway)
    assert "host key" in outcome.reason.lower()
    assert server.commands == []


async def test_known_hosts_are_those_of_openssh(opened, server, tmp_path):
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{server.port} {public(HOST_KEY)}\n")
    assert await opened(host_key=None, known_hosts=str(known)).send(shipment()) == ShipmentSent(PATH)
    known.write_text(f"[127.0.0.1]:{server.port} {public(OTHER_KEY)}\n")
    assert isinstance(await opened(host_key=None, known_hosts=str(known)).send(shipment(index=2)), DestinationAway)
    known.write_text("")
    assert isinstance(await opened(host_key=None, known_hosts=str(known)).send(shipment(index=3)), DestinationAway)
    assert list(server.files) == [NAME]


async def test_a_wrong_password_is_away(opened, server, monkeypatch):
    monkeypatch.setenv("LAB_PASSWORD", "wrong")
    outcome = await opened().send(shipment())
    assert isinstance(outcome, DestinationAway)
    assert "wrong" not in outcome.reason
    assert server.commands == []


async def test_keys_come_from_the_environment_or_a_file(opened, server, monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_KEY", USER_KEY.export_private_key("openssh").decode())
    monkeypatch.setenv("LAB_PHRASE", "phrase")
    file = tmp_path / "key"
    file.write_bytes(USER_KEY.export_private_key("openssh", "phrase", rounds=1, ignore_few_rounds=True))
    first = opened(password=None, private_key="env:LAB_KEY")
    assert await first.send(shipment()) == ShipmentSent(PATH)
    second = opened(password=None, key_file=str(file), passphrase="env:LAB_PHRASE")  # noqa: S106 - its name
    assert isinstance(await second.send(shipment(index=2)), ShipmentSent)
    assert len(server.files) == 2


async def test_a_send_that_is_cancelled_is_cancelled(opened, server):
    transport = opened()
    server.fail("write", "hang_before")
    sending = asyncio.ensure_future(transport.send(shipment()))
    await server.has_failed.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert await transport.send(shipment(attempt=2)) == ShipmentSent(PATH)
    assert server.files == {NAME: BODY}


async def test_a_transport_that_was_not_used_is_closed(opened):
    await opened().close()


# --- settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"host_key": None}, {"known_hosts": "a"}, {"password": None}, {"password": "geheim"}, {"port": 0},
        {"private_key": "-----BEGIN"}, {"key_file": "a", "private_key": "env:A"}, {"name": "../{task}"}, {"name": "x"},
        {"host": ""},
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused(server, wrong):
    with pytest.raises(InvalidSetting) as caught:
        SftpTransport(**usual(server) | wrong)
    assert "geheim" not in str(caught.value)
    assert "BEGIN" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"host_key": "ssh-ed25519 nonsense"}, {"host_key": None, "known_hosts": "/not/there"},
        {"password": "env:NOT_THERE"}, {"key_file": "/not/there"}, {"private_key": "env:NO_KEY"},
    ],
)  # fmt: skip
def test_what_is_missing_here_is_said_before_anything_is_sent(opened, monkeypatch, wrong):
    monkeypatch.setenv("NO_KEY", "geheim")
    with pytest.raises(InvalidSetting) as caught:
        opened(**wrong)
    assert "geheim" not in str(caught.value)


def test_what_it_is_called_and_what_it_can(server):
    transport = SftpTransport(**usual(server))
    assert transport.address == f"sftp://127.0.0.1:{server.port}"
    assert transport.deduplicates
    assert transport.can_probe
    assert SftpTransport.from_table(transport.to_table()) == transport
