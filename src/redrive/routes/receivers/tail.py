# SPDX-License-Identifier: MIT
"""A receiver that follows a text file: each line is an event.

How far the file was read is remembered in a small file of its own, after the lines are acknowledged. After a crash at
most 100 lines are offered again, with the same ids.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from redrive.broker import HeaderValue, Message, WholeSetting
from redrive.parts import check_file
from redrive.routes.environment import PartEnvironment
from redrive.routes.parts import ChoiceSetting, DurationSetting, EventReceiver, Intake, TextSetting, setting
from redrive.routes.receivers.acceptance import Acceptance
from redrive.routes.receivers.followed_file import HEAD_BYTES, FileLine
from redrive.routes.receivers.receiver_events import SourceFault
from redrive.routes.receivers.stop_request import StopRequest, run_until_cancelled
from redrive.routes.receivers.tail_reader import TailReader


@dataclass(frozen=True, slots=True)
class FileTailReceiver(EventReceiver):
    """Follows a text file, also when it is renamed or emptied: each line is an event.

    The id of an event names the file, and the place of the line in it. A line that is longer than ``max_line`` becomes
    several events, and all but the last of them have a header ``truncated``.
    """

    kind: ClassVar[str] = "tail"

    path: str = setting(TextSetting("must be the path of a file"), "the file to follow")
    start: Literal["end", "beginning"] = setting(
        ChoiceSetting(("end", "beginning")), "where to begin in a file that is there at the very first start", "end"
    )
    position_file: str | None = setting(
        TextSetting("must be the path of a file"),
        "where to remember how far it was read; None: beside the file, with .redrive-position behind its name",
        None,
    )
    interval: float = setting(DurationSetting(), "how often to look for new lines", 1.0)
    max_line: int = setting(
        WholeSetting(4 * HEAD_BYTES, 104_857_600), "how many bytes of a line make an event at most", 262_144
    )
    concurrency: int = setting(
        WholeSetting(1, 1_000), "how many lines are on their way at a time; more than 1 may change their order", 1
    )

    @property
    def address(self) -> str:
        """The path."""
        return self.path

    @property
    def position_path(self) -> Path:
        """Where it remembers how far the file was read."""
        return Path(self.position_file or f"{self.path}.redrive-position")

    def open(self, environment: PartEnvironment) -> "OpenFileTail":
        """Return the receiver at work."""
        check_file("path", self.path)
        check_file("position_file", self.position_path)
        return OpenFileTail(self, environment)


class OpenFileTail:
    """A receiver that follows a file, at work."""

    def __init__(self, settings: FileTailReceiver, environment: PartEnvironment) -> None:
        self._settings = settings
        self._environment = environment
        self._clock = environment.clock
        self._stored_at = self._clock.monotonic()

    async def run(self, intake: Intake) -> None:
        """Give every line to the intake until cancelled.

        Raises:
            OSError: the file cannot be read.
            UsageError: the file for the position has something else in it.
        """
        stopping = StopRequest(self._clock)
        acceptance = Acceptance(intake, self._environment, stopping, self._settings.max_replays)
        await run_until_cancelled(self._follow(acceptance, stopping), stopping.request)

    async def _follow(self, acceptance: Acceptance, stopping: StopRequest) -> None:
        problems: list[str] = []
        reader = TailReader(
            Path(self._settings.path),
            self._settings.position_path,
            from_beginning=self._settings.start == "beginning",
            max_line=self._settings.max_line,
            on_problem=problems.append,
        )
        try:
            while not stopping.is_requested:
                lines = await asyncio.to_thread(reader.read)
                while problems:
                    self._report(problems.pop(0))
                if lines:
                    await self._pass_on(lines, reader, acceptance, stopping)
                else:
                    await stopping.pause(self._settings.interval)
        finally:
            reader.close()

    async def _pass_on(
        self, lines: Sequence[FileLine], reader: TailReader, acceptance: Acceptance, stopping: StopRequest
    ) -> None:
        """Have lines taken, and remember that; if it is to stop, only of those before the first that was not."""
        together = self._settings.concurrency
        for first in range(0, len(lines), together):
            some = lines[first : first + together]
            became = await asyncio.gather(*(acceptance.accept(self._event(reader, line)) for line in some))
            for line, what in zip(some, became, strict=True):
                if what == "stopped":
                    break
                reader.acknowledge(line)
            if stopping.is_requested:
                break
            if self._clock.monotonic() - self._stored_at >= self._settings.interval:
                await self._store(reader, stopping)
        await self._store(reader, stopping)

    async def _store(self, reader: TailReader, stopping: StopRequest) -> None:
        """Remember what was acknowledged, before more is read: otherwise a crash could repeat any number of lines."""
        while True:
            try:
                await asyncio.to_thread(reader.store)
            except OSError as error:
                self._report(f"the position cannot be stored, so nothing more is read: {error}")
            else:
                self._stored_at = self._clock.monotonic()
                return
            if stopping.is_requested:
                return
            await stopping.pause(self._settings.interval)

    def _event(self, reader: TailReader, line: FileLine) -> Message:
        headers: dict[str, HeaderValue] = {"path": self._settings.path}
        if line.is_truncated:
            headers["truncated"] = True
        return Message(line.body, id=reader.id_of(line), headers=headers)

    def _report(self, problem: str) -> None:
        self._environment.report(SourceFault(self._environment.application, self._environment.name, problem))
