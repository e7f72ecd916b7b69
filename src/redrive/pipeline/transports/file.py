# SPDX-License-Identifier: MIT
"""A transport to a folder: each shipment is a file, which is there whole or not at all."""

import asyncio
import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeAlias

from redrive.errors import InvalidSetting
from redrive.parts import TextSetting, setting
from redrive.pipeline.shipment import (
    DestinationAway,
    OutcomeUnknown,
    ProbeOutcome,
    Shipment,
    ShipmentOutcome,
    ShipmentRefused,
    ShipmentSent,
)
from redrive.pipeline.shipment_names import NameTemplateSetting, name_of, temporary_name, temporary_names
from redrive.pipeline.transport import OpenTransport, TransportEnvironment
from redrive.pipeline.transports.placed import PlacedTransport, absent, displaced, taken

_Look: TypeAlias = Literal["absent", "same", "other"]

_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
_NOT_HERE: Final = (errno.ENAMETOOLONG, errno.EFBIG)
_PIECE: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class FileTransport(PlacedTransport):
    """Writes each shipment to a file of its own, which is whole and on the disk when it gets its name.

    Until then it has another name, which begins with a dot and ends with ``.part``.
    """

    kind: ClassVar[str] = "file"

    folder: str = setting(TextSetting("must be the path of a folder"), "where files are put; it is made if missing")
    name: str = setting(
        NameTemplateSetting(), "what files are called; the slot is in UTC", "{pipeline}-{destination}-{task}-{index}"
    )

    @property
    def address(self) -> str:
        """The folder."""
        return f"file {self.folder}"

    def open(self, environment: TransportEnvironment) -> OpenTransport:
        """Return the transport at work."""
        return _OpenFileTransport(self)


class _OpenFileTransport:
    """A folder that shipments are written to. It works in threads."""

    def __init__(self, settings: FileTransport) -> None:
        self._settings = settings
        self._folder = Path(settings.folder)

    async def send(self, shipment: Shipment) -> ShipmentOutcome:
        return await asyncio.to_thread(self._put, shipment)

    async def probe(self, shipment: Shipment) -> ProbeOutcome:
        return await asyncio.to_thread(self._look_for, shipment)

    async def close(self) -> None:
        return

    def _put(self, shipment: Shipment) -> ShipmentOutcome:
        may_be_there = False
        try:
            name = name_of("name", self._settings.name, shipment)
            target, part = self._folder / name, self._folder / temporary_name(name, shipment.attempt)
            self._folder.mkdir(parents=True, exist_ok=True)
            found = look(target, shipment.body)
            if found == "absent":
                _write(part, shipment.body)
                may_be_there = True
                found = _place(part, target, shipment.body)
                _sync_folder(self._folder)
            self._sweep(name, shipment.attempt)
            return taken(str(target)) if found == "other" else ShipmentSent(str(target))
        except InvalidSetting as error:
            return ShipmentRefused(str(error))
        except OSError as error:
            reason = f"{self._settings.folder} cannot be written: {error}"
            if may_be_there:
                return OutcomeUnknown(reason)
            return ShipmentRefused(reason) if error.errno in _NOT_HERE else DestinationAway(reason)

    def _sweep(self, name: str, attempt: int) -> None:
        """Remove what attempts have left, whose process died."""
        for each in temporary_names(name, attempt):
            with suppress(OSError):
                (self._folder / each).unlink()

    def _look_for(self, shipment: Shipment) -> ProbeOutcome:
        try:
            target = self._folder / name_of("name", self._settings.name, shipment)
            if not self._folder.is_dir():  # a disk that is not mounted may have it
                return OutcomeUnknown(f"{self._settings.folder} is not there")
            found = look(target, shipment.body)
        except (OSError, InvalidSetting) as error:
            return OutcomeUnknown(f"{self._settings.folder} cannot be read: {error}")
        if found == "same":
            return ShipmentSent(str(target))
        return absent(str(target)) if found == "absent" else displaced(str(target))


def look(path: Path, body: bytes) -> _Look:
    """Return whether a file is there, and whether it has these bytes."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != len(body):
                return "other"
            for start in range(0, len(body), _PIECE):
                if file.read(_PIECE) != body[start : start + _PIECE]:
                    return "other"
    except FileNotFoundError:
        return "absent"
    except IsADirectoryError:
        return "other"
    return "same"


def _write(part: Path, body: bytes) -> None:
    """Write bytes to the disk. What an earlier process has left of them is written over, and never shortened."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(part, flags, 0o666), "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _place(part: Path, target: Path, body: bytes) -> _Look:
    """Give a file its name; return what has this name then."""
    try:
        os.link(part, target)
    except FileExistsError:
        return look(target, body)
    except FileNotFoundError:  # another process of the same attempt was faster
        return look(target, body)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        part.replace(target)  # a file system without links, such as FAT
    return "same"


def _sync_folder(folder: Path) -> None:
    """See that the names in a folder are on the disk."""
    if os.name == "nt":
        return  # folders cannot be opened there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
