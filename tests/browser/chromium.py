# SPDX-License-Identifier: MIT
"""Where Chromium is: Debian's, which is installed if that can be done.

``make test`` installs it first, with ``python -m tests.browser.chromium``, so that no test has to wait for it.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "chromium")
PATIENCE_S = 200
"""Less than what pytest gives a test: its first one waits for this."""

LONG_PATIENCE_S = 600
"""The same before the tests, when nothing waits."""

FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
)
"""It asks nothing of the internet, and draws letters alike everywhere."""


class NoChromium(Exception):
    """There is no Chromium to be had; the text says what was tried."""


@cache
def program(patience=PATIENCE_S):
    """Return the path of Chromium.

    Args:
        patience: how many seconds it may take to install it.

    Raises:
        NoChromium: the machine has none, and it cannot be installed.
    """
    if (found := _found()) is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoChromium("no chromium in PATH; on Debian and Ubuntu: apt-get install chromium")
    with Path(tempfile.gettempdir(), "redrive-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes that run tests at the same time install it once
        return _found() or _installed(patience)


def _found():
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


def _installed(patience):
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("apt-get", "update"), INSTALL):
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, env=quiet, timeout=patience / 2)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            said = (error.stderr or "")[-300:]
            raise NoChromium(f"{' '.join(command)} did not work: {error} {said}") from error
    if (found := _found()) is None:
        raise NoChromium("chromium was installed and is not in PATH")
    return found


if __name__ == "__main__":
    try:
        program(LONG_PATIENCE_S)
    except NoChromium as error:
        print(f"no browser: {error}", file=sys.stderr)  # noqa: T201 - a command; the tests say what that means
