# SPDX-License-Identifier: MIT
"""Declaring a handler: what it may be, and what its settings may be."""

from functools import partial
from typing import Any

import pytest

from redrive.broker.decode import decoder
from redrive.errors import InvalidSetting, UnknownSetting, UsageError
from redrive.retry import Exponential, Fixed
from redrive.worker import BlockingContext, Context, Recoverability, Worker


def declared(fn, **settings):
    worker = Worker()
    worker.handler("orders", **settings)(fn)
    return worker._handlers["orders"]


def named(value):
    """Return a test id that is the same in every process."""
    return getattr(value, "__name__", None) or (str(value) if isinstance(value, bool) else type(value).__name__)


async def with_context(body: bytes, context: Context): ...
async def context_only(context: Context): ...
async def untyped(body, context): ...
def blocking(body: str, context: BlockingContext): ...
def plain(body): ...
def optional(body, *, flag=False): ...
def defaulted(body, flag=False): ...
def any_arguments(*args): ...
def anything(body: Any, context: Any): ...


class Callable:
    async def __call__(self, body: dict): ...


@pytest.mark.parametrize(
    ("fn", "is_async", "has_payload", "takes_context"),
    [
        (with_context, True, True, True),
        (context_only, True, False, True),
        (untyped, True, True, True),
        (blocking, False, True, True),
        (plain, False, True, False),
        (optional, False, True, False),
        (defaulted, False, True, False),
        (any_arguments, False, True, False),
        (anything, False, True, True),
        (Callable(), True, True, False),
        (partial(with_context, context=1), True, True, False),
        (lambda _body: None, False, True, False),
        (print, False, True, False),
    ],
    ids=named,
)
def test_a_handler_is_known_by_its_signature(fn, is_async, has_payload, takes_context):
    handler = declared(fn)
    assert (handler.is_async, handler.decode is not None, handler.takes_context) == (
        is_async,
        has_payload,
        takes_context,
    )


def no_parameters(): ...
def three(a, b, c): ...
def keyword(body, *, needed): ...
def generator(_body):
    yield


async def async_generator(_body):
    yield


def wrong_context(body, context: Context): ...
async def wrong_blocking(body, context: BlockingContext): ...
async def wrong_second(body, context: int): ...
def like_a_task(order_id, qty: int): ...
def like_a_task_without_types(order_id, qty): ...
async def context_first(context: Context, body): ...
def wrong_first(context: Context): ...
def unknown(body: "Nowhere"): ...  # noqa: F821 - that is the point


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (no_parameters, r"takes \(\): a handler takes one payload"),
        (three, r"takes \(a, b, c\): a handler takes one payload"),
        (keyword, r"takes \(body, \*, needed\): a handler takes one payload"),
        (generator, "must not be a generator"),
        (async_generator, "must not be a generator"),
        (wrong_context, "is blocking, so its context is a BlockingContext"),
        (wrong_blocking, "is async, so its context is a Context"),
        (
            wrong_second,
            r"takes \(body, context\): .*, and optionally a context: async def ship\(order: Order, context: Context\)",
        ),
        (like_a_task, r"takes \(order_id, qty\): a handler takes one payload, .* for several values, take a dataclass"),
        (like_a_task_without_types, r"takes \(order_id, qty\): a handler takes one payload"),
        (context_first, "must take the payload first and the context second"),
        (wrong_first, "is blocking, so its context is a BlockingContext"),
        (unknown, "has an annotation that cannot be found: name 'Nowhere' is not defined"),
        (dict, "must be a function"),
        (7, "must be a function"),
    ],
    ids=named,
)
def test_a_function_that_cannot_handle_is_refused(fn, says):
    with pytest.raises(InvalidSetting, match=says):
        declared(fn)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"concurrency": 0}, "concurrency=0: must be a whole number from 1 to 1,000"),
        ({"concurrency": True}, "concurrency=True: must be"),
        ({"concurrency": 1_001}, "must be a whole number from 1 to 1,000"),
        ({"prefetch": -1}, "prefetch=-1: must be a whole number from 0 to 10,000"),
        ({"prefetch": 1.5}, "prefetch=1.5: must be"),
        ({"recoverability": 7}, r"recoverability=7: must be a Recoverability\(...\), or a function"),
        ({"recoverability": Recoverability}, "must be a Recoverability"),
        ({"auto_complete": 1}, "auto_complete=1: must be True or False"),
        ({"timeout": 0}, "timeout=0: must be more than 0"),
        ({"max_lock_renewal": -1}, "max_lock_renewal=-1: must be 0 to"),
        ({"retry_in_place": 3}, "retry_in_place=3: must be a policy with max_attempts"),
        ({"retry_in_place": Exponential(max_attempts=None)}, "must be a policy with max_attempts"),
        ({"slow_down": 5}, r"slow_down=5: must be a SlowDown\(...\), or None for never"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_it_may_be(wrong, says):
    with pytest.raises(InvalidSetting, match=says):
        declared(plain, **wrong)


@pytest.mark.parametrize("queue", ["", "a b", 7, None, "x" * 300])
def test_a_wrong_queue_name_is_refused(queue):
    with pytest.raises(InvalidSetting, match="queue="):
        Worker().handler(queue)


def test_a_handler_declared_without_brackets_says_so():
    with pytest.raises(
        UsageError, match=r"write @worker\.handler\('orders'\) above .*plain: a handler needs its queue"
    ):
        Worker().handler(plain)


@pytest.mark.parametrize(
    ("of", "wrong", "nearest"),
    [("handler", "concurency", "concurrency"), ("handler", "prefecth", "prefetch"), ("Worker", "on_err", "on_error")],
)
def test_a_setting_that_there_is_not_is_answered_with_the_nearest(of, wrong, nearest):
    make = Worker if of == "Worker" else partial(Worker().handler, "orders")
    with pytest.raises(
        UnknownSetting, match=rf"{of} has no setting '{wrong}'; it has: .*\. Did you mean '{nearest}'\?"
    ) as refused:
        make(**{wrong: 3})
    assert (refused.value.of, refused.value.setting, nearest in refused.value.known) == (of, wrong, True)
    assert isinstance(refused.value, TypeError)


def test_the_defaults_are_safe():
    handler = declared(plain)
    assert (handler.concurrency, handler.prefetch, handler.auto_complete) == (1, 0, True)
    assert (handler.timeout, handler.max_lock_renewal, handler.retry_in_place) == (None, 300.0, None)
    assert handler.slow_down is not None


def test_no_slow_down_and_retries_in_place_are_taken():
    handler = declared(plain, slow_down=None, retry_in_place=Fixed(0.1, max_attempts=3))
    assert (handler.slow_down, handler.retry_in_place) == (None, Fixed(0.1, max_attempts=3))


def test_an_unannotated_payload_is_bytes():
    from redrive.broker import Message

    assert declared(plain).decode(Message(b"x")) == decoder(bytes)(Message(b"x"))
