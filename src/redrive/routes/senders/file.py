# SPDX-License-Identifier: MIT
"""A sender that appends events to a file, one line of JSON each."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from redrive.broker import FlagSetting, Message
from redrive.parts import check_file
from redrive.routes.environment import PartEnvironment
from redrive.routes.outcomes import Delivered, DestinationDown, SendOutcome
from redrive.routes.parts import EventSender, OpenSender, TextSetting, setting
from redrive.routes.senders.appended_file import AppendedFile
from redrive.routes.senders.json_line import json_line


@dataclass(frozen=True, slots=True)
class FileSender(EventSender):
    """Appends events to a file of JSON lines. The file may be renamed at any time, and several processes may write it.

    A body that is JSON is written as it is, another text as a JSON text, and other bytes as ``{"base64": "…"}``. An
    event that is delivered again is written again: with ``with_key``, readers can tell.
    """

    kind: ClassVar[str] = "file"

    path: str = setting(TextSetting("must be the path of a file"), "the file; missing folders are made")
    fsync: bool = setting(FlagSetting(), "whether an event is on the disk before it counts as delivered", default=False)
    with_key: bool = setting(
        FlagSetting(), 'whether a line is {"key": …, "body": …}, with the key of the delivery', default=False
    )

    @property
    def destination(self) -> str:
        """The file."""
        return f"file {self.path}"

    def open(self, environment: PartEnvironment) -> OpenSender:
        """Return the sender at work."""
        check_file("path", self.path)
        return OpenFileSender(self)


class OpenFileSender:
    """A sender to a file at work. It writes in a thread of its own."""

    def __init__(self, settings: FileSender) -> None:
        self._settings = settings
        self._file = AppendedFile(Path(settings.path), is_synced=settings.fsync)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="redrive-file")

    async def send(self, message: Message, key: str) -> SendOutcome:
        """Append an event."""
        line = json_line(message.body, key if self._settings.with_key else None)
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._file.append, line)
        except OSError as error:
            return DestinationDown(f"{self._settings.path} cannot be written: {error}")
        return Delivered()

    async def close(self) -> None:
        """Close the file, when what was begun is written."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
        self._thread.shutdown(wait=False)
