# SPDX-License-Identifier: MIT
"""A setting of a queue is one line of code: here one is added to a copy of Redrive, and everything knows it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

SRC = Path(__file__).parents[2] / "src"
LAST = "    requires_session: bool = _flag("
LINE = '    max_pending: int | None = _setting(None, WholeSetting(1, 500), "how many messages may wait")\n'

USE = """
import asyncio, sys
from redrive import connect
from redrive.errors import InvalidSetting, QueueConflict

async def main():
    for _ in range(2):  # the second process finds what the first has stored
        async with connect(sys.argv[1]) as broker:
            await broker.declare("orders", max_pending=7)
            await broker.declare("plain")
            assert (await broker.inspect("orders")).settings.max_pending == 7
            assert (await broker.inspect("plain")).settings.max_pending is None
    async with connect(sys.argv[1]) as broker:
        try:
            await broker.declare("orders", max_pending=8)
        except QueueConflict as error:
            assert error.differences == {"max_pending": (7, 8)}
        await broker.update("orders", max_pending=9)
        try:
            await broker.update("orders", max_pending=501)
        except InvalidSetting as error:
            print(error)
        print((await broker.inspect("orders")).settings.max_pending)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of Redrive with one line more."""
    copied = tmp_path_factory.mktemp("src")
    shutil.copytree(SRC / "redrive", copied / "redrive", ignore=shutil.ignore_patterns("__pycache__"))
    path = copied / "redrive" / "broker" / "settings.py"
    assert path.read_text().count(LAST) == 1
    path.write_text(path.read_text().replace(LAST, LINE + LAST))
    return copied


def run(copied, *command):
    environment = os.environ | {"PYTHONPATH": str(copied), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_a_new_setting_is_declared_stored_compared_and_changed(copy, tmp_path):
    ran = run(copy, "-c", USE, f"sqlite:///{tmp_path / 'orders.db'}")
    assert (ran.stdout, ran.stderr) == ("max_pending=501: must be a whole number from 1 to 500\n9\n", "")


def test_postgresql_needs_no_migration_for_a_new_setting(copy, postgres_url):
    ran = run(copy, "-c", USE, f"{postgres_url}&schema=new_setting")
    assert (ran.stdout, ran.stderr) == ("max_pending=501: must be a whole number from 1 to 500\n9\n", "")


def test_the_command_line_has_an_option_for_a_new_setting(copy, tmp_path):
    url = f"sqlite:///{tmp_path / 'orders.db'}"
    declared = run(copy, "-m", "redrive.cli", "queues", "declare", "orders", "--max-pending", "7", "--url", url)
    assert declared.returncode == 0, declared.stderr
    shown = run(copy, "-m", "redrive.cli", "queues", "show", "orders", "--url", url)
    assert "max_pending" in shown.stdout
    assert "7" in shown.stdout
    asked = run(copy, "-m", "redrive.cli", "queues", "declare", "--help")
    assert "--max-pending" in asked.stdout
    assert "How many messages may wait" in asked.stdout or "how many messages may wait" in asked.stdout
