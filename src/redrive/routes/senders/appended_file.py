# SPDX-License-Identifier: MIT
"""A file that several processes append whole lines to. It blocks: use it in one thread."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: then only a full disk can leave a part of a line
    fcntl = None  # type: ignore[assignment]

_END = b"\n"


class AppendedFile:
    """A file that is opened when it is needed, and again when it was renamed or removed meanwhile.

    Each line is one write to the end of the file, so the lines of several processes do not mix. Of a line for which the
    disk has no room, nothing stays.

    Args:
        path: where it is; missing folders are made.
        is_synced: whether a line is on the disk before ``append`` returns.
    """

    def __init__(self, path: Path, *, is_synced: bool) -> None:
        self._path = path
        self._is_synced = is_synced
        self._fd: int | None = None

    def append(self, line: bytes) -> None:
        """Append a line.

        Raises:
            OSError: it cannot be written. The file is as it was.
        """
        fd = self._opened()
        with _locked(fd):
            size = os.fstat(fd).st_size
            if os.write(fd, line) != len(line):
                os.ftruncate(fd, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        if self._is_synced:
            os.fsync(fd)

    def close(self) -> None:
        """Close it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> int:
        if self._fd is not None and self._is_at_path(self._fd):
            return self._fd
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        self._end_last_line(fd)
        return fd

    def _is_at_path(self, fd: int) -> bool:
        try:
            there, here = self._path.stat(), os.fstat(fd)
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def _end_last_line(self, fd: int) -> None:
        """End a line of which a crash of the machine has left a part, so that the next one is readable."""
        with _locked(fd):
            size = os.lseek(fd, 0, os.SEEK_END)
            if size and os.lseek(fd, size - 1, os.SEEK_SET) >= 0 and os.read(fd, 1) != _END:
                os.write(fd, _END)


@contextmanager
def _locked(fd: int) -> Generator[None]:
    """Keep other senders from writing, so that what this one has written in part can be removed."""
    if fcntl is None:
        yield
        return
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)
