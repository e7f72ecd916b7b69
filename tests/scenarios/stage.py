# SPDX-License-Identifier: MIT
"""Where the scenarios play: starts real processes, ends them, and reads their diaries and the database afterwards."""

import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ACTORS = Path(__file__).with_name("actors.py")
QUEUE = "torture"


class Line(NamedTuple):
    """A line of a diary."""

    at: float
    word: str
    id: str


class Stage:
    """A database, the processes that use it, and their diaries."""

    def __init__(self, database, diaries, **environment):
        self.database = Path(database)
        self.diaries = Path(diaries)
        self._environment = os.environ | environment
        self._cast = []
        self._started = Counter()

    def start(self, role, place):
        """Start a process; it is the next of those that have had this role and place."""
        part = f"{role}{place}"
        self._started[part] += 1
        name = f"{part}.{self._started[part]}"
        command = [sys.executable, ACTORS, role, self.database, self.diaries / name, name]
        self._cast.append((role, place, subprocess.Popen(command, env=self._environment)))

    def kill(self, which):
        """End a process in the middle of whatever it is doing; return its role and place."""
        role, place, process = self._cast.pop(which)
        process.kill()
        process.wait(timeout=30)
        return role, place

    def stop(self):
        """Have all processes finish; each must end well."""
        self.database.with_name("stop").touch()
        ended = [process.wait(timeout=30) for _, _, process in self._cast]
        self._cast.clear()
        assert not any(ended), f"processes ended with {ended}"
        self.database.with_name("stop").unlink()

    def clear(self):
        """End whatever still runs."""
        for _, _, process in self._cast:
            process.kill()
            process.wait(timeout=30)

    def __len__(self):
        return len(self._cast)

    def check_alive(self):
        """Fail if a process has ended by itself."""
        ended = [
            f"{role}{place} ended with {process.returncode}" for role, place, process in self._cast if process.poll()
        ]
        assert not ended, ended

    def wait_until(self, holds, what, limit_s=40):
        """Wait for something that the processes will do."""
        ends_at = time.monotonic() + limit_s
        while not holds():
            self.check_alive()
            assert time.monotonic() < ends_at, f"{limit_s} s have passed and there is no sign of: {what}"
            time.sleep(0.02)

    def lines(self):
        """Return the lines of all diaries; the last one of a killed process may be half a line."""
        found = []
        for diary in sorted(self.diaries.iterdir()):
            whole = diary.read_text(encoding="utf-8").rpartition("\n")[0]
            for line in whole.splitlines():
                at, word, message_id = line.split(" ")
                found.append(Line(float(at), word, message_id))
        return found

    def ids(self, *words):
        """Return all ids beside one of the words."""
        return {line.id for line in self.lines() if line.word in words}

    def count(self, word):
        """Return how many lines have a word."""
        return sum(line.word == word for line in self.lines())

    def stored(self, queue):
        """Return how often each message id is in a queue."""
        with reading(self.database) as connection:
            read = "SELECT m.id FROM messages m JOIN queues q ON q.id = m.queue WHERE q.name = ?"
            return Counter(row[0] for row in connection.execute(read, (queue,)))

    def check_integrity(self):
        """Fail if SQLite finds anything wrong with the file, or a message has no body."""
        with reading(self.database) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@contextmanager
def reading(path):
    """Look into a database without the engine."""
    connection = sqlite3.connect(path, timeout=30)
    try:
        yield connection
    finally:
        connection.close()
