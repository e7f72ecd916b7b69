"""A server in a process of its own: starting and stopping it, its memory and its CPU time."""

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

HOST = "127.0.0.1"


class ServerEnded(RuntimeError):
    """The server has ended, or did not begin."""


class Server:
    """``redrive serve``, with the processes that it starts.

    Args:
        url: its database.
        folder: where its log goes.
        switches: more of its command line.

    Attributes:
        port: where it listens.
    """

    def __init__(self, url, folder, switches):
        self._url = url
        self._folder = folder
        self._switches = switches
        self.port = 0

    def start(self):
        """Start it, at the port that it had before, and wait until it can use its database."""
        command = [sys.executable, "-m", "redrive.cli", "serve", "--listen", f"{HOST}:{self.port}", *self._switches]
        log = Path(self._folder) / "serve.log"
        with log.open("w", encoding="utf-8") as out:
            self._process = subprocess.Popen(  # noqa: S603 - our own
                command, stdout=out, stderr=out, env={**os.environ, "REDRIVE_URL": self._url}, cwd=self._folder
            )
        self.port = _port(self._process, log)
        _wait_until_ready(self)

    def stop(self):
        """Stop it; it must end well."""
        self._process.terminate()
        if code := self._process.wait(60):
            log = Path(self._folder) / "serve.log"
            raise ServerEnded(f"the server has ended with {code}: {log.read_text(encoding='utf-8')[-2000:]}")

    @property
    def memory_mb(self):
        """The memory of its processes now, in megabytes."""
        return sum(_memory_mb(each) for each in self._processes())

    @property
    def cpu_s(self):
        """The CPU time that its processes have used, in seconds."""
        return sum(self.cpu_by_process.values())

    @property
    def cpu_by_process(self):
        """The CPU time that the process that answers has used, and the one that does the work, in seconds."""
        answers, *works = map(cpu_s, self._processes())
        return {"answers": answers, "work": sum(works)}

    def _processes(self):
        """Return the process that answers, and the one that does the work if there is one."""
        if (code := self._process.poll()) is not None:
            raise ServerEnded(f"the server has ended with {code}")
        pid = self._process.pid
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [pid, *(int(each) for task in tasks for each in (task / "children").read_text().split())]


def _memory_mb(process):
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def cpu_s(process):
    """Return the CPU time that a process has used, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_serve(url, folder, *switches):
    """Start ``redrive serve`` on a database, and stop it; it must end well."""
    server = Server(url, folder, switches)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _port(process, log):
    """Wait until the server says where it listens."""
    while process.poll() is None:
        if found := re.search(rf"http://{HOST}:(\d+)", log.read_text(encoding="utf-8")):
            return int(found[1])
        time.sleep(0.02)
    raise ServerEnded(f"the server has ended with {process.returncode}: {log.read_text(encoding='utf-8')[-2000:]}")


def _wait_until_ready(server):
    """Wait until the server can use its database."""
    while True:
        try:
            with urlopen(f"http://{HOST}:{server.port}/ready"):
                return
        except HTTPError:  # not yet: 503
            time.sleep(0.02)
