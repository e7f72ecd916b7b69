# SPDX-License-Identifier: MIT
"""The twenty pitfalls of the source document's formulae, one by one, and what we do instead.

The source document is the draft guidance that describes this layer: exponential, linear and adaptive retry, its
configuration and its telemetry. Read as code, it has twenty traps. Each test names the trap in its docstring.
"""

import asyncio
import inspect
import math
import os
import statistics
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from random import Random

import pytest

from redrive.errors import CircuitOpen, InvalidSetting, PolicyFileError
from redrive.retry import (
    Adaptive,
    AttemptFailed,
    AttemptFailure,
    CircuitBreaker,
    Delays,
    Exponential,
    Fixed,
    GiveUp,
    Linear,
    Policies,
    RetryAfter,
    RetryBudget,
    RetryGaveUp,
    backoff,
    current_attempt,
    retry,
)
from redrive.testing import ManualClock

ATTEMPTS_WHERE_OTHERS_OVERFLOW = [1, 2, 18, 62, 63, 64, 1_023, 1_024, 1_025, 10**6, 2**31 - 1, 2**31]


def fail():
    raise ConnectionError


def slept_by(policy, clock=None, **settings):
    """How long an operation sleeps that always fails, when chance is always in the middle."""
    clock = clock or ManualClock()
    with pytest.raises(ConnectionError):
        retry(**{"on": ConnectionError, "policy": policy, "clock": clock, "chance": lambda: 0.5} | settings).call(fail)
    return clock.slept


def draws(policy, attempt, count=1_000, seed=1):
    """What that many clients wait who all failed at the same moment."""
    chance = Random(seed).random
    return [policy.decide(AttemptFailure(attempt, chance=chance())).delay for _ in range(count)]


@pytest.mark.parametrize("kind", [Exponential, Linear, Fixed])
def test_pitfall_1_fast_first_makes_one_retry_immediate_not_all(kind):
    """1. ``FastFirst`` returned zero for every retry: a hot loop. Ours: one zero, then the curve as without it."""
    fast = slept_by(kind(fast_first=True, max_attempts=8), deadline=None)
    plain = slept_by(kind(max_attempts=7), deadline=None)
    assert fast == plain  # no sleep at all for the first retry, and then what the other one sleeps
    decided = [kind(fast_first=True, max_attempts=8).decide(AttemptFailure(n)).delay for n in range(1, 8)]
    assert decided == [0.0, *plain]
    assert decided.count(0.0) == 1


@pytest.mark.parametrize("attempt", range(1, 12))
@pytest.mark.parametrize(
    "policy", [Exponential(max_attempts=None), Fixed(max_attempts=None), Linear(max_attempts=None)]
)
def test_pitfall_2_first_delay_has_jitter_like_every_other(policy, attempt):
    """2. ``2^0 - 1`` is 0, so the first delay had no jitter. Ours: no two of 1,000 clients wait the same."""
    delays = draws(policy, attempt)
    assert len(set(delays)) == len(delays)
    assert statistics.pstdev(delays) > 0.05 * statistics.mean(delays)


def test_pitfall_2_no_ten_milliseconds_hold_more_than_a_share_of_the_clients():
    """2. In the source document 1,000 of 1,000 clients come back within the same 10 ms."""
    landed = [int(delay * 100) for delay in draws(Exponential(min=1), 1)]
    assert max(landed.count(slot) for slot in set(landed)) < 60


@pytest.mark.parametrize("jitter", [0.2, "full", "equal"])
def test_pitfall_3_jitter_does_not_vanish_at_the_cap(jitter):
    """3. The cap was applied after the jitter, so all callers waited ``max``. Ours: the same spread at 5 and 50."""
    policy = Exponential(min=1, max=5, jitter=jitter, max_attempts=None)
    at_5, at_50 = draws(policy, 5), draws(policy, 50)
    assert at_5 == at_50
    assert statistics.pstdev(at_50) > 0.3
    assert len(set(at_50)) == len(at_50)


@pytest.mark.parametrize(("low", "delta"), [(60, 0.001), (1, 10), (0.001, 1), (1, 0), (1, 1)])
def test_pitfall_4_jitter_is_a_share_of_the_whole_delay(low, delta):
    """4. Jitter applied to ``delta`` only, so a large ``min`` had none. Ours: the same share for every ratio."""
    policy = Exponential(min=low, delta=delta, max=3_600, max_attempts=None)
    for attempt in (1, 2, 5, 30):
        base = policy.curve(attempt)
        delays = draws(policy, attempt)
        assert min(delays) == pytest.approx(0.8 * base, rel=0.01)
        assert max(delays) == pytest.approx(1.2 * base, rel=0.01)


def test_pitfall_5_min_of_zero_is_refused_and_not_a_hidden_fast_first():
    """5. ``MinBackoff`` = 0 made the first retry immediate. Ours: refused, and the message says what to write."""
    with pytest.raises(InvalidSetting, match="min=0: would make the first retry immediate; use fast_first=True"):
        Exponential(min=0)
    with pytest.raises(PolicyFileError, match=r"line 2: .*use fast_first=True"):
        Policies.parse('[policies.p]\nmin = "0s"')


def test_pitfall_5_min_is_an_offset_as_in_the_source_document():
    """5. ``MinBackoff`` is called a minimum and works as an offset. Ours: the same, and says so."""
    assert [Exponential(min=3, delta=1).curve(n) for n in range(1, 6)] == [3.0, 4.0, 6.0, 10.0, 18.0]
    assert "min + (2^(n-1) - 1) * delta" in Exponential.__doc__


def kolmogorov_smirnov(first, second):
    """The largest distance between the two samples' distribution functions."""
    first, second = sorted(first), sorted(second)
    points = sorted({*first, *second})

    def share_below(sample, point):
        return bisect_right(sample, point) / len(sample)

    return max(abs(share_below(first, point) - share_below(second, point)) for point in points)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 3_600.0])
@pytest.mark.parametrize("jitter", [0.2, "full", "equal"])
def test_pitfall_6_small_delays_have_the_same_distribution_as_large_ones(scale, jitter):
    """6. Whole milliseconds: a delta of 1 ms never backed off. Ours: floats; scaled, all are one distribution."""
    policy = Exponential(min=scale, delta=scale, max=8 * scale, jitter=jitter, max_attempts=None)
    reference = Exponential(min=1, delta=1, max=8, jitter=jitter, max_attempts=None)
    scaled = [delay / scale for delay in draws(policy, 3, count=2_000, seed=6)]
    critical = 1.95 * math.sqrt(2 / 2_000)  # exceeded by one pair of samples in a thousand, and these are seeded
    assert kolmogorov_smirnov(scaled, draws(reference, 3, count=2_000, seed=7)) < critical
    assert kolmogorov_smirnov(scaled, draws(reference, 4, count=2_000, seed=7)) > critical  # so the test can fail


def test_pitfall_6_both_ends_of_the_jitter_can_be_reached():
    """6. The upper bound was exclusive: 1.2 was never reached."""
    delays = draws(Fixed(0.001), 1, count=5_000)
    assert min(delays) == pytest.approx(0.0008, rel=1e-3)
    assert max(delays) == pytest.approx(0.0012, rel=1e-3)


def test_pitfall_7_long_delays_are_refused_when_they_are_read_not_when_they_are_waited():
    """7. ``(int)(delta * 1.2)`` overflowed above 20.7 days. Ours: a year works, more names policy and line."""
    assert Exponential(min=1, delta=30 * 86_400, max=60 * 86_400).curve(3) == 60 * 86_400
    with pytest.raises(
        PolicyFileError, match=r"policies, line 3: policies\.slow: delta=34560000\.0: must be 0 to 31,622,400"
    ):
        Policies.parse('[policies.slow]\nmin = "1s"\ndelta = "400d"\nmax = "365d"')


@pytest.mark.parametrize("attempt", ATTEMPTS_WHERE_OTHERS_OVERFLOW)
@pytest.mark.parametrize("delta", [0, 5e-324, 0.001, 10, 366 * 86_400])
def test_pitfalls_8_9_10_delay_is_finite_at_every_attempt(attempt, delta):
    """8, 9, 10. Infinity, NaN, a negative int or OverflowError, depending on the language. Ours: 0 <= delay <= max."""
    cap = 366 * 86_400
    for policy in (
        Exponential(min=1, delta=delta, max=cap, max_attempts=None),
        Linear(1, delta, max=cap, max_attempts=None),
        Fixed(delta, max_attempts=None),
        Delays([delta], max_attempts=2**40),
    ):
        for jitter, chance in product((0.2, 1.0, "full", "equal", "none"), (0.0, 0.5, 1.0 - 2**-53)):
            delay = policy.replace(jitter=jitter).decide(AttemptFailure(attempt, chance=chance)).delay
            assert math.isfinite(delay)
            assert 0.0 <= delay <= 2 * cap
        assert 0.0 <= policy.curve(attempt) <= cap


@pytest.mark.parametrize("wrong", [-1.0, -1e-300, math.nan, math.inf])
def test_pitfall_9_wrong_delay_is_an_error_and_never_a_hot_loop(wrong):
    """9. The original block turned a negative interval into zero, which is a hot loop. Ours: a policy cannot say it."""

    class Mistaken:
        def create_instance(self):
            return self

        def decide(self, _failure):
            return RetryAfter(wrong)

    calls = []

    def count_and_fail():
        calls.append(1)
        raise ConnectionError

    with pytest.raises(InvalidSetting, match="delay="):
        retry(on=ConnectionError, policy=Mistaken(), clock=ManualClock()).call(count_and_fail)
    assert len(calls) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from Python 3.12 on: forking while threads run
def test_pitfall_11_children_of_a_fork_draw_different_jitter():
    """11. ``new Random()`` per call gave concurrent callers the same jitter. Ours: reseeded after a fork."""

    def slept_in_a_child():
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                clock = ManualClock()
                try:
                    retry(on=ConnectionError, clock=clock).call(fail)
                except ConnectionError:
                    os.write(writing, repr(clock.slept).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as report:
            slept = report.read()
        os.waitpid(child, 0)
        return slept

    first, second = slept_in_a_child(), slept_in_a_child()
    assert first.startswith("[0.")
    assert first != second


def test_pitfall_12_the_source_documents_linear_is_our_fixed():
    """12. Its "linear" is a fixed interval, under three names. Ours: three kinds, and its own file still parses."""
    policies = Policies.parse(
        """
        <RetryPolicyConfiguration defaultRetryStrategy="Fixed Interval Retry Strategy">
            <linearInterval name="Fixed Interval Retry Strategy"
            retryInterval="00:00:01" maxRetryCount="10" />
            <exponentialBackoff name="Backoff Retry Strategy" minBackoff="00:00:01"
                maxBackoff="00:00:30" deltaBackoff="00:00:10" maxRetryCount="10"
                fastFirst="false"/>
        </RetryPolicyConfiguration>
        """.strip(),
        format="xml",
    )
    assert policies[policies.default] == Fixed(1, max_attempts=11)
    assert policies["Backoff Retry Strategy"] == Exponential(min=1, delta=10, max=30, max_attempts=11)
    assert [Linear(1, max=9).curve(n) for n in (1, 2, 3)] == [1.0, 2.0, 3.0]


def test_pitfall_12_fixed_has_a_fast_first_of_its_own():
    """12. Linear asked for ``ExponentialRetry.FastFirst``."""
    assert slept_by(Fixed(2, fast_first=True, max_attempts=4)) == [2.0, 2.0]


def test_pitfall_13_no_retries_means_one_call_and_the_original_error():
    """13. ``maxAttempt`` counted retries from 0. Ours: attempts count from 1; files may say ``max_retries`` instead."""
    error = ConnectionError("original")
    calls = []

    def fail_once():
        calls.append(1)
        raise error

    attempts = Policies.parse("[policies.p]\nmax_retries = 0").retry(on=ConnectionError, clock=ManualClock())
    with pytest.raises(ConnectionError) as caught:
        attempts.call(fail_once)
    assert caught.value is error
    assert len(calls) == 1


def test_pitfall_13_ten_retries_are_eleven_calls_and_both_at_once_are_refused():
    """13. ``maxRetryCount=10`` makes 11 calls."""
    assert Policies.parse("[policies.p]\nmax_retries = 10")["p"] == Exponential(max_attempts=11)
    assert len(slept_by(Fixed(1, max_attempts=11))) == 10
    with pytest.raises(PolicyFileError, match="write max_retries or max_attempts, not both"):
        Policies.parse("[policies.p]\nmax_retries = 10\nmax_attempts = 11")


@pytest.mark.parametrize("takes", [0.0, 0.4, 3.0])
def test_pitfall_14_deadline_bounds_the_whole_operation(takes):
    """14. ``MaximumExecutionTime`` was in no formula. Ours: no attempt begins after it; no wait in vain."""
    clock = ManualClock()

    def fail_slowly():
        clock.advance(takes)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        retry(on=ConnectionError, policy=Fixed(0.4, max_attempts=None), deadline=2.0, clock=clock).call(fail_slowly)
    assert clock.monotonic() <= 2.0 + takes
    assert clock.monotonic() - takes < 2.0


def test_pitfall_14_wait_that_would_pass_the_deadline_is_not_begun():
    """14. Others with a limit of 0.5 s and waits of 0.4 s end at 0.8 s."""
    clock = ManualClock()
    assert slept_by(Fixed(0.4, jitter="none", max_attempts=None), clock, deadline=0.5) == [0.4]
    assert clock.monotonic() == pytest.approx(0.4)


@pytest.mark.parametrize("step", [3_600.0, -3_600.0])
def test_pitfall_14_setting_the_wall_clock_changes_nothing(step):
    """14. A library that measures with the wall clock ended a 50-try loop at 4 tries after a step of an hour."""
    policy = Fixed(1, jitter="none", max_attempts=None)
    expected = slept_by(policy, deadline=50)
    clock = ManualClock()

    def fail_and_step():
        clock.jump(step)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        retry(on=ConnectionError, policy=policy, deadline=50, clock=clock).call(fail_and_step)
    assert clock.slept == expected
    assert len(expected) == 49


def test_pitfall_15_attempt_timeout_is_bounded_by_what_is_left_of_the_deadline():
    """15. ``ServerTimeout`` knew nothing of the rest. Ours: the shorter of the two, and the callee can see it."""
    clock = ManualClock()
    seen = []

    @retry(on=ConnectionError, policy=Fixed(4, jitter="none"), deadline=10, attempt_timeout=5, clock=clock)
    def ask():
        seen.append((current_attempt().timeout, current_attempt().remaining))
        raise ConnectionError

    with pytest.raises(ConnectionError):
        ask()
    assert seen == [(5.0, 10.0), (5.0, 6.0), (2.0, 2.0)]


def test_pitfall_15_nested_call_sees_a_smaller_deadline():
    """15. A call inside may not take longer than the call around it."""
    clock = ManualClock()
    seen = []

    @retry(on=ConnectionError, policy=Fixed(1, jitter="none"), deadline=60, clock=clock)
    def inner():
        seen.append(current_attempt().remaining)
        raise ConnectionError

    @retry(on=TimeoutError, deadline=3, clock=clock)
    def outer():
        seen.append(current_attempt().remaining)
        clock.advance(1.0)
        inner()

    with pytest.raises(ConnectionError):
        outer()
    assert seen == [3.0, 2.0, 1.0]


class Refused(Exception):
    def __init__(self, **headers):
        super().__init__(headers)
        self.status_code = 503
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry_After": "30"}, 30.0),
        ({"Retry_After": "0"}, 0.0),
        ({"Retry_After": "-30"}, None),
        ({"Retry_After": "1e9"}, None),
        ({"Retry_After": "1000000000"}, 120.0),
        ({"Retry_After": ""}, None),
        ({"Retry_After": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"Retry_After": "Sun, 04 Jan 2026 00:00:45 GMT"}, 45.0),
        ({"Retry_After": "Sat, 03 Jan 2026 20:00:45 EDT"}, 45.0),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"x_ms_retry_after_ms": "2500"}, 2.5),
        ({"grpc_retry_pushback_ms": "3500"}, 3.5),
        ({"grpc_retry_pushback_ms": "-1"}, GiveUp("the server asked for no retry", "not_retryable")),
    ],
    ids=str,
)
def test_pitfall_16_adaptive_sees_the_error_and_what_the_server_sent(headers, expected):
    """16. ``ShouldRetry(count, statusCode)`` saw no header. Ours: all of it; bounded, garbage ignored."""
    clock = ManualClock()
    policy = Adaptive(Fixed(7, jitter="none"), max=120, jitter=0)
    decision = policy.decide(AttemptFailure(1, Refused(**headers), wall_clock=clock.time))
    assert decision == (expected if isinstance(expected, GiveUp) else RetryAfter(7.0 if expected is None else expected))


def test_pitfall_16_server_delay_is_bounded_by_the_deadline_too():
    """16. A bad header must not hang a caller."""
    clock = ManualClock()

    def refuse():
        raise Refused(Retry_After="100")

    with pytest.raises(Refused) as caught:
        retry(on=Refused, policy=Adaptive(), deadline=60, clock=clock).call(refuse)
    assert clock.slept == []
    assert "would come after the deadline" in caught.value.__notes__[0]


def test_pitfall_16_clients_told_the_same_delay_do_not_return_together():
    """16. Jitter, upwards only: coming back early is what the server asked us not to do."""
    chance = Random(16).random
    delays = [
        Adaptive().decide(AttemptFailure(1, Refused(Retry_After="10"), chance=chance())).delay for _ in range(1_000)
    ]
    assert len(set(delays)) == 1_000
    assert 10.0 <= min(delays) < 10.01
    assert 11.99 < max(delays) <= 12.0


SHARED = [Exponential(max_attempts=6), Linear(max_attempts=6), Delays([1, 2, 4]), Adaptive(Exponential(max_attempts=6))]


@pytest.mark.parametrize("policy", SHARED, ids=lambda policy: type(policy).__name__)
def test_pitfall_17_threads_that_share_a_policy_do_not_share_its_state(policy):
    """17. State per call: another library's three concurrent calls wait 1, 2, 16, 128. Ours: each as if alone."""
    alone = slept_by(policy)
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda _: slept_by(policy), range(1_000)))
    assert together == [alone] * 1_000


@pytest.mark.parametrize("policy", SHARED, ids=lambda policy: type(policy).__name__)
async def test_pitfall_17_tasks_that_share_a_decorated_function_do_not_share_its_state(policy):
    """17. The same for 1,000 tasks in the same function."""
    alone = slept_by(policy)
    clock = ManualClock(auto_advance=True)
    numbers = {}

    @retry(on=ConnectionError, policy=policy, clock=clock, chance=lambda: 0.5, deadline=None)
    async def fail_async(task):
        numbers.setdefault(task, []).append(current_attempt().number)
        raise ConnectionError

    failures = await asyncio.gather(*(fail_async(task) for task in range(1_000)), return_exceptions=True)
    assert {type(failure) for failure in failures} == {ConnectionError}
    assert sorted(clock.slept) == sorted(alone * 1_000)
    assert set(map(tuple, numbers.values())) == {tuple(range(1, len(alone) + 2))}


def test_pitfall_18_breaker_counts_every_attempt_and_stops_the_retries():
    """18. Where the breaker stands was left open. Ours: inside; each attempt counts, open ends it."""
    breaker = CircuitBreaker("db", failures=3, open_for=60)
    assert len(slept_by(Fixed(1, max_attempts=9), breaker=breaker)) == 2
    assert breaker.state == "open"


def test_pitfall_18_refusals_are_no_failures_and_cost_no_budget():
    """18. An open breaker must not keep itself open, nor use up what retries may cost."""
    clock, breaker, budget = (
        ManualClock(),
        CircuitBreaker("db", failures=1, open_for=60),
        RetryBudget(ratio=0, per_second=0),
    )
    attempts = retry(on=(ConnectionError, CircuitOpen), policy=Fixed(1), breaker=breaker, budget=budget, clock=clock)
    with pytest.raises(ConnectionError):
        attempts.call(fail)
    tokens = budget.tokens
    for _ in range(50):
        with pytest.raises(CircuitOpen):
            attempts.call(fail)
    assert budget.tokens == tokens
    clock.advance(60.0)
    assert attempts.call(lambda: "back") == "back"
    assert breaker.state == "closed"


def test_pitfall_18_one_probe_decides():
    """18. Half open: one call goes through, and its failure opens the breaker for the whole time again."""
    clock, breaker = ManualClock(), CircuitBreaker("db", failures=1, open_for=60)
    attempts = retry(on=ConnectionError, policy=Fixed(1), breaker=breaker, clock=clock)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            attempts.call(fail)
        with pytest.raises(CircuitOpen) as caught:
            attempts.call(fail)
        assert caught.value.retry_after == pytest.approx(60.0)
        clock.advance(60.0)


FIELDS_OF_L1_9 = [
    *("request_id", "policy_type", "operation", "operation_start", "operation_end", "iteration", "iteration_sleep"),
    *("exception_type", "exception_message"),
]


def test_pitfall_19_every_failed_attempt_is_one_event_with_typed_fields():
    """19. All strings, local time, empty ids. Ours: typed, UTC, one event per failure and one for the outcome."""
    clock, events = ManualClock(start=1_000_000_000.0), []

    def fail_in_half_a_second():
        clock.advance(0.5)
        raise ConnectionError("password=hunter2")

    with pytest.raises(ConnectionError):
        retry(
            on=ConnectionError, policy=Fixed(2, jitter="none", max_attempts=3), clock=clock, on_event=events.append,
            operation="GET /", redact=lambda message: message.replace("hunter2", "***"),
        ).call(fail_in_half_a_second)  # fmt: skip
    failed = [event for event in events if isinstance(event, AttemptFailed)]
    assert [type(event) for event in events] == [AttemptFailed] * 3 + [RetryGaveUp]
    assert list(failed[0].fields()) == FIELDS_OF_L1_9
    assert [event.iteration for event in failed] == [1, 2, 3]
    assert [event.iteration_sleep for event in failed] == [2.0, 2.0, None]
    assert [(event.operation_end - event.operation_start).total_seconds() for event in failed] == [0.5, 3.0, 5.5]
    assert {event.operation_start.isoformat() for event in failed} == {"2001-09-09T01:46:40+00:00"}
    assert {(event.policy_type, event.operation) for event in failed} == {("Fixed", "GET /")}
    assert {(event.exception_type, event.exception_message) for event in failed} == {
        ("ConnectionError", "password=***")
    }
    assert len({event.request_id for event in events}) == 1
    assert events[0].request_id
    assert (events[-1].outcome, events[-1].iteration) == ("exhausted", 3)


def test_pitfall_19_fast_first_is_reported_as_the_sleep_it_is():
    """19. The original block reports the planned interval even when fast-first skips it."""
    events = []
    slept = slept_by(Fixed(2, fast_first=True, max_attempts=3), on_event=events.append)
    assert [event.iteration_sleep for event in events[:3]] == [0.0, *slept, None]


def test_pitfall_19_observer_that_fails_changes_nothing():
    """19. Telemetry must never change the outcome."""

    def explode(_event):
        raise RuntimeError("observer")

    assert slept_by(Fixed(1, jitter="none", max_attempts=3), on_event=explode) == [1.0, 1.0]


def test_pitfall_20_documented_defaults_are_the_schedule():
    """20. The document says 2, 4, 8 s where its code waits 1.6, 3.2, 6.4. Ours: one formula; ``preview`` shows it."""
    middles = [middle for _, middle, _ in Exponential().preview().waits]
    assert middles == [0.5, 1.0, 2.0, 4.0]
    assert f"waits of {', '.join(f'{wait:g}' for wait in middles[:-1])} and {middles[-1]:g} s" in inspect.getdoc(retry)
    assert slept_by(None) == middles


@pytest.mark.parametrize("jitter", [0.2, "full", "equal", "none"])
def test_pitfall_20_preview_bounds_what_really_happens(jitter):
    """20. What is documented is generated from the code, so it can be trusted."""
    policy = Exponential(min=1, max=6, jitter=jitter, max_attempts=6)
    chance = Random(20).random
    for _ in range(100):
        slept = slept_by(policy, chance=chance, deadline=None)
        for wait, (shortest, _, longest) in zip(slept, policy.preview().waits, strict=True):
            assert shortest <= wait <= longest
        assert sum(slept) <= policy.preview().worst


def test_pitfall_20_no_delay_does_not_switch_retries_off():
    """20. In the real code behind the document, a delay of zero disables retry altogether."""
    calls = []

    def count_and_fail():
        calls.append(1)
        raise ConnectionError

    clock = ManualClock()
    with pytest.raises(ConnectionError):
        retry(on=ConnectionError, policy=Fixed(0, max_attempts=3), clock=clock).call(count_and_fail)
    assert len(calls) == 3
    assert clock.slept == []  # a sleep of zero would cost a reschedule, for nothing


def test_pitfall_3_also_holds_for_the_arithmetic_alone():
    """3. Whatever ``n`` is, the capped delay is spread by the same share."""
    spans = {
        backoff.jittered(backoff.exponential(n, 1.0, 1.0, 30.0), 0.2, 1.0)
        - backoff.jittered(backoff.exponential(n, 1.0, 1.0, 30.0), 0.2, 0.0)
        for n in (6, 7, 50, 10**6)
    }
    assert spans == {12.0}
