# SPDX-License-Identifier: MIT
"""One operation in progress: what has failed so far, and what happens next.

The sync and the async loop call and sleep; this object decides. It asks the policy, the deadline, the breaker and the
budget in that order, and reports to the observers. It never keeps a reference to an error: an exception that is
reachable from its own traceback would wait for the cycle collector.
"""

from redrive.errors import AttemptTimeout, CircuitOpen, DeadlineExceeded
from redrive.retry.ambient import Attempt, ambient, leave, remaining_in
from redrive.retry.policy import AttemptFailure, GiveUp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redrive.clock import Clock
    from redrive.retry import reporter
    from redrive.retry.ambient import Scope
    from redrive.retry.breaker import Change, CircuitBreaker
    from redrive.retry.policy import RetryAfter
    from redrive.retry.settings import RetryPlan
else:

    class _Reporter:
        """Stands in for the module ``reporter`` until the first report, which replaces it."""

        def __getattr__(self, name: str) -> object:
            global reporter  # noqa: PLW0603 - this is the one assignment
            from redrive.retry import reporter

            return getattr(reporter, name)

    reporter = _Reporter()

REFUSED = -1.0
"""The pause of a call that the breaker refuses and that must not wait."""


class RetriedCall:
    """The state of one retried call, alive from its first attempt to its outcome.

    Attributes:
        plan: the settings, as they were when the call began.
        name: what is being called.
        number: the running attempt, counted from 1.
        started: the monotonic time at which the first attempt began.
        ends_at: the monotonic time by which everything must be over, or None.
        request_id: the same for all events of this call; empty until the first is reported.
        outer: the operation or deadline around it, or None.
    """

    __slots__ = (
        "_given_up_inside", "_is_cut_off", "_permit", "_policy", "_waited", "ends_at", "name", "number", "outer",
        "plan", "request_id", "started",
    )  # fmt: skip

    def __init__(self, plan: "RetryPlan", name: str, started: float, outer: "Scope | None") -> None:
        self.plan = plan
        self.name = name
        self.number = 1
        self.started = started
        self.request_id = ""
        self.ends_at = None if plan.deadline is None else started + plan.deadline
        if outer is not None:
            self._end_with(outer)
        self._policy = plan.policy.create_instance()
        self.outer = outer
        self._given_up_inside = 0
        self._is_cut_off = False
        self._permit: int | None = None
        self._waited = 0.0

    @property
    def clock(self) -> "Clock":
        """The clock it uses."""
        return self.plan.clock

    @property
    def owner(self) -> object:
        """The object that enters and leaves the scope: the operation itself."""
        return self

    @property
    def attempt_timeout(self) -> float | None:
        """Seconds that one attempt may take, if limited."""
        return self.plan.attempt_timeout

    def pause(self, error: Exception | None, result: object = None) -> float | None:
        """Ask the breaker for the next attempt: None allows it, a number is the wait before asking again.

        ``REFUSED`` means that the call must not wait: it ends with its last failure, which is reported here.

        Raises:
            CircuitOpen: the breaker refuses, the call must not wait, and nothing has failed yet.
        """
        breaker = self.plan.breaker
        if breaker is None:
            return None
        now = self.clock.monotonic()
        self._permit, change = breaker.ask(now)
        self._tell(change)
        if self._permit is not None:
            return None
        wait = breaker.retry_after(now)
        elapsed = max(now - self.started, self._waited)
        is_too_late = self.ends_at is not None and self.started + elapsed + wait >= self.ends_at
        if self.plan.when_open == "fail" or is_too_late:
            if self.number == 1:
                raise CircuitOpen(breaker.name, wait)
            self.number -= 1  # the attempt that was announced is not made
            self._end(self._failure(error, result), _open_circuit(breaker))
            return REFUSED
        self._waited = elapsed + wait
        return max(wait, 0.001)

    def adopt(self) -> None:
        """Take over a first attempt that ran before this object was needed, while the breaker was calm."""
        if self.plan.breaker is not None:
            self._permit = self.plan.breaker.adopt()

    def open(self) -> None:
        """Let the code that is called from here on see the attempt it is part of."""
        ambient.set(self)

    def close(self) -> None:
        """Let code see the scope around the operation again."""
        if ambient.get() is self:
            ambient.set(self.outer)
        else:  # it is left in another copy of the context than it was entered in
            leave(self)

    def abandon(self) -> None:
        """End an attempt that was cancelled or interrupted: it counts neither as a success nor as a failure."""
        if self._permit is not None and self.plan.breaker is not None:
            self.plan.breaker.released(self._permit)
            self._permit = None

    def accepts(self, result: object) -> bool:
        """End an attempt that returned; say whether the result is accepted."""
        plan = self.plan
        if plan.on_result is not None and self._rejects(result):
            return False
        if self._permit is not None and plan.breaker is not None:
            self._tell(plan.breaker.succeeded(self._permit, self.clock.monotonic()))
        if self.number > 1 and (plan.on_event is not None or reporter.is_listened_to()):
            reporter.succeeded(self)
        return True

    def delay_after(self, error: Exception | None, result: object = None) -> float | None:
        """End a failed attempt; return the seconds to wait before the next one, or None to give up."""
        plan = self.plan
        try:
            if error is not None and not isinstance(error, plan.errors) and not self._is_to_retry(error):
                self._pass_on(error)
                return None
            if self._permit is not None:
                self._count_failure()
            failure = self._failure(error, result)
            decision = self._decide(failure)
            if isinstance(decision, GiveUp):
                self._give_up(failure, decision)
                return None
            if plan.on_event is not None or reporter.is_listened_to():
                reporter.attempt_failed(self, failure, decision.delay)
        except BaseException:  # the user's own test or policy failed
            self.abandon()
            raise
        self.number += 1
        self._waited = failure.elapsed + decision.delay
        return decision.delay

    def time_limit(self) -> float | None:
        """Return the seconds after which an attempt is cut off, if a limit was stated."""
        if self.plan.has_stated_deadline:
            return Attempt(self).timeout
        return self.plan.attempt_timeout

    def cut_off(self, limit: float) -> AttemptTimeout | DeadlineExceeded:
        """Return the failure of an attempt that was cut off at its limit."""
        self._is_cut_off = True
        if self.attempt_timeout is not None and limit >= self.attempt_timeout:
            return AttemptTimeout(self.name, limit)
        return DeadlineExceeded(self.name, (self.ends_at or self.started) - self.started)

    def _end_with(self, outer: "Scope") -> None:
        """End no later than the scope around this operation."""
        left = remaining_in(outer)
        if left is not None and (self.plan.deadline is None or left < self.plan.deadline):
            self.ends_at = self.started + left

    def _rejects(self, result: object) -> bool:
        try:
            return self.plan.on_result is not None and bool(self.plan.on_result(result))
        except BaseException:
            self.abandon()
            raise

    def _is_to_retry(self, error: Exception) -> bool:
        return self._is_cut_off or self.plan.retries(error)

    def _pass_on(self, error: Exception) -> None:
        self.abandon()
        if self.number > 1:  # otherwise nothing was retried, and there is nothing to report
            self._give_up(self._failure(error, None), GiveUp("this failure is not one to retry", "not_retryable"))

    def _count_failure(self) -> None:
        if self._permit is not None and self.plan.breaker is not None:
            self._tell(self.plan.breaker.failed(self._permit, self.clock.monotonic()))
            self._permit = None

    def _tell(self, change: "Change | None") -> None:
        if change is not None:
            reporter.breaker_changed(self, change)

    def _failure(self, error: Exception | None, result: object) -> AttemptFailure:
        plan = self.plan
        # a wait counts even if the clock did not move, because tests switch sleeping off
        elapsed = max(plan.clock.monotonic() - self.started, self._waited)
        remaining = None if self.ends_at is None else self.ends_at - self.started - elapsed
        return AttemptFailure(self.number, error, result, elapsed, remaining, plan.chance(), plan.clock.time)

    def _decide(self, failure: AttemptFailure) -> "RetryAfter | GiveUp":
        plan = self.plan
        if (self._is_cut_off or not plan.retry_exhausted) and (foregone := self._foregone(failure)) is not None:
            return foregone
        if plan.max_attempts is not None and self.number >= plan.max_attempts:
            return GiveUp(f"all {plan.max_attempts} attempts failed")
        decision = self._policy.decide(failure)
        if isinstance(decision, GiveUp):
            return decision
        if failure.remaining is not None and decision.delay >= failure.remaining:
            return GiveUp(f"the next attempt, in {decision.delay:.3g} s, would come after the deadline", "deadline")
        if plan.breaker is None and plan.budget is None:
            return decision
        return self._refusal(decision.delay) or decision

    def _foregone(self, failure: AttemptFailure) -> GiveUp | None:
        """Return the decision if it does not need the policy."""
        if self._is_cut_off and isinstance(failure.error, DeadlineExceeded):
            return GiveUp("the deadline passed during an attempt", "deadline")
        if not self.plan.retry_exhausted and id(failure.error) == self._given_up_inside:
            return GiveUp("a retry inside has already given up on this failure", "nested")
        self._is_cut_off = False
        return None

    def _refusal(self, delay: float) -> GiveUp | None:
        breaker, budget, now = self.plan.breaker, self.plan.budget, self.clock.monotonic()
        if breaker is not None and self.plan.when_open == "fail" and breaker.retry_after(now) > delay:
            return _open_circuit(breaker)
        if budget is not None and not budget.grants_retry(now):
            return GiveUp("the retry budget is spent", "budget")
        return None

    def _give_up(self, failure: AttemptFailure, decision: GiveUp) -> None:
        if self.plan.on_event is not None or reporter.is_listened_to():
            reporter.attempt_failed(self, failure, None)
        self._end(failure, decision)

    def _end(self, failure: AttemptFailure, decision: GiveUp) -> None:
        reporter.gave_up(self, failure, decision)
        if failure.error is not None:
            self._tell_outer(failure.error)
            _annotate(failure.error, self.name, failure, decision)

    def _tell_outer(self, error: Exception) -> None:
        """Mark for the operations around this one the failure it gave up on; by its id, so as not to keep it."""
        scope = self.outer
        while scope is not None:
            if isinstance(scope, RetriedCall):
                scope._given_up_inside = id(error)
            scope = scope.outer


def _open_circuit(breaker: "CircuitBreaker") -> GiveUp:
    return GiveUp(f"circuit breaker {breaker.name!r} is open", "breaker_open")


def _annotate(error: Exception, name: str, failure: AttemptFailure, decision: GiveUp) -> None:
    """Add a note to the error that it was retried; tracebacks show it."""
    start = f"redrive: gave up on {name} after "
    try:
        notes = getattr(error, "__notes__", None)
        if notes:  # one exception object may be raised many times; its notes must not grow
            error.__notes__ = [note for note in notes if not str(note).startswith(start)]
        error.add_note(f"{start}attempt {failure.attempt}, {failure.elapsed:.3g} s: {decision.why}")
    except Exception:  # noqa: BLE001 - some refuse notes, such as frozen dataclasses; the caller gets them unchanged
        return
