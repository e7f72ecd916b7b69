# SPDX-License-Identifier: MIT
"""Threads for blocking handlers."""

import asyncio
import subprocess
import sys
import threading

import pytest

from redrive.worker.threads import Threads
from tests.patience import PATIENCE_S


async def test_a_result_and_an_error_come_back():
    threads = Threads(2, "t")
    assert await threads.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.run(lambda: next(iter(())))
    threads.close()


async def test_one_thread_is_enough_for_one_after_another():
    threads = Threads(5, "t")
    names = {await threads.run(lambda: threading.current_thread().name) for _ in range(5)}
    assert names == {"t-1"}
    threads.close()


async def test_no_more_threads_are_started_than_allowed():
    threads = Threads(2, "t")
    names = await asyncio.gather(*(threads.run(lambda: threading.current_thread().name) for _ in range(20)))
    assert set(names) <= {"t-1", "t-2"}
    threads.close()


async def test_a_caller_that_is_gone_is_not_told():
    threads, go_on, done = Threads(1, "t"), threading.Event(), threading.Event()

    def job():
        go_on.wait(PATIENCE_S)
        done.set()

    waiting = asyncio.create_task(threads.run(job))
    await asyncio.wait([waiting], timeout=0)
    waiting.cancel()
    await asyncio.wait([waiting])
    go_on.set()
    assert await threads.run(done.is_set)
    threads.close()


def test_a_hung_thread_does_not_keep_the_program_from_ending():
    program = (
        "import asyncio, threading\n"
        "from redrive.worker.threads import Threads\n"
        "async def main():\n"
        "    begun = threading.Event()\n"
        "    hung = asyncio.ensure_future(Threads(1, 't').run(lambda: (begun.set(), threading.Event().wait())))\n"
        "    while not begun.is_set(): await asyncio.wait([hung], timeout=0.01)\n"
        "asyncio.run(main())\n"
        "print('ended')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert ran.stdout == "ended\n"
