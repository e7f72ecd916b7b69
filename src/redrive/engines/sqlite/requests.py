# SPDX-License-Identifier: MIT
"""The requests of callers, and how a group of them is run in one transaction.

A group is run together: all sends in one statement, all completions in one, one look for messages that all waiting
receivers share. That works whenever all locks are valid, which is nearly always. When one is not, the transaction is
rolled back and the requests of the group are run one by one, so that only the request with the invalid lock fails.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, assert_never

from redrive.broker.port import (
    Abandon,
    Cancel,
    Complete,
    DeadLetter,
    Defer,
    Effect,
    EffectResult,
    Lock,
    Received,
    Send,
    SessionLock,
    SetSessionState,
)
from redrive.broker.tallies import Key
from redrive.engines import stored
from redrive.engines.distribution import deal
from redrive.engines.sql.runner import run_sqlite
from redrive.engines.sql.script import Together
from redrive.engines.sql.together import run_sqlite_together
from redrive.engines.sqlite.group_commit import Request
from redrive.engines.sqlite.store import Store
from redrive.errors import LockLost, RedriveError, UsageError

T = TypeVar("T")


class Conflict(Exception):
    """A lock of a request is not valid: the group cannot be run together."""


class ScriptedPart:
    """A script of ours as the part of a transaction that goes with effects; it may run together with others."""

    __slots__ = ("_time", "script")

    def __init__(self, script: Together, time: Callable[[], float]) -> None:
        self.script = script
        self._time = time

    def __call__(self, connection: sqlite3.Connection) -> object:
        """Run it by itself."""
        return run_sqlite(connection, self.script(), self._time())


class ApplyRequest(Request[list[EffectResult]]):
    """A list of effects, all or nothing; ``inside`` is the user's own part of the transaction."""

    def __init__(self, effects: Sequence[Effect], inside: Callable[[Any], object] | None = None) -> None:
        self.effects = effects
        # made here: JSON takes as long as storing it, and no transaction has to wait for it
        self.texts = [stored.properties_of(effect.message) for effect in effects if isinstance(effect, Send)]
        self.inside = inside
        self.script = inside.script if isinstance(inside, ScriptedPart) else None
        self.is_the_users = inside is not None and self.script is None
        self.is_single = self.script is not None or (inside is None and len(effects) == 1)
        self.in_detail = False  # then it says which lock is not valid

    def run(self, store: Store, now: float) -> list[EffectResult]:
        """Run it by itself."""
        if self.inside is not None:
            self.inside(store.connection)
            if not store.connection.in_transaction:
                raise UsageError("what you give as inside= must neither commit nor roll back; leave that to the broker")
        locks = [effect.lock for effect in self.effects if type(effect) is Complete]
        if self.script is not None and len(locks) == len(self.effects) and not self.in_detail:
            if not store.complete(locks, now):
                self.in_detail = True
                raise Conflict
            return [None] * len(locks)
        texts = iter(self.texts)
        return [_do(store, effect, texts, now) for effect in self.effects]


class ScriptRequest(Request[Any]):
    """A script of ours that may run together with others."""

    def __init__(self, script: Together) -> None:
        self.script = self._script = script
        self.effects: Sequence[Effect] = ()
        self.texts: list[str | None] = []

    def run(self, store: Store, now: float) -> Any:  # noqa: ANN401 - what the script returns
        """Run it by itself."""
        return run_sqlite(store.connection, self._script(), now)


class LockRequest(Request[list[Received]]):
    """A receiver who waits for messages."""

    def __init__(
        self,
        queue: str,
        limit: int,
        session: SessionLock | None,
        give_back: Callable[[list[Lock]], None],
        *,
        delete: bool,
        max_bytes: int | None = None,
    ) -> None:
        self.queue = queue
        self.limit = limit
        self.session = session
        self.is_shared = session is None and max_bytes is None  # others may receive together with it
        self._max_bytes = max_bytes
        self.delete = self.needs_sync = delete
        self._give_back = give_back

    def run(self, store: Store, now: float) -> list[Received]:
        """Run it by itself."""
        queue = store.queues.queue(self.queue)
        store.bring_in([self.queue], now)
        if self.session is not None:
            store.check_session(self.session, now)
        limit = self.limit if self._max_bytes is None else store.fitting(queue, self.limit, self._max_bytes)
        receive = store.take if self.delete else store.lock
        return receive(queue, limit, now, self.session)

    def abandoned(self) -> None:
        """Give back the messages that were locked for a caller that was cancelled."""
        if self.result and not self.delete:
            self._give_back([received.lock for received in self.result if received.lock is not None])


class OtherRequest(Request[T]):
    """Anything else: a function of the store and the time.

    Args:
        do: the function.
        undo: is given its result if the caller was cancelled before it could take it.
    """

    def __init__(self, do: Callable[[Store, float], T], undo: Callable[[Any], None] | None = None) -> None:
        self._do = do
        self._undo = undo

    def abandoned(self) -> None:
        """Undo what was done for a caller that was cancelled."""
        if self._undo is not None and self.result is not None:
            self._undo(self.result)

    def run(self, store: Store, now: float) -> T:
        """Run it by itself."""
        return self._do(store, now)


def run_group(store: Store, group: Sequence[Any], now: float) -> None:
    """Run a group in the open transaction; raise ``Conflict`` if its requests have to be run one by one."""
    if len(group) == 1 and group[0].is_single:
        group[0].result = group[0].run(store, now)  # it is alone: if it fails, the transaction is rolled back
        return
    applies = [request for request in group if type(request) is ApplyRequest and request.inside is None]
    locks = [request for request in group if type(request) is LockRequest and request.is_shared]
    together = {id(request) for request in (*applies, *locks)}
    if applies:
        _apply_together(store, applies, now)
    if locks:
        _lock_together(store, locks, now)
    if scripted := [request for request in group if request.script is not None]:
        _run_scripted(store, scripted, now)
        together |= {id(request) for request in scripted}
    for request in group:  # last, so that the user's own code does not run twice when the group has to be run again
        if id(request) not in together:
            run_alone(store, request, now)


def _run_scripted(store: Store, scripted: Sequence[Any], now: float) -> None:
    """Run the scripts of a group, and the effects that go with them.

    There is no savepoint: with one, SQLite writes pages that become free, and keeps a copy of each that is changed.
    """
    try:
        if len(scripted) == 1:
            scripted[0].result = scripted[0].run(store, now)
        else:
            _run_together(store, scripted, now)
    except Exception as error:
        if _is_faulty(store, error):
            raise
        raise Conflict from error


def _run_together(store: Store, scripted: Sequence[ApplyRequest | ScriptRequest], now: float) -> None:
    begun = [request.script() for request in scripted if request.script is not None]
    results = run_sqlite_together(store.connection, begun, now)
    _apply_together(store, scripted, now)
    for request, result in zip(scripted, results, strict=True):
        if isinstance(request, ScriptRequest):
            request.result = result


def _undo(store: Store, savepoint: str, counted: dict[Key, int]) -> None:
    store.connection.execute(f"ROLLBACK TO {savepoint}")
    store.counted = counted
    store.queues.forget()  # what was undone may have changed them; numbers it used stay unused
    store.queues.refresh(store.connection)
    store.connection.execute(f"RELEASE {savepoint}")


def run_one_by_one(store: Store, group: Sequence[Any], now: float) -> None:
    """Run a group in the open transaction so that each request succeeds or fails by itself."""
    store.forget()  # the transaction that was undone may have changed what it remembers
    store.begin(now)
    for request in group:
        request.error = None
        run_alone(store, request, now)


def run_alone(store: Store, request: Any, now: float) -> None:  # noqa: ANN401 - a request of any kind
    """Run one request so that its failure does not affect the others."""
    store.connection.execute("SAVEPOINT alone")
    counted = dict(store.counted)
    try:
        request.result = request.run(store, now)
    except Conflict:
        _undo(store, "alone", counted)
        run_alone(store, request, now)  # it runs in detail now
        return
    except BaseException as error:
        request.error = error  # also if it ends the transaction for all: then the other callers get another error
        if _is_faulty(store, error):
            raise
        _undo(store, "alone", counted)
        return
    store.connection.execute("RELEASE alone")


def _is_faulty(store: Store, error: BaseException) -> bool:
    """Say whether an error is the database's own: it ends the transaction for all, not for one."""
    theirs = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.DataError)
    is_sql = isinstance(error, sqlite3.Error)
    is_a_mistake = isinstance(error, theirs) or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR
    return not store.connection.in_transaction or (is_sql and not is_a_mistake)


def _apply_together(store: Store, applies: Sequence[ApplyRequest | ScriptRequest], now: float) -> None:
    completes = [effect.lock for request in applies for effect in request.effects if type(effect) is Complete]
    sends = [effect for request in applies for effect in request.effects if type(effect) is Send]
    texts = iter([text for request in applies for text in request.texts])
    try:
        is_good = not completes or store.complete(completes, now)
        for request in applies:
            for effect in request.effects:
                if type(effect) is not Complete and type(effect) is not Send:
                    _do(store, effect, texts, now)
        sent = iter(store.send(sends, list(texts), now) if sends else ())
    except Exception as error:
        if _is_faulty(store, error):
            raise
        raise Conflict from error
    if not is_good:
        raise Conflict
    for request in applies:
        request.result = [next(sent) if type(effect) is Send else None for effect in request.effects]


def _lock_together(store: Store, locks: Sequence[LockRequest], now: float) -> None:
    places: dict[tuple[str, bool], list[LockRequest]] = {}
    for request in locks:
        places.setdefault((request.queue, request.delete), []).append(request)
    try:
        store.bring_in([name for name, _ in places], now)
    except RedriveError as error:
        raise Conflict from error
    for (name, delete), requests in places.items():
        try:
            queue = store.queues.queue(name)
            receive = store.take if delete else store.lock
            found = receive(queue, sum(request.limit for request in requests), now)
        except RedriveError as error:
            raise Conflict from error
        for request, hand in zip(requests, deal(found, [each.limit for each in requests]), strict=True):
            request.result = hand


def _do(store: Store, effect: Effect, texts: Iterator[str | None], now: float) -> EffectResult:
    """Carry out one effect; ``texts`` yields the properties of the next message to send."""
    match effect:
        case Send():
            return store.send([effect], [next(texts)], now)[0]
        case Complete(lock):
            if not store.complete([lock], now):
                raise LockLost(lock.queue, lock.sequence)
        case Abandon():
            store.abandon(effect, now)
        case Defer():
            store.defer(effect, now)
        case DeadLetter():
            store.dead_letter(effect, now)
        case Cancel():
            store.cancel(effect, now)
        case SetSessionState():
            store.set_session_state(effect, now)
        case _:
            assert_never(effect)
    return None
