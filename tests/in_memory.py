# SPDX-License-Identifier: MIT
"""Where folders of tests go: into memory if there is room, as only processes die here and a busy disk takes seconds."""

import shutil
from pathlib import Path

PLACE = Path("/dev/shm")  # noqa: S108 - folders of our own are made in it
ROOM = 4 << 30
"""A run needs a tenth of it; somewhere else it is 64 MB, which is too little."""


def place():
    """Return the folder in memory; None if there is none, or it has no room."""
    return PLACE if PLACE.is_dir() and shutil.disk_usage(PLACE).free > ROOM else None
