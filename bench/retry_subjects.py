"""What bench/retry.py compares: each takes a function and returns it with retries around it.

All retry ConnectionError, try five times and do not wait, written as their documentation says. Jitter is off where it
can be, and nobody logs.
"""

# ruff: noqa: PLC0415 - imports stand where they are used, so that a library that is not installed is missed alone

import asyncio
import time
from functools import partial
from inspect import iscoroutinefunction
from typing import NamedTuple

from redrive.retry import CircuitBreaker, Fixed, RetryBudget, retry

ATTEMPTS = 5
BASE, CAP = 0.0, 30.0
NO_WAIT = Fixed(0, max_attempts=ATTEMPTS)


class Subject(NamedTuple):
    """One way to retry."""

    name: str
    around: object
    kinds: tuple = ("sync", "async")
    gives_up: bool = True  # after so many attempts


def bare(fn):
    """Return the function itself: what a call costs without any retries."""
    return fn


def hand_loop(fn):
    """Write the loop that people write."""

    def call(x):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return fn(x)
            except ConnectionError:
                if attempt == ATTEMPTS:
                    raise
                time.sleep(min(CAP, BASE * 2 ** (attempt - 1)))
        raise AssertionError

    async def call_async(x):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await fn(x)
            except ConnectionError:
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(min(CAP, BASE * 2 ** (attempt - 1)))
        raise AssertionError

    return call_async if iscoroutinefunction(fn) else call


def redrive_as_it_comes(fn):
    """Give the one setting that must be given. Exponential waits, jitter and a deadline of 60 s are on."""
    return retry(on=ConnectionError)(fn)


def redrive_no_wait(fn):
    """Take the waits away; the deadline stays."""
    return retry(on=ConnectionError, policy=NO_WAIT)(fn)


def redrive_guarded(fn):
    """Add a breaker and a budget, large enough for the failures here."""
    budget = RetryBudget(ratio=1.0, per_second=1e6, burst=1e6)
    return retry(on=ConnectionError, policy=NO_WAIT, breaker=CircuitBreaker("api"), budget=budget)(fn)


def redrive_failure_rate(fn):
    """Add a breaker that counts successes too."""
    return retry(on=ConnectionError, policy=NO_WAIT, breaker=CircuitBreaker("api", failure_rate=0.9))(fn)


def redrive_deadline(fn):
    """State a deadline, which calls inside must be able to see."""
    return retry(on=ConnectionError, policy=NO_WAIT, deadline=60)(fn)


def redrive_call(fn):
    """Call through a retry that a client holds."""
    held = retry(on=ConnectionError, policy=NO_WAIT)
    return partial(held.call_async if iscoroutinefunction(fn) else held.call, fn)


def redrive_block(fn):
    """Loop over a retry that a client holds."""
    held = retry(on=ConnectionError, policy=NO_WAIT)

    def call(x):
        for attempt in held:
            with attempt:
                return fn(x)
        raise AssertionError

    return call


def redrive_block_inline(fn):
    """Make the retry where it is used."""

    def call(x):
        for attempt in retry(on=ConnectionError, policy=NO_WAIT):
            with attempt:
                return fn(x)
        raise AssertionError

    return call


def tenacity(fn):
    """https://tenacity.readthedocs.io/."""
    from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_none

    stop, on = stop_after_attempt(ATTEMPTS), retry_if_exception_type(ConnectionError)
    return retry(retry=on, stop=stop, wait=wait_none(), reraise=True)(fn)


def tenacity_block(fn):
    """Hold one Retrying, which is kinder than to make one for every block."""
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_none

    stop, on = stop_after_attempt(ATTEMPTS), retry_if_exception_type(ConnectionError)
    held = Retrying(retry=on, stop=stop, wait=wait_none(), reraise=True)

    def call(x):
        for attempt in held:
            with attempt:
                return fn(x)
        raise AssertionError

    return call


def stamina(fn):
    """https://stamina.hynek.me/. Its default is to log every retry; that is switched off."""
    import stamina

    stamina.instrumentation.set_on_retry_hooks([])
    return stamina.retry(on=ConnectionError, attempts=ATTEMPTS, wait_initial=0, wait_max=0, wait_jitter=0)(fn)


def stamina_block(fn):
    """Make the context where it is used; it cannot be held."""
    import stamina

    def call(x):
        for attempt in stamina.retry_context(
            on=ConnectionError, attempts=ATTEMPTS, wait_initial=0, wait_max=0, wait_jitter=0
        ):
            with attempt:
                return fn(x)
        raise AssertionError

    return call


def backoff(fn):
    """https://github.com/litl/backoff. Its default is to log every retry; that is switched off."""
    import backoff

    return backoff.on_exception(
        backoff.constant, ConnectionError, max_tries=ATTEMPTS, jitter=None, logger=None, interval=0
    )(fn)


def pyresilience(fn):
    """https://pypi.org/project/pyresilience/."""
    from pyresilience import RetryConfig, resilient

    config = RetryConfig(max_attempts=ATTEMPTS, delay=0, jitter=False, retry_on=(ConnectionError,))
    return resilient(retry=config)(fn)


def redress(fn):
    """https://pypi.org/project/redress/. Its classifier takes ConnectionError as transient."""
    import redress

    return redress.retry(strategy=lambda _context: 0.0, max_attempts=ATTEMPTS)(fn)


def pyfailsafe(fn):
    """https://pypi.org/project/pyfailsafe/. Its default is not to wait."""
    from failsafe import Failsafe, RetryPolicy

    return partial(Failsafe(RetryPolicy(ATTEMPTS - 1, [ConnectionError])).run, fn)


def hyx(fn):
    """https://hyx.readthedocs.io/."""
    from hyx.retry import retry
    from hyx.retry.backoffs import const

    return retry(on=ConnectionError, attempts=ATTEMPTS, backoff=const(0))(fn)


def opnieuw(fn):
    """https://github.com/channable/opnieuw. It always draws a wait, which the stubbed sleep skips."""
    from opnieuw import retry

    return retry(retry_on_exceptions=ConnectionError, max_calls_total=ATTEMPTS)(fn)


def google_api_core(fn):
    """https://googleapis.dev/python/google-api-core/. It always draws a wait and knows no limit on attempts."""
    from google.api_core.retry import AsyncRetry, Retry, if_exception_type

    kind = AsyncRetry if iscoroutinefunction(fn) else Retry
    return kind(predicate=if_exception_type(ConnectionError))(fn)


BARE = Subject("bare call", bare)
HAND_LOOP = Subject("hand-written loop", hand_loop)
REDRIVE = Subject("redrive @retry, as it comes", redrive_as_it_comes)
NO_WAITS = Subject("redrive @retry, no wait", redrive_no_wait)
GUARDED = Subject("redrive @retry, breaker and budget", redrive_guarded)
TENACITY = Subject("tenacity", tenacity)

OURS = [
    GUARDED,
    Subject("redrive @retry, failure-rate breaker", redrive_failure_rate),
    Subject("redrive @retry, stated deadline", redrive_deadline),
    Subject("redrive .call()", redrive_call),
]
PEERS = [
    TENACITY,
    Subject("stamina", stamina),
    Subject("backoff", backoff),
    Subject("pyresilience", pyresilience),
    Subject("redress", redress),
    Subject("pyfailsafe", pyfailsafe, kinds=("async",)),
    Subject("hyx", hyx, kinds=("async",)),
    Subject("opnieuw", opnieuw),
    Subject("google-api-core", google_api_core, gives_up=False),
]
BLOCKS = [
    Subject("redrive block, held", redrive_block, kinds=("sync",)),
    Subject("redrive block, made on the spot", redrive_block_inline, kinds=("sync",)),
    Subject("tenacity block, held", tenacity_block, kinds=("sync",)),
    Subject("stamina block, made on the spot", stamina_block, kinds=("sync",)),
]
