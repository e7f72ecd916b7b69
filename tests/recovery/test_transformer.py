# SPDX-License-Identifier: MIT
"""Functions that change messages: whatever they do, the process that has asked for it lives on."""

import asyncio
import os
import signal
import sys
from dataclasses import replace

import pytest

from redrive.broker import Message
from redrive.errors import InvalidSetting, TransformFailed
from redrive.recovery import Transform, TransformSettings
from redrive.recovery.environment import Stopping
from redrive.recovery.transform import LARGEST_BODY
from redrive.recovery.transformer import Transformer
from redrive.testing import ManualClock

MESSAGE = Message(b"abc", id="m-1", subject="s", headers={"a": 1, "b": None, "c": 1.5, "ü": "ö"}, session_id="x")
HERE = TransformSettings(allow=(f"{__name__}:*",))


# --- functions


def shout(message):
    return replace(message, body=message.body.upper(), headers={**message.headers, "by": os.getpid()})


def talk(message):
    sys.stdout.write("this goes nowhere near the frames\n")
    os.write(1, b"nor this\n")
    assert sys.stdin.read() == ""
    return message


def leave(_message):
    sys.exit(7)


def generator_exit(_message):
    raise GeneratorExit


def cancelled(_message):
    raise asyncio.CancelledError


def interrupted(_message):
    raise KeyboardInterrupt


def mute(_message):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    raise Mute


def talkative(_message):
    raise ValueError("x" * 50_000_000)


def die(_message):
    os._exit(3)


def crash(_message):
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(_message):
    while True:
        signal.pause()


def spin(message):
    if message.body == b"slowly":
        while True:
            pass
    return message


def grow(_message):
    return b"x" * 10_000_000_000


def bloat(message):
    return replace(message, body=bytes(LARGEST_BODY + 1))


def rename(message):
    return replace(message, id="m-2")


def lie(message):
    object.__setattr__(message, "subject", 5)
    return message


async def change(function, message=MESSAGE, settings=HERE):
    async with Transformer(settings) as transformer:
        return await transformer.apply(Transform(function=f"{__name__}:{function}"), message)


async def test_a_function_changes_a_message_in_a_process_of_its_own():
    changed = await change("shout")
    assert (changed.body, changed.id, changed.subject, changed.session_id) == (b"ABC", "m-1", "s", "x")
    assert {name: value for name, value in changed.headers.items() if name != "by"} == MESSAGE.headers
    assert changed.headers["by"] != os.getpid()


async def test_one_process_changes_many_messages():
    async with Transformer(HERE) as transformer:
        transform = Transform(function=f"{__name__}:shout")
        changed = [await transformer.apply(transform, replace(MESSAGE, body=b"x" * size)) for size in (0, 1, 500_000)]
    assert [len(each.body) for each in changed] == [0, 1, 500_000]
    assert len({each.headers["by"] for each in changed}) == 1


async def test_what_a_function_prints_and_reads_is_kept_from_the_frames():
    assert await change("talk") == MESSAGE


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("leave", "raised SystemExit: 7"),
        ("generator_exit", "raised GeneratorExit"),
        ("cancelled", "raised CancelledError"),
        ("interrupted", "raised KeyboardInterrupt"),
        ("mute", "raised Mute"),
        ("talkative", "raised ValueError: xxx"),
        ("die", "ended its process: exit status 3"),
        ("crash", "ended its process: signal SIGSEGV"),
        ("grow", "raised MemoryError"),
        ("bloat", "the body would have 104,857,601 bytes"),
        ("rename", "changed the id from 'm-1' to 'm-2'"),
        ("lie", "returned no message that can be sent: subject: must be a text"),
        ("missing", "cannot be loaded: AttributeError"),
    ],
)
async def test_whatever_a_function_does_only_its_message_fails(function, reason):
    """D4: each of these stopped the service, or left its operation running for ever."""
    async with Transformer(HERE) as transformer:
        with pytest.raises(TransformFailed) as caught:
            await transformer.apply(Transform(function=f"{__name__}:{function}"), MESSAGE)
        assert reason in caught.value.reason
        assert len(caught.value.reason) < 1_500
        assert (await transformer.apply(Transform(function=f"{__name__}:shout"), MESSAGE)).body == b"ABC"


@pytest.mark.parametrize("function", ["hang", "spin"])
async def test_a_function_that_does_not_come_back_is_ended(function):
    """D4: by its parent, whose clock says when; and the next message finds another process."""
    clock = ManualClock()
    async with Transformer(HERE, clock=clock) as transformer:
        transform = Transform(function=f"{__name__}:{function}")
        changing = asyncio.ensure_future(transformer.apply(transform, replace(MESSAGE, body=b"slowly")))
        while not clock.sleepers:
            await clock.sleep_async(0)
        clock.advance(10.0)
        with pytest.raises(TransformFailed, match="took longer than 10 s, and was ended") as caught:
            await changing
        assert caught.value.was_ended
        assert (await transformer.apply(Transform(function=f"{__name__}:shout"), MESSAGE)).body == b"ABC"


async def test_a_function_whose_parent_is_gone_is_ended_by_the_system(tmp_path):
    """D4: nothing is left that runs for ever, also after a kill -9."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, os, signal, sys\n"
        "from redrive.broker import Message\n"
        "from redrive.recovery import Transform, TransformSettings\n"
        "from redrive.recovery.transformer import Transformer\n"
        "async def main():\n"
        "    transformer = Transformer(TransformSettings(allow='endless:*', seconds=0.1))\n"
        "    await transformer._started()\n"
        "    print(transformer._child.process.pid, flush=True)\n"
        "    asyncio.ensure_future(transformer._exchange(Transform(function='endless:run'), Message(b'')))\n"
        "    while not os.path.exists('begun'):\n"
        "        await asyncio.sleep(0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    (tmp_path / "endless.py").write_text("def run(_):\n    open('begun', 'w').close()\n    while True: pass\n")
    parent = await asyncio.create_subprocess_exec(
        sys.executable, script.name, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    child = int(await parent.stdout.readline())
    await parent.wait()
    clock = ManualClock()
    while is_alive(child):
        await clock.sleep_async(0)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - of a process, not a disk
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_nobody_waits_for_a_function_when_it_is_time_to_stop():
    """D4: SIGTERM ends a service whose function hangs."""
    stopped = asyncio.Event()
    clock = ManualClock()
    async with Transformer(HERE, clock=clock, stopped=stopped) as transformer:
        changing = asyncio.ensure_future(transformer.apply(Transform(function=f"{__name__}:hang"), MESSAGE))
        while not clock.sleepers:
            await clock.sleep_async(0)
        stopped.set()
        with pytest.raises(Stopping):
            await changing


async def test_what_takes_little_needs_no_process():
    async with Transformer(TransformSettings()) as transformer:
        assert (await transformer.apply(Transform(replace=[("a", "x")]), MESSAGE)).body == b"xbc"
        assert transformer._child is None
        large = Message(b'{"a": [' + b"1," * 200_000 + b"1]}", id="m-1")
        changed = await transformer.apply(Transform(set_json={"/b": 1}), large)
        assert changed.body.endswith(b'1],"b":1}')
        assert transformer._child is not None


async def test_json_that_takes_too_much_memory_fails_its_message():
    settings = TransformSettings(memory=268_435_456)
    async with Transformer(settings) as transformer:
        with pytest.raises(TransformFailed, match=r"MemoryError|ended its process"):
            await transformer.apply(Transform(set_json={"/0": 1}), Message(b"[" + b"1," * 8_000_000 + b"1]", id="m-1"))


# --- which functions


@pytest.mark.parametrize(
    ("allow", "function", "is_allowed"),
    [
        ((), "shop.mending:add", False),
        (("shop.mending:add",), "shop.mending:add", True),
        (("shop.mending:add",), "shop.mending:address", False),
        (("shop.mending:*",), "shop.mending:add", True),
        (("shop.mending:*",), "shop.mending.more:add", False),
        (("shop.*",), "shop.mending:add", True),
        (("shop.*",), "shop:add", True),
        (("shop.*",), "shopping:add", False),
        ("shop:add", "shop:add", True),
        (("__main__:*",), "__main__:add", False),
    ],
)
def test_only_functions_that_are_stated_are_allowed(allow, function, is_allowed):
    assert (TransformSettings(allow=allow).refusal(function) is None) is is_allowed


@pytest.mark.parametrize("allow", ["*", "shop", "shop:", "shop.mending.*:add", 5, "a b:c"])
def test_an_allowance_is_a_function_a_module_or_a_package(allow):
    with pytest.raises(InvalidSetting, match="allow"):
        TransformSettings(allow=[allow])


@pytest.mark.parametrize("more", [{"seconds": 0}, {"memory": 5}, {"memory": True}])
def test_limits_are_checked(more):
    with pytest.raises(InvalidSetting):
        TransformSettings(**more)


async def test_what_is_not_allowed_is_not_imported(tmp_path, monkeypatch):
    """D4: ``sys:exit`` and whatever happens when a module is imported."""
    (tmp_path / "trap.py").write_text("open('sprung', 'w').close()\ndef run(message): return message\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    async with Transformer(HERE) as transformer:
        for name in ("trap:run", "sys:exit"):
            with pytest.raises(TransformFailed, match=f"{name} is not allowed here: allow it"):
                await transformer.apply(Transform(function=name), MESSAGE)
    assert not (tmp_path / "sprung").exists()


async def test_a_module_that_is_allowed_lends_nothing_of_others():
    """D4: ``from sys import exit`` in a module of ours does not make it a function of ours."""
    with pytest.raises(TransformFailed, match="it is really dataclasses:replace, which is not allowed"):
        await change("replace")
    named = TransformSettings(allow=(f"{__name__}:replace",))
    assert await change("replace", settings=named) == MESSAGE
