# SPDX-License-Identifier: MIT
"""A decorated function is the function it was: same signature, same kind, same name, nothing left behind."""

import asyncio
import contextlib
import functools
import gc
import inspect
import os
import pickle
import subprocess
import sys
import traceback
import typing
import weakref
from operator import itemgetter
from unittest import mock

import pytest

from redrive.errors import UsageError
from redrive.retry import CircuitBreaker, Fixed, Policies, RetryBudget, retry
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S

CLOCK = ManualClock(auto_advance=True)
retrying = retry(on=ConnectionError, policy=Fixed(0.0), clock=CLOCK)

WAYS = {
    "as it comes": dict,
    "stated deadline": lambda: {"deadline": 5.0},
    "breaker and budget": lambda: {"breaker": CircuitBreaker(failures=9), "budget": RetryBudget()},
    "breaker by rate": lambda: {"breaker": CircuitBreaker(failure_rate=0.5)},
    "on_result": lambda: {"on_result": lambda _result: False},
    "predicate": lambda: {"on": lambda _error: True},
}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def settings(request):
    """Every way in which a wrapper is written differently."""
    return request.param()


def failing_first(function):
    """Return the function's twin that fails in every first call, with the same signature."""

    @functools.wraps(function)
    def twin(*args, **kwargs):
        twin.calls += 1
        if twin.calls % 2:
            raise ConnectionError
        return function(*args, **kwargs)

    twin.calls = 0
    return twin


# --- signatures -------------------------------------------------------------------------------------------------------

SENTINEL = []


def plain(a, b):
    return a, b


def with_defaults(a, b=2, c=SENTINEL):
    return a, b, c


def positional_only(a, b=2, /):
    return a, b


def positional_only_and_others(a, /, b, c=3):
    return a, b, c


def keyword_only(*, a, b=SENTINEL):
    return a, b


def rest(a, *args):
    return a, args


def rest_and_keywords(a, *args, b, c=3, **kwargs):
    return a, args, b, c, kwargs


def keywords(**kwargs):
    return kwargs


def everything(a, /, b, c=SENTINEL, *args, d, e=5, **kwargs):
    return a, b, c, args, d, e, kwargs


def names_that_look_like_ours(args, kwargs, fn, *, live, self, attempts, name, started, errors, failure):
    return args, kwargs, fn, live, self, attempts, name, started, errors, failure


def names_that_are_ours(_redrive_fn, *, _redrive_live=2):
    return _redrive_fn, _redrive_live


def name_of_the_wrapper(with_retry, print=None):  # noqa: A002 - that is the point
    return with_retry, print


def nothing():
    return ()


def with_a_cell(a, b=2):
    def inner():
        return a, b

    return inner()


def with_many_locals(a):
    b = a
    c, *d = [b], 1
    return [e for e in (a, b, c, d)]  # noqa: C416 - a comprehension has a code object with names of its own


CALLS = [
    (plain, (1, 2), {}),
    (plain, (1,), {"b": 2}),
    (plain, (), {"b": 2, "a": 1}),
    (with_defaults, (1,), {}),
    (with_defaults, (1, 5), {"c": 6}),
    (positional_only, (1,), {}),
    (positional_only, (1, 3), {}),
    (positional_only_and_others, (1,), {"b": 2}),
    (positional_only_and_others, (1, 2, 4), {}),
    (keyword_only, (), {"a": 1}),
    (keyword_only, (), {"a": 1, "b": 3}),
    (rest, (1,), {}),
    (rest, (1, 2, 3), {}),
    (rest_and_keywords, (1, 2, 3), {"b": 4, "z": 5}),
    (keywords, (), {"self": 1, "fn": 2, "args": 3, "kwargs": 4}),
    (everything, (1, 2), {"d": 4}),
    (everything, (1, 2, 3, 4, 5), {"d": 6, "e": 7, "a": 8, "x": 9}),
    (
        names_that_look_like_ours,
        (1, 2, 3),
        {"live": 4, "self": 5, "attempts": 6, "name": 7, "started": 8, "errors": 9, "failure": 10},
    ),
    (names_that_are_ours, (1,), {"_redrive_live": 3}),
    (names_that_are_ours, (1,), {}),
    (name_of_the_wrapper, (1,), {"print": 2}),
    (nothing, (), {}),
    (with_a_cell, (1,), {}),
    (with_many_locals, (1,), {}),
]
each_call = pytest.mark.parametrize(
    ("function", "args", "kwargs"), CALLS, ids=[f"{number} {call[0].__name__}" for number, call in enumerate(CALLS)]
)


@each_call
def test_arguments_arrive_as_they_were_given(function, args, kwargs, settings):
    assert retrying.using(**settings)(function)(*args, **kwargs) == function(*args, **kwargs)


@each_call
def test_arguments_arrive_at_the_second_attempt_too(function, args, kwargs, settings):
    calls = []
    wrapped = retrying.using(**settings)(function)

    def failing_once(*args_given, **kwargs_given):
        calls.append((args_given, kwargs_given))
        if len(calls) == 1:
            raise ConnectionError
        return function(*args_given, **kwargs_given)

    wrapped.__globals__["_redrive_fn"] = failing_once  # behind the wrapper that was made for the function's signature
    assert wrapped(*args, **kwargs) == function(*args, **kwargs)
    assert calls[0] == calls[1]


@each_call
async def test_arguments_of_async_functions_arrive_too(function, args, kwargs):
    source = inspect.getsource(function).replace("def ", "async def ", 1)
    namespace = {"SENTINEL": SENTINEL}
    exec(source, namespace)  # noqa: S102 - the functions above, as async ones
    wrapped = retrying(namespace[function.__name__])
    assert inspect.iscoroutinefunction(wrapped)
    assert await wrapped(*args, **kwargs) == function(*args, **kwargs)


@pytest.mark.parametrize("function", dict.fromkeys(call[0] for call in CALLS), ids=lambda function: function.__name__)
def test_wrong_arguments_are_refused_by_the_function_itself(function):
    with pytest.raises(TypeError, match=function.__name__):
        retrying(function)(*range(50), no_such_argument=1)


@each_call
def test_the_signature_is_the_functions_own(function, args, kwargs):
    wrapped = retrying(function)
    assert inspect.signature(wrapped) == inspect.signature(function)
    inspect.signature(wrapped).bind(*args, **kwargs)
    if function is not names_that_are_ours:  # that one takes anything and passes it on
        own = inspect.signature(wrapped, follow_wrapped=False)
        assert str(own).split(" ->")[0] == str(inspect.signature(function))
        assert wrapped.__defaults__ is function.__defaults__
        assert wrapped.__kwdefaults__ is function.__kwdefaults__


def test_a_mutable_default_is_the_very_same_object():
    assert retrying(with_defaults)(1)[2] is SENTINEL
    assert retrying(keyword_only)(a=1)[1] is SENTINEL


@each_call
def test_arguments_arrive_through_a_policy_from_a_file(function, args, kwargs):
    policies = Policies.parse("""
        [policies.patient]
        kind = "fixed"
        delay = 0
    """)
    wrapped = policies.retry("op", on=ConnectionError)(function)
    assert wrapped(*args, **kwargs) == function(*args, **kwargs)


# --- identity ---------------------------------------------------------------------------------------------------------


@retrying
def documented(a: int, *, b: "str" = "") -> "list[int]":
    """Say what it does."""
    return [a, len(b)]


documented.extra = "kept"


@retrying
async def documented_async(a: int) -> int:
    return a


def test_name_documentation_and_attributes_are_the_functions_own():
    assert (documented.__name__, documented.__qualname__) == ("documented", "documented")
    assert documented.__module__ == __name__
    assert documented.__doc__ == "Say what it does."
    assert documented.extra == "kept"
    assert documented.__wrapped__(1, b="xy") == [1, 2]
    assert inspect.isfunction(documented)


def test_attributes_of_the_function_are_carried_over():
    def function():
        pass

    function.route = "/x"
    assert retrying(function).route == "/x"


def test_type_hints_are_the_functions_own():
    assert typing.get_type_hints(documented) == {"a": int, "b": str, "return": list[int]}


@pytest.mark.parametrize("function", [documented, documented_async], ids=["sync", "async"])
def test_a_decorated_function_is_pickled_by_its_name(function):
    with mock.patch.dict(sys.modules, {__name__: inspect.getmodule(plain) or mock.Mock(**globals())}):
        assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301 - our own bytes


def test_an_async_function_stays_one():
    assert inspect.iscoroutinefunction(documented_async)
    assert not inspect.iscoroutinefunction(documented)
    assert asyncio.run(documented_async(3)) == 3


def test_a_function_may_be_decorated_twice():
    calls = []

    @retrying.using(max_attempts=2)
    @retrying.using(max_attempts=3)
    def function():
        calls.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        function()
    assert len(calls) == 6


def test_a_recursive_function_is_retried_at_every_level():
    calls = []

    @retrying
    def count_down(n):
        calls.append(n)
        if len(calls) == 3:
            raise ConnectionError
        return n and count_down(n - 1)

    assert count_down(3) == 0
    assert calls == [3, 2, 1, 1, 0]


# --- methods ----------------------------------------------------------------------------------------------------------


class Client:
    """Everything in it fails in every first call."""

    failed: typing.ClassVar[dict[str, int]] = {}

    def __init__(self, name="client"):
        self.name = name

    @classmethod
    def flaky(cls, what):
        cls.failed[what] = cls.failed.get(what, 0) + 1
        if cls.failed[what] % 2:
            raise ConnectionError(what)

    @retrying
    def method(self, a, *, b=2):
        self.flaky("method")
        return self.name, a, b

    @retrying
    async def async_method(self, a):
        self.flaky("async_method")
        return self.name, a

    @classmethod
    @retrying
    def class_method_outside(cls, a):
        cls.flaky("class_method_outside")
        return cls.__name__, a

    @retrying
    @classmethod
    def class_method_inside(cls, a):
        cls.flaky("class_method_inside")
        return cls.__name__, a

    @staticmethod
    @retrying
    def static_outside(a):
        Client.flaky("static_outside")
        return a

    @retrying
    @staticmethod
    def static_inside(a):
        Client.flaky("static_inside")
        return a

    @retrying
    @classmethod
    async def async_class_method(cls, a):
        cls.flaky("async_class_method")
        return cls.__name__, a

    @property
    @retrying
    def prop(self):
        self.flaky("prop")
        return self.name

    @retrying
    def __mangled(self, *, __argument=7):
        self.flaky("mangled")
        return __argument

    def mangled(self):
        return self.__mangled()

    def plain_method(self, a):
        self.flaky("plain_method")
        return self.name, a


class Derived(Client):
    pass


@pytest.fixture(autouse=True)
def fresh_failures():
    Client.failed.clear()


def test_methods_of_every_kind_are_retried():
    client = Derived("mine")
    assert client.method(1, b=3) == ("mine", 1, 3)
    assert client.prop == "mine"
    assert client.mangled() == 7
    assert Derived.class_method_outside(1) == client.class_method_inside(1) == ("Derived", 1)
    assert Derived.static_outside(5) == client.static_inside(5) == 5
    assert Client.method(client, 1) == ("mine", 1, 2)
    assert retrying(client.plain_method)(4) == ("mine", 4)
    assert set(Client.failed.values()) <= {2, 4}


async def test_async_methods_are_retried():
    client = Derived("mine")
    assert await client.async_method(1) == ("mine", 1)
    assert await Derived.async_class_method(1) == ("Derived", 1)
    assert inspect.iscoroutinefunction(client.async_method)
    assert set(Client.failed.values()) == {2}


# --- other callables --------------------------------------------------------------------------------------------------


class CallableObject:
    """An object to be called."""

    def __init__(self):
        self.calls = 0

    def __call__(self, a, b=2):
        self.calls += 1
        if self.calls == 1:
            raise ConnectionError
        return a, b


class AsyncCallableObject(CallableObject):
    async def __call__(self, a, b=2):
        return super().__call__(a, b)


def test_a_callable_object_is_retried():
    target = CallableObject()
    assert retrying(target)(1, b=3) == (1, 3)
    assert target.calls == 2


async def test_an_async_callable_object_is_retried():
    wrapped = retrying(AsyncCallableObject())
    assert inspect.iscoroutinefunction(wrapped)
    assert await wrapped(1, b=3) == (1, 3)


def test_a_partial_is_retried():
    assert retrying(functools.partial(CallableObject(), 1))(b=5) == (1, 5)


async def test_an_async_partial_is_retried():
    async def function(a, b):
        return a, b

    wrapped = retrying(functools.partial(function, 1))
    assert inspect.iscoroutinefunction(wrapped)
    assert await wrapped(2) == (1, 2)


def test_a_builtin_is_retried():
    assert retrying(len)([1, 2]) == 2
    assert retrying(itemgetter(1))("ab") == "b"
    assert retrying("a-b".split)("-") == ["a", "b"]


def test_a_lambda_is_retried():
    answers = iter([ConnectionError, None])

    def step():
        answer = next(answers)
        if answer:
            raise answer

    assert retrying(lambda x=5: (step(), x))() == (None, 5)


def test_a_mock_is_retried():
    target = mock.Mock(side_effect=[ConnectionError, 5])
    assert retrying(target)(1) == 5
    assert target.call_args_list == [mock.call(1)] * 2


async def test_an_async_mock_is_retried():
    target = mock.AsyncMock(side_effect=[ConnectionError, 5])
    assert await retrying(target)(1) == 5


def test_a_function_that_wraps_another_keeps_what_it_wraps():
    @functools.wraps(plain)
    def outer(*args):
        return plain(*args)

    wrapped = retrying(outer)
    assert wrapped.__wrapped__ is outer
    assert inspect.unwrap(wrapped) is plain
    assert inspect.signature(wrapped) == inspect.signature(plain)
    assert wrapped(1, 2) == (1, 2)


class GeneratorObject:
    def __call__(self):
        yield 1

    def method(self):
        yield 1

    async def async_method(self):
        yield 1


class AsyncGeneratorObject:
    async def __call__(self):
        yield 1


@pytest.mark.parametrize(
    "thing",
    [
        GeneratorObject().method,
        GeneratorObject().async_method,
        GeneratorObject.method,
        functools.partial(GeneratorObject.method, None),
        functools.partial(GeneratorObject().async_method),
        GeneratorObject(),
        AsyncGeneratorObject(),
        staticmethod(GeneratorObject.method),
    ],
    ids=["method", "async method", "function", "partial", "async partial", "object", "async object", "staticmethod"],
)
def test_a_generator_in_whatever_wrapping_is_refused(thing):
    with pytest.raises(UsageError, match="is a generator"):
        retrying(thing)


# --- tracebacks -------------------------------------------------------------------------------------------------------


def test_a_traceback_shows_the_generated_line():
    @retrying
    def shown_in_traceback(a, b):
        raise ValueError(a, b)

    with pytest.raises(ValueError, match="1") as caught:
        shown_in_traceback(1, 2)
    text = "".join(traceback.format_exception(caught.value))
    assert "return _redrive_fn(a, b)" in text
    assert ".shown_in_traceback> by redrive" in text


def test_a_traceback_shows_the_generated_line_of_a_lambda():
    with pytest.raises(ZeroDivisionError) as caught:
        retrying(lambda x: 1 / x)(0)
    assert "return _redrive_fn(x)" in "".join(traceback.format_exception(caught.value))


def test_generated_code_is_no_file_that_coverage_would_look_for(tmp_path):
    """Coverage fails a whole report for one file without a source; it leaves alone what begins with ``<``."""
    program = "from redrive.retry import retry\nretry(on=OSError)(lambda x: x)(1)\n"
    (tmp_path / "program.py").write_text(program)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    for command in (["run", "program.py"], ["report"]):
        done = subprocess.run(
            [sys.executable, "-m", "coverage", *command],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert "program.py" in done.stdout


# --- nothing is left behind -------------------------------------------------------------------------------------------


def outcomes(settings):
    """Return calls of decorated functions with every outcome, each of which can be repeated."""
    configured = retrying.using(**settings)
    flaky = failing_first(plain)

    succeeding, flaking = configured(plain), configured(flaky)

    @configured
    def failing(a):
        raise ConnectionError(a)

    @configured
    def foreign(a):
        raise KeyError(a)

    def give_up():
        with contextlib.suppress(ConnectionError):
            failing([])

    def pass_on():
        with contextlib.suppress(KeyError):
            foreign([])

    return {
        "success": lambda: succeeding(1, 2),
        "success after a retry": lambda: flaking(1, 2),
        "give-up": give_up,
        "foreign error": pass_on,
    }


@pytest.mark.parametrize("settings", [{}, {"deadline": 5.0}, {"on": lambda error: isinstance(error, ConnectionError)}])
def test_nothing_is_left_for_the_cycle_collector(settings):
    for name, call in outcomes(settings).items():
        call()
        gc.collect()
        gc.freeze()  # what is there by now need not be looked at again
        gc.disable()
        try:
            for _ in range(20):
                call()
            assert gc.collect() == 0, name
        finally:
            gc.enable()


async def test_nothing_is_left_for_the_cycle_collector_by_async_calls():
    @retrying
    async def succeeding(a):
        return a

    flaky = failing_first(plain)

    @retrying
    async def flaking(a):
        return flaky(a, 2)

    @retrying
    async def failing(a):
        raise ConnectionError(a)

    async def give_up():
        with contextlib.suppress(ConnectionError):
            await failing([])

    for call in (lambda: succeeding(1), lambda: flaking(1), give_up):
        await call()
        gc.collect()
        gc.freeze()  # what is there by now need not be looked at again
        gc.disable()
        try:
            for _ in range(100):
                await call()
            assert gc.collect() == 0
        finally:
            gc.enable()


class Argument:
    pass


def test_an_argument_dies_with_its_call(settings):
    configured = retrying.using(**settings)

    @configured
    def function(argument, *, error=None):
        if error:
            raise error
        return id(argument)

    gc.disable()
    try:
        for error in (None, ConnectionError):
            argument = Argument()
            watched = weakref.ref(argument)
            with contextlib.suppress(ConnectionError):
                function(argument, error=error)
            del argument
            assert watched() is None
    finally:
        gc.enable()
