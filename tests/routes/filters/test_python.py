# SPDX-License-Identifier: MIT
"""The filters that are a function of the program."""

import json
import subprocess
import sys

import pytest

from redrive.errors import InvalidPayload, InvalidSetting, MessageError
from redrive.routes.filters.python import PythonCallFilter, PythonFilter
from redrive.routes.outcomes import Rejected
from tests.patience import PATIENCE_S
from tests.routes.filters import functions
from tests.routes.filters.events import environment, event, leg

HERE = "tests.routes.filters.functions"


def ask(wanted, **properties):
    return event({"old": 1}, subject=wanted, headers={"region": "eu"}, **properties)


async def called(function, message):
    opened = PythonCallFilter(function).open(environment())
    try:
        return await opened.apply(message, leg())
    finally:
        await opened.ended(message, leg(), is_delivered=False)
        await opened.close()


async def both(wanted, **properties):
    """Return what both kinds of filters make of an event, which must be the same."""
    message = ask(wanted, **properties)
    made = list(PythonFilter(functions.result).apply(message, leg()))
    for function in (functions.result, functions.later, functions.coroutine):
        assert list(await called(function, message)) == made
    return made


# --- what a function returns


async def test_true_passes_and_false_consumes_the_event():
    assert await both("pass") == [ask("pass")]
    assert await both("consume") == []


async def test_a_message_goes_on_instead_and_keeps_the_id_if_it_has_none():
    (made,) = await both("message")
    assert (made.body, made.id, made.subject) == (b"new", "m-1", "changed")
    (made,) = await both("no-id")
    assert (made.body, made.id, made.subject) == (b"new", "o-1", None)
    (made,) = await both("no-id", id=None)
    assert made.id is None


async def test_messages_make_parts_with_ids_that_are_the_same_in_every_replay():
    made = await both("messages")
    assert [(each.body, each.id) for each in made] == [(b"a", "o-1:0"), (b"b", "o-1:1")]
    assert await both("no-messages") == []


@pytest.mark.parametrize(
    ("wanted", "body", "content_type"),
    [
        ("dict", b'{"a":1}', "application/json"),
        ("dataclass", b'{"number":7}', "application/json"),
        ("zero", b"0", "application/json"),
        ("text", b"plain", "text/plain; charset=utf-8"),
        ("bytes", b"\xff", None),
    ],
)
async def test_anything_that_can_be_sent_is_a_new_body(wanted, body, content_type):
    (made,) = await both(wanted)
    assert (made.body, made.content_type) == (body, content_type)
    assert (made.id, made.subject, made.headers) == ("o-1", wanted, {"region": "eu"})


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ("nothing", f"{HERE}:result returned None; return True to pass the event, False to consume it"),
        ("list", "return Message.of([...]) for a body that is a list"),
        ("object", "must be bytes, a text, JSON values"),
    ],
)
async def test_anything_else_is_an_error_of_the_event(wanted, problem):
    with pytest.raises(MessageError) as failed:
        PythonFilter(functions.result).apply(ask(wanted), leg())
    assert problem in str(failed.value)
    rejected = await called(functions.result, ask(wanted))
    assert isinstance(rejected, Rejected)
    assert problem in rejected.reason


# --- reaching outside


@pytest.mark.parametrize("wanted", functions.RESULTS)
@pytest.mark.parametrize("function", [functions.result, functions.later])
async def test_a_call_may_return_an_outcome(function, wanted):
    assert await called(function, ask(wanted)) == functions.RESULTS[wanted]


async def test_a_pure_function_may_not_return_an_outcome():
    with pytest.raises(MessageError):  # as it would be written as a body
        PythonFilter(functions.result).apply(ask("later"), leg())


async def test_a_blocking_function_runs_in_a_thread():
    (made,) = await called(functions.thread, ask("pass"))
    assert json.loads(made.body)["thread"] != "MainThread"


async def test_an_error_of_the_event_rejects_it_and_any_other_is_left_to_the_route():
    assert await called(functions.refuses, ask("pass")) == Rejected("InvalidPayload: no customer")
    with pytest.raises(KeyError):
        await called(functions.fails, ask("pass"))
    with pytest.raises(ConnectionRefusedError):
        await called(functions.unreachable, ask("pass"))


def test_what_a_pure_function_raises_is_left_to_the_route():
    with pytest.raises(KeyError):
        PythonFilter(functions.fails).apply(ask("pass"), leg())


# --- names


@pytest.mark.parametrize("filter_class", [PythonFilter, PythonCallFilter])
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (functions.result, "result"),
        (functions.decorated, "decorated"),
        (functions.Checks.static, "Checks.static"),
        (f"{HERE}:result", "result"),
    ],
)
def test_a_function_is_kept_as_its_name(filter_class, function, name):
    made = filter_class(function)
    made.ready()
    assert made.function == f"{HERE}:{name}"
    assert filter_class.from_table(made.to_table()) == made


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (functions.nameless, "a lambda has no name to be found by"),
        (functions.hidden, "a function inside another one cannot be imported"),
        (functions.Checks().method, "is something else than this function"),
        (functions.Checks(), "must be a function, which has a name"),
        (functions.half, "must be a function, which has a name"),
    ],
    ids=["lambda", "local", "method", "object", "partial"],
)
def test_a_function_that_other_processes_cannot_import_is_refused_with_the_fix(function, problem):
    for filter_class in (PythonFilter, PythonCallFilter):
        with pytest.raises(InvalidSetting) as refused:
            filter_class(function)
        assert problem in str(refused.value)
        assert "write it with def at the top level of a module" in str(refused.value)


def test_a_function_of_the_file_that_was_started_is_refused():
    program = """
from redrive.routes.filters.python import PythonFilter
def own(message): return True
try:
    PythonFilter(own)
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert "the file that was started cannot be imported by that name" in done.stdout


@pytest.mark.parametrize("name", ["", "result", "a.b", "a:b:c", "a b:c", ":c", "a:", "../a:b", 7, None])
def test_a_name_has_a_module_and_a_function(name):
    with pytest.raises(InvalidSetting, match=r"must be a function, or its name as 'package.module:function'"):
        PythonFilter(name)


@pytest.mark.parametrize("name", [f"{HERE}:missing", f"{HERE}:Checks.missing.deeper", "missing_module.x:f"])
def test_a_name_that_cannot_be_imported_is_refused_when_the_filter_is_to_work(name):
    for made in (PythonFilter(name), PythonCallFilter(name)):
        with pytest.raises(InvalidSetting, match="cannot be imported: see that"):
            made.ready()
    with pytest.raises(InvalidSetting):
        PythonCallFilter(name).open(environment())
    with pytest.raises(InvalidSetting):
        PythonFilter(name).apply(ask("pass"), leg())


def test_a_module_that_imports_what_is_missing_says_so(tmp_path, monkeypatch):
    (tmp_path / "imports_missing.py").write_text("import not_installed_anywhere")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        InvalidSetting, match=r"imports_missing.py, line 1: ModuleNotFoundError: .*not_installed_anywhere"
    ):
        PythonFilter("imports_missing:f").ready()


def test_what_is_no_function_is_refused():
    with pytest.raises(InvalidSetting, match="is int, and must be a function"):
        PythonFilter(f"{HERE}:number").ready()


def test_an_async_function_is_no_pure_one():
    with pytest.raises(InvalidSetting, match="use the filter 'call'"):
        PythonFilter(functions.later).ready()
    PythonCallFilter(functions.later).ready()


def test_a_coroutine_that_a_pure_function_makes_is_an_error():
    with pytest.raises(InvalidPayload, match="returned a coroutine"):
        PythonFilter(functions.coroutine).apply(ask("pass"), leg())
