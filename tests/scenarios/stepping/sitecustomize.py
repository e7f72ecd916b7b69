# SPDX-License-Identifier: MIT
"""A clock of the machine that steps, for each process that has this folder on its path and its file in STEP_FILE."""

import mmap
import os
import struct
import time
from pathlib import Path

_machine = time.time

with Path(os.environ["STEP_FILE"]).open("rb") as _file:
    _step = mmap.mmap(_file.fileno(), 8, access=mmap.ACCESS_READ)

time.time = lambda: _machine() + struct.unpack("d", _step[:8])[0]
