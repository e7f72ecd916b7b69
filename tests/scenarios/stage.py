# SPDX-License-Identifier: MIT
"""Where the scenarios play: starts real processes, ends them, and reads their diaries afterwards."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.patience import PATIENCE_S

ACTORS = Path(__file__).with_name("actors.py")


class Line(NamedTuple):
    """A line of a diary."""

    at: float
    word: str
    id: str


class Stage:
    """A database, the processes that use it, and their diaries in a folder."""

    def __init__(self, site, folder, **environment):
        self.site = site
        self.diaries = Path(folder) / "diaries"
        self.diaries.mkdir()
        self._stop = Path(folder) / "stop"
        self._environment = os.environ | environment
        self._cast = []
        self._started = Counter()

    def start(self, role, place):
        """Start a process; it is the next of those that have had this role and place."""
        part = f"{role}{place}"
        self._started[part] += 1
        name = f"{part}.{self._started[part]}"
        command = [sys.executable, ACTORS, role, self.site.url, self.diaries / name, name, self._stop]
        self._cast.append((role, place, subprocess.Popen(command, env=self._environment)))

    def kill(self, which):
        """End a process in the middle of whatever it is doing; return its role and place."""
        self.check_alive()
        role, place, process = self._cast.pop(which)
        process.kill()
        process.wait(timeout=PATIENCE_S)
        return role, place

    def stop(self):
        """Have all processes finish; each must end well."""
        self._stop.touch()
        ended = [process.wait(timeout=PATIENCE_S) for _, _, process in self._cast]
        self._cast.clear()
        assert not any(ended), f"processes ended with {ended}"
        self._stop.unlink()

    def clear(self):
        """End whatever still runs."""
        for _, _, process in self._cast:
            process.kill()
            process.wait(timeout=PATIENCE_S)

    def __len__(self):
        return len(self._cast)

    def check_alive(self):
        """Fail if a process has ended by itself."""
        ended = [
            f"{role}{place} ended with {process.returncode}"
            for role, place, process in self._cast
            if process.poll() is not None
        ]
        assert not ended, ended

    def wait_until(self, holds, what):
        """Wait for something that the processes will do."""
        ends_at = time.monotonic() + PATIENCE_S
        while not holds():
            self.check_alive()
            assert time.monotonic() < ends_at, f"{PATIENCE_S:g} s have passed and there is no sign of: {what}"
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

    def words(self, since):
        """Return the words that were written after an instant."""
        return {line.word for line in self.lines() if line.at > since}
