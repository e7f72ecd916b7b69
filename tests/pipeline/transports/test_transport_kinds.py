# SPDX-License-Identifier: MIT
"""The kinds of transports: our own, those of a program, and those that packages add."""

import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

from redrive.errors import InvalidSetting, MissingExtra, UnknownSetting, UsageError
from redrive.parts.kinds import entry_points_of
from redrive.pipeline import transports
from redrive.pipeline.transport import Transport
from redrive.pipeline.transports import add_transport, transport_class, transport_kinds, transport_of
from redrive.pipeline.transports.s3 import S3Transport
from redrive.pipeline.transports.sftp import SftpTransport
from tests.pipeline.transports.shipments import environment

OWN = ("call", "email", "file", "http", "queue", "s3", "sftp", "topic")


@dataclass(frozen=True, slots=True)
class PigeonTransport(Transport):
    kind: ClassVar[str] = "pigeon"


@pytest.fixture
def program(monkeypatch):
    """The program may add kinds, and other tests do not see them."""
    monkeypatch.setattr(transports._kinds, "added", {})


def test_every_kind_of_our_own_is_a_transport_by_that_name():
    assert set(OWN) <= set(transport_kinds())
    for kind in OWN:
        assert issubclass(transport_class(kind), Transport)
        assert transport_class(kind).kind == kind


def test_a_table_is_a_transport():
    made = transport_of({"kind": "file", "folder": "out", "name": "{task}.csv"})
    assert made.to_table() == {"kind": "file", "folder": "out", "name": "{task}.csv"}
    assert transport_of(made.to_table()) == made
    assert transport_of({"kind": "http", "url": "http://a/", "timeout": "30s"}).timeout == 30.0


@pytest.mark.parametrize("table", [None, "file", {}, {"kind": 5}, {"kind": "fille", "folder": "a"}, {"kind": "file"}])
def test_what_is_no_transport_is_refused(table):
    with pytest.raises(InvalidSetting):
        transport_of(table)


def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(UnknownSetting, match="folder"):
        transport_of({"kind": "file", "foldr": "a"})


@pytest.mark.usefixtures("program")
def test_a_program_adds_a_kind_of_its_own():
    assert add_transport(PigeonTransport) is PigeonTransport
    assert transport_of({"kind": "pigeon"}) == PigeonTransport()
    assert "pigeon" in transport_kinds()


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("part", [int, 5, type("Odd", (PigeonTransport,), {"kind": ""}), transport_class("file")])
def test_what_is_no_new_kind_cannot_be_added(part):
    with pytest.raises(UsageError):
        add_transport(part)


def test_a_package_adds_a_kind(tmp_path, monkeypatch):
    text = "from tests.pipeline.transports.test_transport_kinds import PigeonTransport\nno_class = 5\n"
    (tmp_path / "acme_pigeons.py").write_text(text)
    info = tmp_path / "acme_pigeons-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-pigeons\nVersion: 1.0\n")
    points = "[redrive.transports]\npigeon = acme_pigeons:PigeonTransport\nodd = acme_pigeons:no_class\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    entry_points_of.cache_clear()
    try:
        assert transport_class("pigeon").kind == "pigeon"
        with pytest.raises(UsageError, match="must be a class of Transport"):
            transport_class("odd")
    finally:
        entry_points_of.cache_clear()
        sys.modules.pop("acme_pigeons", None)


@pytest.mark.parametrize(
    ("made", "package", "extra"),
    [
        (SftpTransport("a", "b", host_key="k", password="env:P"), "asyncssh", "sftp"),  # noqa: S106 - its name
        (S3Transport("a"), "obstore", "s3"),
    ],
)
def test_without_its_package_the_extra_is_named(monkeypatch, made, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'redrive\[{extra}\]'"):
        made.open(environment())


def test_a_transport_must_say_what_it_does():
    plain = PigeonTransport()
    assert not plain.deduplicates
    assert not plain.can_probe
    with pytest.raises(NotImplementedError):
        plain.address  # noqa: B018 - reading it is what is tested
    with pytest.raises(NotImplementedError):
        plain.open(environment())
