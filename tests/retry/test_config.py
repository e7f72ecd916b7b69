# SPDX-License-Identifier: MIT
"""Policies from a file, in use: what applies to a call, and what happens when the file changes under it."""

import asyncio
import gc
import logging
import os
import threading
from itertools import count

import pytest

from redrive.errors import CircuitOpen, InvalidSetting, PolicyFileError, UnknownPolicy, UsageError
from redrive.retry import Exponential, Fixed, Policies, config
from redrive.retry.settings import RetryPlan
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S

TWO_ATTEMPTS = '[policies.standard]\nkind = "fixed"\ndelay = "1s"\njitter = "none"\nmax_attempts = 2\n'
FOUR_ATTEMPTS = '[policies.standard]\nkind = "fixed"\ndelay = "5s"\njitter = "none"\nmax_attempts = 4\n'
BROKEN = '[policies.standard]\nkind = "fixed"\ndelay = "-5s"\n'

stamps = count(1_000_000_000_000_000_000, 1_000_000_000)


def write(path, text):
    """Change the file, for certain: two changes within one tick of the file system's clock look the same."""
    path.write_text(text, encoding="utf-8")
    stamp = next(stamps)
    os.utime(path, ns=(stamp, stamp))


@pytest.fixture
def clock():
    return ManualClock(auto_advance=True)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "retry.toml"
    write(path, TWO_ATTEMPTS)
    return path


@pytest.fixture
def policies(path, clock):
    return Policies.load(path, reload_every=0, clock=clock)


@pytest.fixture
def events(caplog):
    """The names and fields of what was reported about policy files."""
    caplog.set_level(logging.INFO, logger="redrive.retry")

    def found():
        reported = [(record.redrive_event, record.redrive) for record in caplog.records if hasattr(record, "redrive")]
        return [(name.removeprefix("redrive.retry."), fields) for name, fields in reported if "policies" in name]

    return found


def failing(attempts):
    """A decorated function that always fails, and the list of its calls."""
    calls = []

    @attempts
    def fail():
        calls.append(1)
        raise ConnectionError

    return fail, calls


def slept_by(fail, clock):
    clock.slept.clear()
    with pytest.raises(ConnectionError):
        fail()
    return clock.slept


# --- what applies to a call -------------------------------------------------------------------------------------------

LAYERED = """\
default = "quick"
[policies.quick]
kind = "fixed"
delay = "1s"
jitter = "none"
max_attempts = 3
[policies.slow]
kind = "fixed"
delay = "9s"
jitter = "none"
max_attempts = 3
[operations.search]
policy = "slow"
[operations.count]
max_retries = 1
"""


@pytest.mark.parametrize(
    ("operation", "stated", "expected"),
    [
        ("", {}, [1.0, 1.0]),
        ("unheard of", {}, [1.0, 1.0]),
        ("search", {}, [9.0, 9.0]),
        ("count", {}, [1.0]),
        ("search", {"policy": "quick"}, [1.0, 1.0]),
        ("", {"policy": "slow"}, [9.0, 9.0]),
        ("count", {"max_attempts": 4}, [1.0, 1.0, 1.0]),
        ("search", {"deadline": 10}, [9.0]),
    ],
)
def test_code_overrides_the_operation_which_overrides_the_policy(clock, operation, stated, expected):
    attempts = Policies.parse(LAYERED).retry(operation, on=ConnectionError, clock=clock, **stated)
    assert slept_by(failing(attempts)[0], clock) == expected


def test_default_deadline_is_that_of_retry_unless_the_file_states_one(clock):
    endless = '[policies.p]\nkind = "fixed"\ndelay = "7s"\njitter = "none"\nmax_attempts = 99\n'
    for text, expected in ((endless, 8), (endless + 'deadline = "20s"\n', 2)):
        attempts = Policies.parse(text).retry(on=ConnectionError, clock=clock)
        assert len(slept_by(failing(attempts)[0], clock)) == expected


def test_policies_can_be_looked_at():
    policies = Policies.parse(LAYERED)
    assert policies.names == ("quick", "slow")
    assert policies.default == "quick"
    assert policies["slow"] == Fixed(9, jitter="none", max_attempts=3)


def test_policies_refuse_an_unknown_name():
    policies = Policies.parse(LAYERED)
    with pytest.raises(UnknownPolicy, match="no policy is called 'fast'; the file defines: quick, slow"):
        policies["fast"]
    with pytest.raises(UnknownPolicy, match="'fast'"):
        policies.retry("search", on=ConnectionError, policy="fast")


def test_policies_are_read_from_xml_text():
    policies = Policies.parse(
        '<RetryPolicyConfiguration><exponentialBackoff name="x" maxRetryCount="3"/></RetryPolicyConfiguration>',
        format="xml",
    )
    assert policies["x"] == Exponential(max_attempts=4)


def test_policies_refuse_another_format():
    with pytest.raises(InvalidSetting, match="format='yaml': must be 'toml' or 'xml'"):
        Policies.parse("", format="yaml")


def test_policies_are_read_from_an_xml_file(tmp_path):
    path = tmp_path / "Retry.XML"
    path.write_text('<RetryPolicyConfiguration><linearInterval name="x"/></RetryPolicyConfiguration>', encoding="utf-8")
    assert Policies.load(str(path))["x"] == Fixed()


def test_file_may_begin_with_a_byte_order_mark(path):
    path.write_bytes(b"\xef\xbb\xbf" + TWO_ATTEMPTS.encode())
    assert Policies.load(path).names == ("standard",)


def test_block_form_follows_the_file(policies, path, clock):
    attempts = policies.retry(on=ConnectionError, clock=clock)
    for text, expected in ((TWO_ATTEMPTS, 2), (FOUR_ATTEMPTS, 4)):
        write(path, text)
        seen = []
        with pytest.raises(ConnectionError):  # noqa: PT012 - the loop is what is tested
            for attempt in attempts:
                with attempt:
                    seen.append(attempt.number)
                    raise ConnectionError
        assert len(seen) == expected


# --- files that cannot be used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "line", "problem"),
    [
        ("a.toml", None, 1, "the file cannot be read: No such file or directory"),
        ("a.json", b"{}", 1, "the file's name must end in .toml or .xml"),
        ("a", b"", 1, "the file's name must end in .toml or .xml"),
        ("a.toml", b"", 1, "write [policies.standard]"),
        ("a.xml", b"", 1, "this is not XML: no element found"),
        ("a.toml", b"[policies.a]\n# caf\xe9\n", 2, "the file is not UTF-8; save it as UTF-8"),
        ("a.xml", '<?xml version="1.0"?>\n'.encode("utf-16"), 1, "the file is not UTF-8; save it as UTF-8"),
        ("a.toml", b"#" * 1_048_577, 1, "the file is larger than 1,048,576 bytes"),
        ("a.toml", b"[policies.a]\nmin = 0\n", 2, "use fast_first=True"),
    ],
)
def test_file_that_cannot_be_used_names_itself_the_line_and_the_fix(tmp_path, name, content, line, problem):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PolicyFileError) as caught:
        Policies.load(path)
    assert problem in caught.value.problem
    assert (caught.value.source, caught.value.line) == (path, line)
    assert str(caught.value).startswith(f"{path}, line {line}: ")


def test_directory_is_no_policy_file(tmp_path):
    (tmp_path / "d.toml").mkdir()
    with pytest.raises(PolicyFileError, match="the file cannot be read: Is a directory"):
        Policies.load(tmp_path / "d.toml")


@pytest.mark.parametrize("wrong", [-1, float("nan"), True, "5s"], ids=repr)
def test_reload_every_refuses_what_is_no_length_of_time(path, wrong):
    with pytest.raises(InvalidSetting, match="reload_every"):
        Policies.load(path, reload_every=wrong)


# --- breakers and budgets ---------------------------------------------------------------------------------------------

WITH_BREAKER = """\
[policies.standard]
kind = "fixed"
delay = "1s"
jitter = "none"
max_attempts = 2
breaker = "db"
[operations.other]
{other}
[breakers.db]
failures = {failures}
open_for = "1h"
"""


def with_breaker(failures=2, other=""):
    return WITH_BREAKER.format(failures=failures, other=other)


def test_breaker_is_shared_by_all_operations_that_name_it(clock):
    policies = Policies.parse(with_breaker())
    first, _ = failing(policies.retry("one", on=ConnectionError, clock=clock))
    second, calls = failing(policies.retry("other", on=ConnectionError, clock=clock))
    with pytest.raises(ConnectionError):
        first()
    with pytest.raises(CircuitOpen, match="'db'"):
        second()
    assert not calls


def test_budget_is_shared_by_all_operations_that_name_it(clock):
    policies = Policies.parse(TWO_ATTEMPTS + 'budget = "b"\n[budgets.b]\nburst = 1\nratio = 0\nper_second = 0\n')
    for operation, expected in (("one", 2), ("two", 1)):
        fail, calls = failing(policies.retry(operation, on=ConnectionError, clock=clock))
        slept_by(fail, clock)
        assert len(calls) == expected


def test_unchanged_breaker_keeps_its_state_over_a_reload(path, clock):
    write(path, with_breaker())
    policies = Policies.load(path, reload_every=0, clock=clock)
    fail, calls = failing(policies.retry("one", on=ConnectionError, clock=clock))
    with pytest.raises(ConnectionError):
        fail()
    write(path, with_breaker(other="max_retries = 0"))
    with pytest.raises(CircuitOpen):
        fail()
    policies.reload()
    with pytest.raises(CircuitOpen):
        fail()
    assert len(calls) == 2


def test_changed_breaker_begins_anew(path, clock):
    write(path, with_breaker())
    policies = Policies.load(path, reload_every=0, clock=clock)
    fail, calls = failing(policies.retry("one", on=ConnectionError, clock=clock))
    with pytest.raises(ConnectionError):
        fail()
    write(path, with_breaker(failures=9))
    with pytest.raises(ConnectionError):
        fail()
    assert len(calls) == 4


def test_breaker_stays_one_object_when_a_changed_file_is_refused(path, clock):
    """A refused file must not leave a second breaker behind for the next caller."""
    asked_for = '[policies.asked_for]\nkind = "fixed"\n'
    write(path, 'default = "standard"\n' + with_breaker() + asked_for)
    policies = Policies.load(path, reload_every=None, clock=clock)
    first, _ = failing(policies.retry("one", on=ConnectionError, clock=clock))
    asking = [policies.retry(on=ConnectionError, policy=name) for name in 9 * ["standard"] + ["asked_for"]]
    write(path, with_breaker(failures=9))
    with pytest.raises(PolicyFileError, match="the program asks for 'asked_for'"):
        policies.reload()
    second, _ = failing(policies.retry("two", on=ConnectionError, clock=clock))
    with pytest.raises(ConnectionError):
        first()
    with pytest.raises(CircuitOpen):
        second()
    assert len(asking) == 10  # they have to be alive to be asked


# --- reloading --------------------------------------------------------------------------------------------------------


def test_changed_file_takes_effect_for_a_function_already_decorated(policies, path, clock, events):
    fail, _ = failing(policies.retry(on=ConnectionError, clock=clock))
    assert slept_by(fail, clock) == [1.0]
    write(path, FOUR_ATTEMPTS)
    assert slept_by(fail, clock) == [5.0, 5.0, 5.0]
    assert events() == [("policies_reloaded", {"source": str(path), "policies": ("standard",)})]


async def test_changed_file_takes_effect_for_an_async_function_already_decorated(policies, path, clock):
    @policies.retry(on=ConnectionError, clock=clock)
    async def fail():
        raise ConnectionError

    for text, expected in ((TWO_ATTEMPTS, [1.0]), (FOUR_ATTEMPTS, [5.0, 5.0, 5.0])):
        write(path, text)
        clock.slept.clear()
        with pytest.raises(ConnectionError):
            await fail()
        assert clock.slept == expected


def test_changed_file_takes_effect_for_methods_and_calls(policies, path, clock):
    attempts = policies.retry(on=ConnectionError, clock=clock)

    class Client:
        @attempts
        def fail(self):
            raise ConnectionError

    client = Client()
    write(path, FOUR_ATTEMPTS)
    assert slept_by(client.fail, clock) == [5.0, 5.0, 5.0]
    write(path, TWO_ATTEMPTS)
    assert slept_by(lambda: attempts.call(failing(lambda fn: fn)[0]), clock) == [1.0]


def test_call_in_flight_keeps_its_plan(policies, path, clock):
    calls = []

    @policies.retry(on=ConnectionError, clock=clock)
    def fail():
        calls.append(1)
        if len(calls) == 2:
            write(path, FOUR_ATTEMPTS)
            policies.reload()
        raise ConnectionError

    assert slept_by(fail, clock) == [1.0]
    assert slept_by(fail, clock) == [5.0, 5.0, 5.0]


async def test_call_in_flight_keeps_its_plan_while_another_takes_the_new_one(policies, path):
    clock = ManualClock()

    @policies.retry(on=ConnectionError, clock=clock)
    async def fail():
        raise ConnectionError

    first = asyncio.ensure_future(fail())
    while not clock.sleepers:
        await clock_tick()
    write(path, FOUR_ATTEMPTS)
    second = asyncio.ensure_future(fail())
    while clock.sleepers < 2:
        await clock_tick()
    for _ in range(20):
        clock.advance(1.0)
        await clock_tick()
    for task in (first, second):
        with pytest.raises(ConnectionError):
            await task
    assert clock.slept == [1.0, 5.0, 5.0, 5.0]


async def clock_tick():
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)  # noqa: TID251 - not a wait: it only lets others run


def test_broken_file_leaves_the_old_policies_in_force_and_is_reported_once(policies, path, clock, events):
    fail, _ = failing(policies.retry(on=ConnectionError, clock=clock))
    write(path, BROKEN)
    for _ in range(3):
        assert slept_by(fail, clock) == [1.0]
    problem = "policies.standard: delay=-5.0: must be 0 to 31,622,400 seconds, or a timedelta"
    rejected = ("policies_rejected", {"source": str(path), "line": 3, "problem": problem})
    assert events() == [rejected]
    write(path, BROKEN + "\n")
    slept_by(fail, clock)
    assert events() == [rejected, rejected]
    assert policies["standard"] == Fixed(1, jitter="none", max_attempts=2)


def test_broken_file_that_is_mended_is_in_force_again(policies, path, clock, events):
    fail, _ = failing(policies.retry(on=ConnectionError, clock=clock))
    for text, expected in ((BROKEN, [1.0]), (FOUR_ATTEMPTS, [5.0, 5.0, 5.0])):
        write(path, text)
        assert slept_by(fail, clock) == expected
    assert [name for name, _ in events()] == ["policies_rejected", "policies_reloaded"]


def test_file_that_disappears_leaves_the_old_policies_in_force(policies, path, clock, events):
    fail, _ = failing(policies.retry(on=ConnectionError, clock=clock))
    path.unlink()
    for _ in range(2):
        assert slept_by(fail, clock) == [1.0]
    assert [fields["problem"] for _, fields in events()] == ["the file cannot be read: No such file or directory"]
    write(path, FOUR_ATTEMPTS)
    assert slept_by(fail, clock) == [5.0, 5.0, 5.0]


@pytest.mark.parametrize(
    "hostile", [f"a = {'[' * 50_000}", f"[policies.standard]\nmin = {'9' * 5_000}", "default = []\n"]
)
def test_hostile_file_does_not_reach_the_caller(policies, path, clock, events, hostile):
    fail, _ = failing(policies.retry(on=ConnectionError, clock=clock))
    write(path, hostile)
    assert slept_by(fail, clock) == [1.0]
    assert [name for name, _ in events()] == ["policies_rejected"]


@pytest.mark.parametrize("wrong", ['when_open = "panic"', "max_attempts = 0"])
def test_wrong_setting_of_an_operation_is_refused_as_a_whole(policies, path, clock, events, wrong):
    fail, _ = failing(policies.retry("search", on=ConnectionError, clock=clock))
    write(path, f"{FOUR_ATTEMPTS}[operations.search]\n{wrong}\n")
    assert slept_by(fail, clock) == [1.0]
    assert events()[0][1]["line"] == 7


def test_file_that_drops_a_policy_the_program_asks_for_is_refused(path, clock, events):
    write(path, LAYERED)
    policies = Policies.load(path, reload_every=0, clock=clock)
    asks, _ = failing(policies.retry("x", on=ConnectionError, policy="slow", clock=clock))
    does_not, _ = failing(policies.retry("y", on=ConnectionError, clock=clock))
    write(path, FOUR_ATTEMPTS)
    assert slept_by(does_not, clock) == [1.0, 1.0]
    assert slept_by(asks, clock) == [9.0, 9.0]
    assert [fields["problem"] for _, fields in events()] == [
        "no policy is called 'slow'; the file defines: standard, but the program asks for 'slow'"
    ]
    assert policies.names == ("quick", "slow")
    with pytest.raises(PolicyFileError, match="the program asks for 'slow'"):
        policies.reload()


def test_file_may_drop_a_policy_that_nobody_asks_for_any_more(path, clock):
    write(path, LAYERED)
    policies = Policies.load(path, reload_every=0, clock=clock)
    policies.retry("x", on=ConnectionError, policy="slow", clock=clock)
    gc.collect()
    write(path, FOUR_ATTEMPTS)
    policies.reload()
    assert policies.names == ("standard",)


def test_file_is_looked_at_no_more_often_than_reload_every(path, clock):
    policies = Policies.load(path, reload_every=10, clock=clock)
    fail, calls = failing(policies.retry(on=ConnectionError, clock=clock))

    def attempts_after(seconds, written):
        write(path, f'[policies.standard]\nkind = "fixed"\ndelay = 0\nmax_attempts = {written}\n')
        clock.advance(seconds)
        calls.clear()
        slept_by(fail, clock)
        return len(calls)

    assert attempts_after(9.9, 3) == 2
    assert attempts_after(0.1, 4) == 4
    assert attempts_after(9.9, 5) == 4
    assert attempts_after(0.1, 6) == 6


def test_file_is_not_looked_at_when_reload_every_is_none(path, clock):
    policies = Policies.load(path, reload_every=None, clock=clock)
    fail, _ = failing(policies.retry(on=ConnectionError, clock=clock))
    write(path, FOUR_ATTEMPTS)
    clock.advance(1e6)
    assert slept_by(fail, clock) == [1.0]
    policies.reload()
    assert slept_by(fail, clock) == [5.0, 5.0, 5.0]


def test_unchanged_file_is_not_read_again(policies, clock, events):
    fail, _ = failing(policies.retry(on=ConnectionError, clock=clock))
    for _ in range(3):
        slept_by(fail, clock)
    assert events() == []


def test_reload_reads_the_file_whether_it_has_changed_or_not(policies, events):
    policies.reload()
    assert [name for name, _ in events()] == ["policies_reloaded"]


def test_reload_raises_for_a_broken_file_and_keeps_the_old_policies(policies, path):
    write(path, BROKEN)
    with pytest.raises(PolicyFileError, match="line 3"):
        policies.reload()
    assert policies["standard"].max_attempts == 2


def test_reload_of_parsed_text_says_that_there_is_no_file():
    with pytest.raises(UsageError, match="parsed from a text; there is no file to read again"):
        Policies.parse(TWO_ATTEMPTS).reload()


def test_using_keeps_following_the_file(policies, path, clock):
    derived = policies.retry(on=ConnectionError, clock=clock).using(deadline=12)
    fail, _ = failing(derived)
    assert slept_by(fail, clock) == [1.0]
    write(path, FOUR_ATTEMPTS)
    assert slept_by(fail, clock) == [5.0, 5.0]  # the third would come after the deadline
    further, _ = failing(derived.using(max_attempts=2))
    assert slept_by(further, clock) == [5.0]
    write(path, TWO_ATTEMPTS)
    assert slept_by(further, clock) == [1.0]


def test_using_may_replace_the_files_policy(policies, path, clock):
    fail, _ = failing(
        policies.retry(on=ConnectionError, clock=clock).using(policy=Fixed(3, jitter="none", max_attempts=2))
    )
    write(path, FOUR_ATTEMPTS)
    assert slept_by(fail, clock) == [3.0]


def test_using_refuses_an_unknown_setting(policies):
    with pytest.raises(UsageError, match="retry has no setting 'dedline'; it has: attempt_timeout, "):
        policies.retry(on=ConnectionError).using(dedline=1)


def test_retry_made_while_the_file_is_reloaded_follows_it(policies, path, clock, monkeypatch):
    """No reload may come between reading the policies in force and registering the plan for replacement."""
    building, go = threading.Event(), threading.Event()

    def build_slowly(settings):
        plan = RetryPlan(settings)
        if threading.current_thread() is making:
            building.set()
            go.wait(PATIENCE_S)
        return plan

    made = []
    making = threading.Thread(target=lambda: made.append(policies.retry(on=ConnectionError, clock=clock)))
    monkeypatch.setattr(config, "RetryPlan", build_slowly)
    making.start()
    building.wait(PATIENCE_S)
    write(path, FOUR_ATTEMPTS)
    reloading = threading.Thread(target=policies.reload)
    reloading.start()
    reloading.join(0.1)  # it has to wait for the other; if it does not, this is long enough to see it
    go.set()
    for thread in (making, reloading):
        thread.join()
    assert slept_by(failing(made[0])[0], clock) == [5.0, 5.0, 5.0]


def test_changed_file_is_read_once_however_many_calls_notice(policies, path, events, monkeypatch):
    looks, first_is_sure, second_has_looked = count(1), threading.Event(), threading.Event()
    fingerprint = config._fingerprint

    def look(source):
        match next(looks):
            case 2:  # the first call makes sure, under its lock
                first_is_sure.set()
                second_has_looked.wait(PATIENCE_S)
            case 3:  # the second call sees the change as well
                second_has_looked.set()
        return fingerprint(source)

    fails = [failing(policies.retry(on=ConnectionError, clock=ManualClock()))[0] for _ in range(2)]
    monkeypatch.setattr(config, "_fingerprint", look)
    write(path, BROKEN)
    threads = [threading.Thread(target=slept_by, args=(fail, ManualClock())) for fail in fails]
    threads[0].start()
    first_is_sure.wait(PATIENCE_S)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert [name for name, _ in events()] == ["policies_rejected"]


def test_using_another_operation_follows_the_files_entry_for_it():
    policies = Policies.parse("""
[policies.standard]
kind = "fixed"
delay = 0
max_attempts = 2
[operations.b]
max_attempts = 4
""")
    calls = []

    def fail():
        calls.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        policies.retry("a", on=ConnectionError).using(operation="b").call(fail)
    assert len(calls) == 4
