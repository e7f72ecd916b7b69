# SPDX-License-Identifier: MIT
"""Putting the parts together: the only place that knows which engines there are."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack, overload
from urllib.parse import SplitResult, urlencode

from redrive import connection_url
from redrive.broker import BlockingBroker, Broker, Engine
from redrive.broker.port import Database, find_ability
from redrive.broker.rules import ERROR_QUEUE
from redrive.clock import Clock, system_clock
from redrive.errors import MissingExtra
from redrive.recovery import BlockingRecovery, Classifier, Recovery, ServiceSettings
from redrive.retry import Policy, Retry
from redrive.telemetry import Event

__all__ = ["connect", "connect_blocking", "open_recovery"]

_LIBPQ_OPTIONS = (
    *("application_name", "client_encoding", "connect_timeout", "database", "dbname", "host", "krbsrvname"),
    *("lock_timeout", "options", "passfile", "password", "port", "search_path", "service", "servicefile"),
    *("sslcert", "sslcrl", "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert"),
    *("statement_timeout", "target_session_attrs", "user"),
)
_POSTGRES_OPTIONS = {"schema": str, "pool_size": int, "acquire_timeout": float, "statement_cache_size": int}


def connect(
    url: str, *, clock: Clock = system_clock, upkeep_every: float = 5.0, retry: Policy | Retry | None = None
) -> Broker:
    """Return the broker at a URL, to be entered with ``async with``.

    Args:
        url: ``sqlite:///orders.db`` for a file beside the program, ``sqlite:////var/lib/orders.db`` for one elsewhere,
            ``sqlite:///:memory:`` for queues that end with the process. ``?synchronous=normal`` is faster, but a power
            cut may undo the last moments. ``postgresql://user@host/database`` for queues that many processes share; it
            takes PostgreSQL's own options, and ``schema``, ``pool_size``, ``acquire_timeout`` and
            ``statement_cache_size``.
        clock: where time comes from.
        upkeep_every: how often, in seconds, the broker looks for expired messages and idle queues.
        retry: how to make a call again while the store does not answer: a policy such as
            ``Exponential(min=0.8, max_attempts=4)``, or ``retry(on=EngineUnavailable, …)`` with a deadline for each
            call, a limit for each attempt, a breaker. Only what was certainly not done is done again. None: the first
            failure is raised.
    """
    return Broker(_engine(url, clock), clock=clock, upkeep_every=upkeep_every, retry=retry)


def connect_blocking(
    url: str, *, clock: Clock = system_clock, upkeep_every: float = 5.0, retry: Policy | Retry | None = None
) -> BlockingBroker:
    """Return the broker at a URL for a program without an event loop, to be entered with ``with``.

    Args:
        url: as for ``connect``.
        clock: where time comes from.
        upkeep_every: how often, in seconds, the broker looks for expired messages and idle queues.
        retry: as for ``connect``.
    """
    return BlockingBroker(connect(url, clock=clock, upkeep_every=upkeep_every, retry=retry))


class OpenRecoveryOptions(TypedDict, total=False):
    """The settings of ``open_recovery``, for its two forms; a test holds them equal to its signature."""

    sources: Sequence[str]
    classifiers: Mapping[str, Classifier] | None
    events_queue: str | None
    settings: ServiceSettings | None
    on_event: Callable[[Event], object] | None


@overload
def open_recovery(broker: Broker, store: str | None = None, **options: Unpack[OpenRecoveryOptions]) -> Recovery: ...


@overload
def open_recovery(
    broker: BlockingBroker, store: str | None = None, **options: Unpack[OpenRecoveryOptions]
) -> BlockingRecovery: ...


def open_recovery(
    broker: Broker | BlockingBroker,
    store: str | None = None,
    *,
    sources: Sequence[str] = (ERROR_QUEUE,),
    classifiers: Mapping[str, Classifier] | None = None,
    events_queue: str | None = None,
    settings: ServiceSettings | None = None,
    on_event: Callable[[Event], object] | None = None,
) -> Recovery | BlockingRecovery:
    """Return the recovery of a broker's failed messages.

    It is entered with ``async with``, or with ``with`` if the broker is of ``connect_blocking``.

    Args:
        broker: where the queues are; it must be open by then.
        store: where failures and operations are kept, as for ``connect``; None: where the queues are.
        sources: the error queues and dead-letter queues to read: ``"error"``, ``"orders/$dead"``.
        classifiers: further ways to group failures: by name, a function of the failure and the message.
        events_queue: a queue that gets a message for every failure and every recovery.
        settings: how the work is done.
        on_event: gets every event, beside logging and OpenTelemetry.
    """
    from redrive.engines.sql.recovery.ledger import SqlLedger

    inner = broker.inner if isinstance(broker, BlockingBroker) else broker
    engine = inner.engine if store is None else _engine(store, inner.clock, "store")
    if (database := find_ability(engine, Database)) is None:
        problem = "must be given: this broker's engine is no database; "
        raise connection_url.wrong("store", store, problem + connection_url.FORMS)
    recovery = Recovery(
        inner,
        SqlLedger(database, is_shared=store is None),
        sources=sources,
        classifiers=classifiers,
        events_queue=events_queue,
        settings=settings,
        on_event=on_event,
    )
    return BlockingRecovery(recovery, broker) if isinstance(broker, BlockingBroker) else recovery


def _engine(url: str, clock: Clock, setting: str = "url") -> Engine:
    parts = connection_url.parts_of(setting, url)
    if parts.scheme != "sqlite":
        return _postgres(url, parts, clock, setting)
    from redrive.engines.sqlite import SqliteEngine

    path = connection_url.sqlite_path(setting, url, parts)
    options: dict[str, Any] = connection_url.options_of(setting, url, parts, ("synchronous",))
    return SqliteEngine(path, clock=clock, **options)


def _postgres(url: str, parts: SplitResult, clock: Clock, setting: str) -> Engine:
    try:
        from redrive.engines.postgres import PostgresEngine
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise MissingExtra("PostgreSQL", "postgres") from error
    connection_url.check_postgres(setting, url, parts)
    ours, theirs = dict[str, Any](), dict[str, str]()
    known = (*_POSTGRES_OPTIONS, *_LIBPQ_OPTIONS)
    for name, value in connection_url.options_of(setting, url, parts, known).items():
        if name in _LIBPQ_OPTIONS:
            theirs[name] = value
            continue
        try:
            ours[name] = _POSTGRES_OPTIONS[name](value)
        except ValueError:
            raise connection_url.wrong(setting, url, f"has a {name} that is no number") from None
    if not theirs.get("port", "1").replace(",", "").isdecimal():
        raise connection_url.wrong(setting, url, "has a port that is no number")
    address = f"postgresql://{parts.netloc}{parts.path}?{urlencode(theirs)}"
    return PostgresEngine(address, clock=clock, **ours)
