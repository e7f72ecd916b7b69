# SPDX-License-Identifier: MIT
"""Signals that come before a process can count them, and after it needs to."""

import asyncio
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from redrive.cli.stop_signals import StopSignals, interrupts, run_until_stopped
from redrive.worker.signals import STOP_SIGNALS, holding_back
from tests.patience import PATIENCE_S

COUNTING = """
import os, signal, sys
from redrive.cli.stop_signals import StopSignals
with StopSignals(is_waiting=True) as signals:
    print(signals.count, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize("how", STOP_SIGNALS)
def test_a_signal_before_the_first_line_is_counted_and_one_after_the_last_has_no_effect(how):
    with holding_back(STOP_SIGNALS):
        process = subprocess.Popen([sys.executable, "-c", COUNTING], stdout=subprocess.PIPE, text=True)
    process.send_signal(how)  # long before Python runs the program
    assert process.communicate(timeout=PATIENCE_S)[0] == "1\n"
    assert process.returncode == 0


def test_signals_wait_only_as_long_as_the_block():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with holding_back(STOP_SIGNALS):
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) >= set(STOP_SIGNALS)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.fixture
def _interruptible():
    """Let SIGINT have its usual effect: a process that a shell has started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_a_second_signal_that_nobody_heeds_has_its_usual_effect():
    with pytest.raises(KeyboardInterrupt), StopSignals() as signals:  # noqa: PT012 - the second one is to raise
        signal.raise_signal(signal.SIGINT)
        assert signals.count == 1
        signal.raise_signal(signal.SIGINT)


def test_signals_that_are_heeded_are_only_counted():
    handler = signal.getsignal(signal.SIGINT)
    with StopSignals() as signals:
        signals.is_heeded = True
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
    assert signals.count == 3
    assert signal.getsignal(signal.SIGINT) is handler


def test_in_another_thread_signals_are_left_alone():
    handler = signal.getsignal(signal.SIGINT)

    def use():
        with StopSignals() as signals:
            return signals.count, signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(use).result() == (0, handler)


async def test_work_is_cancelled_by_a_signal_and_says_so():
    async def wait_for_ever():
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    with StopSignals() as signals:
        assert await run_until_stopped(signals, wait_for_ever())
        assert signals.on_signal is None


async def test_work_that_ends_by_itself_is_not_stopped():
    async def work():
        pass

    with StopSignals() as signals:
        assert not await run_until_stopped(signals, work())


async def test_work_does_not_begin_after_a_signal():
    with StopSignals() as signals:
        signal.raise_signal(signal.SIGINT)
        assert await run_until_stopped(signals, asyncio.Event().wait())


@pytest.mark.usefixtures("_interruptible")
def test_interrupts_are_ctrl_c_only():
    before = signal.getsignal(signal.SIGTERM)
    with interrupts() as signals:
        assert signal.getsignal(signal.SIGTERM) is before
        signal.raise_signal(signal.SIGINT)
        assert signals.count == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
