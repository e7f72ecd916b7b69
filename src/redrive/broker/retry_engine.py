# SPDX-License-Identifier: MIT
"""An engine whose calls are made again while the store does not answer: layer 1 around the client of layer 2.

Only what is certain not to have been done is done again. Engines promise that for ``EngineUnavailable``: what failed
with it was rolled back, unless the error says that it ``may_be_done``.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from redrive.broker.effects import Effect, EffectResult, SessionLock
from redrive.broker.lifecycle import State
from redrive.broker.message import Lock, Received
from redrive.broker.port import (
    Attendance,
    Browsing,
    Capabilities,
    Choosing,
    Database,
    Deferral,
    Engine,
    Maintenance,
    OpenTransactions,
    Questions,
    QueueInfo,
    Rule,
    Sessions,
    StoredMessage,
    StoredMessages,
    Tallying,
    TopicInfo,
    Topics,
    TopicSettings,
    Upkeep,
    WorkerReport,
    find_ability,
)
from redrive.broker.settings import QueueSettings
from redrive.broker.tallies import Key
from redrive.clock import Clock
from redrive.errors import AttemptTimeout, EngineUnavailable, StorageDamaged, StorageReadOnly
from redrive.retry import Policy, Retry, current_attempt, retry
from redrive.retry.policy import check_policy

T = TypeVar("T")


def is_safe_to_repeat(error: Exception) -> bool:
    """Say whether a call that failed may be made again: it was not done, and it may work next time."""
    is_lasting = isinstance(error, StorageDamaged | StorageReadOnly)
    return isinstance(error, EngineUnavailable) and not error.may_be_done and not is_lasting


def retrying(inner: Engine, given: Policy | Retry, clock: Clock) -> Engine:
    """Return an engine with retries around its calls. It has the abilities that the other has, and no more.

    Args:
        inner: the engine.
        given: whether and when to try again: a policy, or a retry with limits, a breaker or a budget.
        clock: what waiting goes by.
    """
    parts = [part for protocol, part in _PARTS.items() if find_ability(inner, protocol) is not None]
    kind: type[RetryingEngine] = type("RetryingEngine", (*parts, RetryingEngine), {})
    return kind(inner, given, clock)


class RetryingEngine:
    """Another engine, with retries around each of its calls, except those that come again by themselves.

    A call inside a retry of the caller's own is made once: the outer retry decides.
    """

    def __init__(self, inner: Any, given: Policy | Retry, clock: Clock) -> None:  # noqa: ANN401 - as many abilities as it has
        self._inner = inner
        self._clock = clock
        if not isinstance(given, Retry):
            given = retry(on=EngineUnavailable, policy=check_policy("retry", given), deadline=None)
        self._given = given
        self._retry = given.using(on=self._is_to_retry, on_result=None, clock=clock)
        self._retries: dict[str, Retry] = {}  # by verb

    def _is_to_retry(self, error: Exception) -> bool:
        return is_safe_to_repeat(error) and self._given.plan.retries(error)

    async def _again(self, verb: str, call: Callable[..., Awaitable[T]], /, *args: Any, **how: Any) -> T:
        """Make a call that may be repeated, also when it was cut off: the second time changes nothing more."""
        if current_attempt().operation:
            return await call(*args, **how)
        if verb not in self._retries:
            self._retries[verb] = self._retry.using(operation=verb)
        return await self._retries[verb].call_async(call, *args, **how)

    async def _once(self, verb: str, call: Callable[..., Awaitable[T]], /, *args: Any) -> T:
        """Make a call that must not be done twice. If it is cut off it may have been done, and the caller decides."""
        if verb not in self._retries:  # a retry would repeat what it has cut off itself
            self._retries[verb] = self._retry.using(operation=verb, attempt_timeout=None)
        limit = self._given.plan.attempt_timeout
        if limit is None:
            return await self._again(verb, call, *args)
        return await self._again(verb, self._cut_off, verb, limit, call, *args)

    async def _uncut(self, verb: str, call: Callable[..., Awaitable[T]], /, *args: Any, **how: Any) -> T:
        """Make a call that is never cut off: what it had taken out would be lost."""
        if verb not in self._retries:
            self._retries[verb] = self._retry.using(operation=verb).without_cut_off()
        return await self._again(verb, call, *args, **how)

    async def _cut_off(self, verb: str, limit: float, call: Callable[..., Awaitable[T]], /, *args: Any) -> T:
        scope = None
        try:
            async with self._clock.timeout(limit) as scope:
                return await call(*args)
        except TimeoutError:
            if scope is None or not scope.expired():
                raise
        raise AttemptTimeout(verb, limit)

    @property
    def name(self) -> str:
        """What people call it."""
        name: str = self._inner.name
        return name

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        capabilities: Capabilities = self._inner.capabilities
        return capabilities

    async def open(self) -> None:
        """Connect."""
        await self._again("open", self._inner.open)

    async def close(self) -> None:
        """Disconnect."""
        await self._inner.close()

    async def declare(self, name: str, settings: QueueSettings) -> bool:
        """Create a queue."""
        return await self._again("declare", self._inner.declare, name, settings)

    async def update(self, name: str, settings: QueueSettings) -> None:
        """Change a queue's settings."""
        await self._again("update", self._inner.update, name, settings)

    async def delete(self, name: str) -> None:
        """Remove a queue."""
        await self._once("delete", self._inner.delete, name)

    async def inspect(self, name: str | None = None) -> list[QueueInfo]:
        """Describe queues."""
        return await self._again("inspect", self._inner.inspect, name)

    async def apply(self, effects: Sequence[Effect]) -> list[EffectResult]:
        """Apply all effects or none."""
        return await self._once("apply", self._inner.apply, effects)

    async def lock_next(
        self, queue: str, limit: int, *, delete: bool = False, max_bytes: int | None = None
    ) -> list[Received]:
        """Lock the next messages."""
        if delete:
            return await self._uncut(
                "receive and delete", self._inner.lock_next, queue, limit, delete=True, max_bytes=max_bytes
            )
        return await self._again("receive", self._inner.lock_next, queue, limit, max_bytes=max_bytes)

    async def renew(self, locks: Sequence[Lock]) -> list[datetime | None]:
        """Lengthen locks."""
        return await self._again("renew", self._inner.renew, locks)

    async def wait(self, queue: str, seconds: float) -> None:
        """Wait for a hint; a caller that waits asks again all the same."""
        await self._inner.wait(queue, seconds)


class _RetryingSessions(RetryingEngine):
    async def lock_session(self, queue: str, session_id: str | None) -> SessionLock | None:
        """Lock a session."""
        return await self._once("accept session", self._inner.lock_session, queue, session_id)

    async def lock_in_session(self, session: SessionLock, limit: int, *, delete: bool = False) -> list[Received]:
        """Lock a session's next messages."""
        if delete:
            return await self._uncut(
                "receive and delete in session", self._inner.lock_in_session, session, limit, delete=True
            )
        return await self._once("receive in session", self._inner.lock_in_session, session, limit)

    async def renew_session(self, session: SessionLock) -> SessionLock:
        """Lengthen a session's lock."""
        return await self._again("renew session", self._inner.renew_session, session)

    async def release_session(self, session: SessionLock, delay: float = 0.0) -> None:
        """Give a session back."""
        await self._once("release session", self._inner.release_session, session, delay)


class _RetryingDeferral(RetryingEngine):
    async def lock_deferred(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock deferred messages."""
        return await self._once("receive deferred", self._inner.lock_deferred, queue, sequences)


class _RetryingChoosing(RetryingEngine):
    async def lock_chosen(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock messages by their numbers."""
        return await self._once("receive by number", self._inner.lock_chosen, queue, sequences)


class _RetryingBrowsing(RetryingEngine):
    async def peek(
        self,
        queue: str,
        limit: int,
        *,
        start: int = 0,
        states: Sequence[State] | None = None,
        max_bytes: int | None = None,
    ) -> list[Received]:
        """Look at messages."""
        how: dict[str, Any] = {"start": start, "states": states}
        if max_bytes is not None:
            how["max_bytes"] = max_bytes
        return await self._again("peek", self._inner.peek, queue, limit, **how)


class _RetryingStoredMessages(RetryingEngine):
    async def peek_stored(
        self, queue: str, limit: int, *, start: int = 0, max_bytes: int | None = None
    ) -> list[StoredMessage]:
        """Look at messages as they are stored."""
        return await self._again("peek", self._inner.peek_stored, queue, limit, start=start, max_bytes=max_bytes)

    def decoded(self, message: StoredMessage, queue: str) -> Received:
        """Return a message that was looked at."""
        found: Received = self._inner.decoded(message, queue)
        return found


class _RetryingTopics(RetryingEngine):
    async def declare_topic(self, name: str, settings: TopicSettings) -> bool:
        """Create a topic."""
        return await self._once("declare topic", self._inner.declare_topic, name, settings)

    async def update_topic(self, name: str, settings: TopicSettings) -> None:
        """Change a topic's settings."""
        await self._again("update topic", self._inner.update_topic, name, settings)

    async def subscribe(self, topic: str, name: str, rule: Rule, settings: QueueSettings) -> bool:
        """Create a subscription, or give it another rule."""
        return await self._once("subscribe", self._inner.subscribe, topic, name, rule, settings)

    async def unsubscribe(self, topic: str, name: str) -> None:
        """Remove a subscription."""
        await self._once("unsubscribe", self._inner.unsubscribe, topic, name)

    async def topics(self, name: str | None = None) -> list[TopicInfo]:
        """Describe topics."""
        return await self._again("describe topics", self._inner.topics, name)


class _SingleMaintenance(RetryingEngine):
    async def upkeep(self, limit: int = 1_000) -> Upkeep:
        """Do what no caller has asked for; it comes round again by itself."""
        done: Upkeep = await self._inner.upkeep(limit)
        return done


class _SingleTallying(RetryingEngine):
    def tally(self, counts: Mapping[Key, int]) -> None:
        """Count what was done."""
        self._inner.tally(counts)

    async def flush_tallies(self) -> None:
        """Store what was counted; it comes round again by itself."""
        await self._inner.flush_tallies()


class _SingleAttendance(RetryingEngine):
    async def worker_present(self, report: WorkerReport, seconds: float) -> None:
        """Note what a worker says; it says it again by itself."""
        await self._inner.worker_present(report, seconds)

    async def worker_absent(self, session: str) -> None:
        """Note that a worker has ended."""
        await self._inner.worker_absent(session)


class _SingleDatabase(RetryingEngine):
    """A database's verbs, made once: what runs in them is not ours to repeat."""

    async def run(self, script: Callable[[float], Any]) -> Any:  # noqa: ANN401 - what the script returns
        """Run a script."""
        return await self._inner.run(script)

    async def look(self, script: Callable[[float], Any]) -> Any:  # noqa: ANN401 - as above
        """Run a script that reads."""
        return await self._inner.look(script)

    async def apply_inside(self, effects: Sequence[Effect], inside: Callable[[Any], Any]) -> list[EffectResult]:
        """Apply all effects or none, with the caller's own part."""
        outcomes: list[EffectResult] = await self._inner.apply_inside(effects, inside)
        return outcomes

    def scripted(self, script: Callable[[], Any]) -> Callable[[Any], Any]:
        """Return a script as the caller's own part."""
        inside: Callable[[Any], Any] = self._inner.scripted(script)
        return inside


class _SingleQuestions(RetryingEngine):
    async def ask(self, script: Callable[[], Any], seconds: float) -> Any:  # noqa: ANN401 - what the script returns
        """Run a script that reads, for a limited time."""
        return await self._inner.ask(script, seconds)


class _SingleOpenTransactions(RetryingEngine):
    async def apply_within(self, effects: Sequence[Effect], connection: object) -> list[EffectResult]:
        """Do it in a transaction of the caller's."""
        outcomes: list[EffectResult] = await self._inner.apply_within(effects, connection)
        return outcomes


_PARTS: dict[type, type[RetryingEngine]] = {
    Sessions: _RetryingSessions,
    Deferral: _RetryingDeferral,
    Choosing: _RetryingChoosing,
    Browsing: _RetryingBrowsing,
    StoredMessages: _RetryingStoredMessages,
    Topics: _RetryingTopics,
    Maintenance: _SingleMaintenance,
    Tallying: _SingleTallying,
    Attendance: _SingleAttendance,
    Database: _SingleDatabase,
    Questions: _SingleQuestions,
    OpenTransactions: _SingleOpenTransactions,
}
