# SPDX-License-Identifier: MIT
"""``python -m redrive.cli``."""

from redrive.cli import run

run()
