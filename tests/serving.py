# SPDX-License-Identifier: MIT
"""``redrive serve`` as a process of its own, for tests that need one."""

import re
import subprocess
import sys
from contextlib import contextmanager

import httpx

from tests.patience import PATIENCE_S


def serving(*arguments, cwd):
    """Start a server; it is stopped at the end, if it still runs."""
    return started("serve", "--listen", "127.0.0.1:0", *arguments, cwd=cwd)


@contextmanager
def started(*arguments, cwd):
    """Start a command; it is stopped at the end, if it still runs."""
    command = [sys.executable, "-m", "redrive.cli", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address(process):
    """Return where a server says that it listens."""
    line = process.stdout.readline()
    found = re.match(r"serves at (http://\S+); Ctrl-C stops it", line)
    assert found, (line, process.stderr.read())
    return found[1]


def ready(base):
    """Wait until a server is ready."""
    with httpx.Client(base_url=base, timeout=PATIENCE_S) as client:
        while (answer := client.get("/ready")).status_code == 503:
            assert answer.json()["missing"]
    return answer


def ended(process):
    """Wait until a server has ended; return its status, and what it has said."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err
