# SPDX-License-Identifier: MIT
"""Follows a path through rotation: the file that is there, the one that was renamed, the one that was emptied.

It blocks: use it in a thread, from one at a time.
"""

import os
from collections.abc import Callable
from pathlib import Path

from redrive.routes.receivers.followed_file import FileLine, FollowedFile
from redrive.routes.receivers.tail_position import TailPosition, load_position, store_position

WINDOW = 100
"""How many lines are acknowledged at most before the position is stored: so many are repeated after a crash."""


class TailReader:
    """Reads the lines of a path in order.

    A file that was renamed is read to its end before the one that took its place. The change comes when the old file
    has not grown from one look to the next, since programs write to it until they open the new one.

    Args:
        path: the path.
        position_file: the file that remembers how far it was read.
        from_beginning: whether a file that is there at the very first start is read from its beginning.
        max_line: how many bytes of a line make an event at most.
        on_problem: is called with what is wrong when lines may have been lost.
    """

    def __init__(
        self,
        path: Path,
        position_file: Path,
        *,
        from_beginning: bool,
        max_line: int,
        on_problem: Callable[[str], object],
    ) -> None:
        self._path = path
        self._position_file = position_file
        self._from_beginning = from_beginning
        self._max_line = max_line
        self._on_problem = on_problem
        self._file: FollowedFile | None = None
        self._generation = 0
        self._head = ""
        self._was_quiet = False

    def read(self) -> list[FileLine]:
        """Return the next lines: those after the last one that was acknowledged.

        Raises:
            OSError: the file cannot be read, or the position not be stored.
            UsageError: the file for the position has something else in it.
        """
        if self._file is None:
            self._file = self._find()
        if self._file is None:
            return []
        lines = self._file.lines(WINDOW, self._max_line)
        if lines is None:  # it was emptied, and perhaps filled again
            self._switch_to(FollowedFile.at_beginning(self._path), self._generation + 1)
            return self.read()
        is_over = not lines and self._is_rotated()
        if is_over and self._was_quiet:
            return self._finish(self._file)
        self._was_quiet = is_over
        self._head = self._file.head() if lines else ""
        return lines

    def id_of(self, line: FileLine) -> str:
        """Return the id of a line that was read last: the same whenever it is read."""
        inode = 0 if self._file is None else self._file.inode
        return f"tail:{inode}:{self._head}:{self._generation}:{line.offset}"

    def acknowledge(self, line: FileLine) -> None:
        """Read on after a line."""
        if self._file is not None:
            self._file.go_on_after(line)

    def store(self) -> None:
        """Remember what was acknowledged."""
        if self._file is not None:
            store_position(self._position_file, self._file.position(self._generation))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- which file

    def _find(self) -> FollowedFile | None:
        """Return the file to go on with; None if there is none yet."""
        stored = load_position(self._position_file)
        if stored is None:
            return self._begin()
        self._generation = stored.generation
        if (found := self._resume(stored)) is not None:
            return found
        if not self._path.exists():
            return None
        if stored.inode:
            self._on_problem(
                f"the file that was read last is not beside {self._path} any more, or was overwritten; if it had lines "
                "that were not read, they are lost; it reads the file that is there from its beginning"
            )
        return self._switch_to(FollowedFile.at_beginning(self._path), stored.generation + 1)

    def _begin(self) -> FollowedFile | None:
        if not self._path.exists():
            store_position(self._position_file, TailPosition())  # so that it is read from its beginning, when it comes
            return None
        if self._from_beginning:
            return self._switch_to(FollowedFile.at_beginning(self._path), 1)
        return self._switch_to(FollowedFile.at_end(self._path, self._max_line), 1)

    def _resume(self, stored: TailPosition) -> FollowedFile | None:
        """Return the file that a position is about, if it is at the path or was renamed beside it."""
        if not stored.inode:
            return None
        paths = [self._path] if self._path.exists() else []
        for folder in {self._path.parent, self._path.resolve().parent}:  # the path may be a link
            paths += [Path(each.path) for each in os.scandir(folder) if each.inode() == stored.inode and each.is_file()]
        for path in paths:
            if (found := FollowedFile.resumed(path, stored)) is not None:
                return found
        return None

    def _is_rotated(self) -> bool:
        """Say whether another file has the path by now."""
        try:
            facts = self._path.stat()
        except FileNotFoundError:
            return False
        return self._file is not None and (facts.st_dev, facts.st_ino) != (self._file.device, self._file.inode)

    def _finish(self, old: FollowedFile) -> list[FileLine]:
        """Return what is left in a file that was renamed, and then the lines of its successor."""
        if last := old.lines(WINDOW, self._max_line, is_all=True):
            self._head = old.head(is_all=True)
            return last
        self._switch_to(FollowedFile.at_beginning(self._path), self._generation + 1)
        return self.read()

    def _switch_to(self, file: FollowedFile, generation: int) -> FollowedFile:
        """Read another file from now on. That is stored first: ids of its lines must not change with the next start."""
        try:
            store_position(self._position_file, file.position(generation))
        except OSError:
            file.close()
            raise
        self.close()
        self._file, self._generation, self._was_quiet = file, generation, False
        return file
