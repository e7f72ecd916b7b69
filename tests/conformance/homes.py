# SPDX-License-Identifier: MIT
"""Where an engine lives: how it is opened there, how it crashes, and how everything is taken away in the end."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from redrive.engines.postgres import PostgresEngine
from redrive.engines.sqlite import SqliteEngine
from tests.postgres.server import run_sql, terminate_backends

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - where there is one, a disk costs no time


class SqliteHome:
    """A folder. After a crash the files go on as they are on the disk, as if the process had been killed."""

    def __init__(self):
        self._folder = TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
        self._file = Path(self._folder.name) / "0.db"

    def engine(self, clock):
        """Return an engine that is not open yet."""
        return SqliteEngine(self._file, synchronous="normal", clock=clock)

    def crash(self):
        """Let the next engine see what a killed one would leave."""
        after = self._file.with_stem(f"{int(self._file.stem) + 1}")
        for suffix in ("", "-wal"):
            if (left := Path(f"{self._file}{suffix}")).exists():
                shutil.copy(left, f"{after}{suffix}")
        self._file = after

    def remove(self):
        """Take everything away."""
        self._folder.cleanup()


class PostgresHome:
    """A schema. A crash cuts every connection."""

    def __init__(self, url, schema):
        self._url = url
        self._schema = schema

    def engine(self, clock):
        """Return an engine that is not open yet."""
        return PostgresEngine(self._url, schema=self._schema, clock=clock)

    def crash(self):
        """Cut the engine off."""
        terminate_backends(self._url)

    def remove(self):
        """Take everything away."""
        run_sql(self._url, f'DROP SCHEMA "{self._schema}" CASCADE')
