# SPDX-License-Identifier: MIT
"""``redrive serve`` as a process of its own, for tests that need one."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from tempfile import TemporaryFile

import httpx

from tests.patience import PATIENCE_S


def serving(*arguments, cwd, variables=None):
    """Start a server; it is stopped at the end, if it still runs."""
    return started("serve", "--listen", "127.0.0.1:0", *arguments, cwd=cwd, variables=variables)


@contextmanager
def started(*arguments, cwd, variables=None):
    """Start a command, with more environment variables; it is stopped at the end, if it still runs.

    Its standard error goes to a file, ``process.log``: a pipe that is not read is full after a thousand lines, and then
    the command stands still.
    """
    command = [sys.executable, "-m", "redrive.cli", *map(str, arguments)]
    environment = {**os.environ, **(variables or {})}
    with TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=cwd, env=environment)
        process.log = log
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def address(process):
    """Return where a server says that it listens."""
    line = process.stdout.readline()
    found = re.match(r"serves at (http://\S+); Ctrl-C stops it", line)
    assert found, (line, logged(process))
    return found[1]


def ready(base):
    """Wait until a server is ready."""
    with httpx.Client(base_url=base, timeout=PATIENCE_S) as client:
        while (answer := client.get("/ready")).status_code == 503:
            assert answer.json()["missing"]
    return answer


def ended(process):
    """Wait until a server has ended; return its status, and what it has said."""
    out, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, logged(process)


def logged(process):
    """Return what a command has written to its standard error."""
    process.log.seek(0)
    return process.log.read()
