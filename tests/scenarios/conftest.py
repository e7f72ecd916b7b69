# SPDX-License-Identifier: MIT
"""What several scenarios need."""

import os
import subprocess

import pytest


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 9 MB; unmounted whatever happens."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("NOT SHOWN HERE: a full disk. Only root may mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=9m", "redrive-test", place],  # noqa: S607 - wherever mount is
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"NOT SHOWN HERE: a full disk. mount says: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        if subprocess.run(["umount", place], check=False).returncode:  # noqa: S607
            subprocess.run(["umount", "--lazy", place], check=True)  # noqa: S607
