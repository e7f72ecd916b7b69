# SPDX-License-Identifier: MIT
"""Checks that the file that was opened is still the one that another process would open.

SQLite goes on with a file that was deleted or replaced: what it commits is on the disk until the process ends, and in
no file that another process can open. Only a check of the path shows it, and takes a microsecond or two.
"""

import os
from typing import TypeAlias

from redrive.errors import StorageReplaced

_Identity: TypeAlias = tuple[int, int]


class DatabaseFile:
    """Where a database is: its file, and the log beside it.

    Args:
        path: the file, which is there.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)  # noqa: PTH100 - the program may change its folder; links stay what they are
        self._log_path = f"{self._path}-wal"
        self._file = _identity(self._path)
        self._log = _identity(self._log_path)

    def check(self) -> None:
        """See that the file is the one that was opened."""
        self._compare(self._path, self._file)

    def check_all(self) -> None:
        """See that the file and its log are those that were opened."""
        self.check()
        if self._log is None:
            self._log = _identity(self._log_path)
        else:
            self._compare(self._log_path, self._log)

    def _compare(self, path: str, opened: _Identity | None) -> None:
        try:
            found = _identity(path)
        except OSError:  # the path may no longer be read, which does not mean that the file was replaced
            return
        if found != opened:
            raise StorageReplaced(path, "was replaced" if found else "was deleted")


def _identity(path: str) -> _Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path takes three times as long, and this is done with every commit
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
