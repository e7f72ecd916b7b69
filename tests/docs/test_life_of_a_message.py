# SPDX-License-Identifier: MIT
"""The walk of a message through the code, taken: what the page says is called in a step is called in that step."""

import re
import sys
import threading

import pytest

from redrive import connect, open_recovery
from redrive.testing import ManualClock
from redrive.worker import Recoverability, Worker
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "explanation" / "life-of-a-message.md").read_text()
SOURCE = f"{ROOT / 'src' / 'redrive'}/"
PLACE = re.compile(r"`([\w/]+\.py):([\w.]+)`")
STEPS = dict(re.findall(r"^### (\d+)\. [^\n]*\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))


def places(text: str) -> list[str]:
    return [f"{file}:{function}" for file, function in PLACE.findall(text)]


class Calls:
    """Notes every function of the product that is called, in every thread."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, frame, event, _argument) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE):
            self.seen.add(f"{code.co_filename.removeprefix(SOURCE)}:{code.co_qualname}")


@pytest.fixture
def calls():
    calls, before = Calls(), sys.getprofile()
    threading.setprofile(calls)
    sys.setprofile(calls)
    yield calls
    sys.setprofile(before)
    threading.setprofile(before)


def shop() -> tuple[Worker, list[str]]:
    """Return a worker whose handler raises until there is something on the list."""
    worker, answers = Worker(), []

    @worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=[60], error_queue="error"))
    async def ship(order: str) -> None:
        if not answers:
            raise ConnectionError(f"the warehouse does not answer: {order}")

    return worker, answers


async def test_each_function_of_a_step_is_called_in_that_step(calls, tmp_path):
    called: dict[str, set[str]] = {}

    async def step(numbers: str, walked) -> None:
        calls.seen.clear()
        await walked
        called.update(dict.fromkeys(numbers.split(), frozenset(calls.seen)))

    clock, (worker, answers) = ManualClock(), shop()
    async with connect(f"sqlite:///{tmp_path / 'shop.db'}", clock=clock) as broker, open_recovery(broker) as recovery:
        for queue in ("orders", "error"):
            await broker.declare(queue)
        await step("1", broker.send("orders", "order 42"))
        await step("2 3", worker.run(broker, until_idle=True))
        clock.advance(100)
        await step("4", worker.run(broker, until_idle=True))
        await step("5", recovery.ingest())
        await step("6", recovery.groups("queue:orders"))
        await step("7", recovery.recover("queue:orders", reason="the warehouse is back"))
        await step("8", recovery.step())
        answers.append("yes")
        await step("9", worker.run(broker, until_idle=True))
        await step("10", recovery.step())
        assert await recovery.count("status:resolved") == 1

    missing = {
        number: [place for place in places(text) if place not in called[number]] for number, text in STEPS.items()
    }
    assert missing == {number: [] for number in called}


def test_every_step_names_functions():
    assert list(STEPS) == [str(number) for number in range(1, 11)]
    assert all(places(text) for text in STEPS.values())
