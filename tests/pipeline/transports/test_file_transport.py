# SPDX-License-Identifier: MIT
"""The file transport: whole files, once, whatever happens while they are written."""

import errno
import os

import pytest

from redrive.pipeline.shipment import DestinationAway, OutcomeUnknown, ShipmentDelayed, ShipmentRefused, ShipmentSent
from redrive.pipeline.transports import file as module
from redrive.pipeline.transports.file import FileTransport
from tests.pipeline.transports.shipments import BODY, check_truth, environment, shipment

NAME = "reports-lab-t-1-1"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out" / "lab"


@pytest.fixture
def transport(folder):
    return FileTransport(str(folder)).open(environment())


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


async def test_a_shipment_is_a_whole_file(transport, folder):
    assert await transport.send(shipment()) == ShipmentSent(str(folder / NAME))
    assert files(folder) == {NAME: BODY}
    await transport.close()


async def test_a_repetition_is_there_once(transport, folder):
    for attempt in (1, 1, 2):
        assert isinstance(await transport.send(shipment(attempt=attempt)), ShipmentSent)
    assert files(folder) == {NAME: BODY}


@pytest.mark.parametrize("body", [b"", b"x", b"other" * 1_000, BODY[:-1] + b"?"])
async def test_another_file_of_that_name_is_never_replaced(transport, folder, body):
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(body)
    outcome = await transport.send(shipment())
    assert isinstance(outcome, ShipmentRefused)
    assert "other content" in outcome.reason
    assert files(folder) == {NAME: body}


async def test_a_folder_of_that_name_is_no_file(transport, folder):
    (folder / NAME).mkdir(parents=True)
    assert isinstance(await transport.send(shipment()), ShipmentRefused)


@pytest.mark.parametrize("size", [0, 1, 1_048_576, 1_048_577, 3_000_000])
async def test_any_size(transport, folder, size):
    big = shipment(body=os.urandom(size))
    assert isinstance(await transport.send(big), ShipmentSent)
    assert isinstance(await transport.send(big), ShipmentSent)
    assert isinstance(await transport.probe(big), ShipmentSent)
    assert files(folder) == {NAME: big.body}


async def test_a_look_says_what_is_there(transport, folder):
    assert isinstance(await transport.probe(shipment()), OutcomeUnknown)  # no folder: a disk that is not mounted
    folder.mkdir(parents=True)
    assert isinstance(await transport.probe(shipment()), ShipmentDelayed)
    await transport.send(shipment())
    assert await transport.probe(shipment()) == ShipmentSent(str(folder / NAME))
    assert isinstance(await transport.probe(shipment(body=b"else")), ShipmentDelayed)


# --- faults at every step


STEPS = ["mkdir", "look", "open", "write", "sync", "link", "linked", "sync_folder"]


class Fault:
    """Fails at one of the steps of writing a file, once."""

    def __init__(self, monkeypatch, step, number=errno.EIO):
        self.step, self.number = step, number
        self.is_on = True
        real = {name: getattr(os, name) for name in ("open", "fsync", "link")}
        monkeypatch.setattr(module, "look", self._before("look", module.look))
        monkeypatch.setattr(module.Path, "mkdir", self._before("mkdir", module.Path.mkdir))
        monkeypatch.setattr(module.os, "open", self._before("open", real["open"]))
        monkeypatch.setattr(module.os, "fsync", self._fsync(real["fsync"]))
        monkeypatch.setattr(module.os, "link", self._link(real["link"]))
        monkeypatch.setattr(module.os, "fdopen", self._fdopen(os.fdopen))

    def _fail(self, step):
        if self.is_on and step == self.step:
            self.is_on = False
            raise OSError(self.number, os.strerror(self.number))

    def _before(self, step, function):
        def call(*args, **kwargs):
            self._fail(step)
            return function(*args, **kwargs)

        return call

    def _link(self, function):
        def call(*args):
            self._fail("link")
            function(*args)
            self._fail("linked")

        return call

    def _fsync(self, function):
        calls = []

        def call(descriptor):
            calls.append(descriptor)
            self._fail("sync" if len(calls) == 1 else "sync_folder")
            function(descriptor)

        return call

    def _fdopen(self, function):
        def call(*args, **kwargs):
            file = function(*args, **kwargs)
            if self.is_on and self.step == "write":
                file.write(BODY[:100])
                file.close()
                self._fail("write")
            return file

        return call


@pytest.mark.parametrize("step", STEPS)
async def test_whatever_fails_the_outcome_is_true_and_the_next_attempt_leaves_one_file(
    transport, folder, monkeypatch, step
):
    fault = Fault(monkeypatch, step)
    outcome = await transport.send(shipment())
    assert not fault.is_on
    check_truth(outcome, has_arrived=NAME in files(folder))
    assert isinstance(outcome, OutcomeUnknown if step in ("link", "linked", "sync_folder") else DestinationAway)
    if isinstance(outcome, OutcomeUnknown):
        seen = await transport.probe(shipment())
        assert isinstance(seen, ShipmentSent if NAME in files(folder) else ShipmentDelayed)
    assert isinstance(await transport.send(shipment(attempt=2)), ShipmentSent)
    assert files(folder) == {NAME: BODY}


async def test_what_a_process_has_left_is_completed_or_removed(transport, folder):
    folder.mkdir(parents=True)
    (folder / f".{NAME}.1.part").write_bytes(BODY[:10])
    (folder / f".{NAME}.2.part").write_bytes(BODY[:10])
    assert isinstance(await transport.send(shipment(attempt=2)), ShipmentSent)
    assert files(folder) == {NAME: BODY}


async def test_a_process_that_comes_late_changes_nothing(transport, folder, monkeypatch):
    real = os.link

    def overtaken(part, target):
        monkeypatch.setattr(module.os, "link", real)
        module.Path(part).rename(target)  # another process of the same attempt, a moment before
        real(part, target)

    monkeypatch.setattr(module.os, "link", overtaken)
    assert isinstance(await transport.send(shipment()), ShipmentSent)
    assert files(folder) == {NAME: BODY}


async def test_two_shipments_that_get_one_name_at_one_time_are_noticed(transport, folder, monkeypatch):
    real = os.link

    def overtaken(part, target):
        module.Path(target).write_bytes(b"another")
        real(part, target)

    monkeypatch.setattr(module.os, "link", overtaken)
    assert isinstance(await transport.send(shipment()), ShipmentRefused)
    assert files(folder) == {NAME: b"another"}


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
async def test_a_file_system_without_links(transport, folder, monkeypatch, number):
    Fault(monkeypatch, "link", number)
    assert isinstance(await transport.send(shipment()), ShipmentSent)
    assert files(folder) == {NAME: BODY}


async def test_a_name_that_no_file_can_have_is_refused(transport, monkeypatch):
    Fault(monkeypatch, "open", errno.ENAMETOOLONG)
    assert isinstance(await transport.send(shipment()), ShipmentRefused)


async def test_a_link_in_place_of_the_file_leads_nowhere(transport, folder, tmp_path):
    folder.mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_bytes(b"keep")
    (folder / f".{NAME}.1.part").symlink_to(secret)
    assert isinstance(await transport.send(shipment()), DestinationAway)
    assert secret.read_bytes() == b"keep"


async def test_a_template_that_needs_a_slot_refuses_what_has_none(folder):
    transport = FileTransport(str(folder), name="{slot:%Y%m%d%H%M}.csv").open(environment())
    outcome = await transport.send(shipment())
    assert isinstance(outcome, ShipmentRefused)
    assert "was not batched" in outcome.reason
    assert isinstance(await transport.probe(shipment()), OutcomeUnknown)
    sent = await transport.send(shipment(slot_at=1_767_484_800.0))
    assert sent == ShipmentSent(str(folder / "202601040000.csv"))


def test_where_files_are_taken_away_nothing_is_promised():
    assert FileTransport("a").deduplicates
    assert FileTransport("a").can_probe
    assert not FileTransport("a", is_kept=False).deduplicates
    assert not FileTransport("a", is_kept=False).can_probe
    assert FileTransport("a").address == "file a"
