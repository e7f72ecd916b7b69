# SPDX-License-Identifier: MIT
"""Putting the parts together: the only place that knows which engines there are."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from redrive.broker import BlockingBroker, Broker, Engine
from redrive.clock import Clock, system_clock
from redrive.errors import InvalidSetting, MissingExtra
from redrive.recovery import Classifier, Recovery, ServiceSettings
from redrive.recovery.recovery import ERROR_QUEUE
from redrive.retry import Policy
from redrive.telemetry import Event

__all__ = ["connect", "connect_blocking", "open_recovery"]

_FORMS = "must be sqlite:///relative.db, sqlite:////absolute.db, sqlite:///:memory: or postgresql://user@host/database"
_LIBPQ_OPTIONS = (
    *("application_name", "client_encoding", "connect_timeout", "database", "dbname", "host", "krbsrvname"),
    *("lock_timeout", "options", "passfile", "password", "port", "search_path", "service", "servicefile"),
    *("sslcert", "sslcrl", "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert"),
    *("statement_timeout", "target_session_attrs", "user"),
)
_POSTGRES_OPTIONS = {"schema": str, "pool_size": int, "acquire_timeout": float, "statement_cache_size": int}


def connect(url: str, *, clock: Clock = system_clock, upkeep_every: float = 5.0, retry: Policy | None = None) -> Broker:
    """Return the broker at a URL, to be entered with ``async with``.

    Args:
        url: ``sqlite:///orders.db`` for a file beside the program, ``sqlite:////var/lib/orders.db`` for one elsewhere,
            ``sqlite:///:memory:`` for queues that end with the process. ``?synchronous=normal`` gives up durability in
            a power cut for speed. ``postgresql://user@host/database`` for queues that many processes share; beside
            PostgreSQL's own options it takes ``schema``, ``pool_size``, ``acquire_timeout`` and
            ``statement_cache_size``.
        clock: where time comes from.
        upkeep_every: how often, in seconds, what nobody asks for is looked after.
        retry: how to make a call again while the store does not answer: ``Exponential(min=0.8, max_attempts=4)``. Only
            what was certainly not done is done again. None: the first failure is raised.
    """
    return Broker(_engine(url, clock), clock=clock, upkeep_every=upkeep_every, retry=retry)


def connect_blocking(
    url: str, *, clock: Clock = system_clock, upkeep_every: float = 5.0, retry: Policy | None = None
) -> BlockingBroker:
    """Return the broker at a URL for a program without an event loop, to be entered with ``with``.

    Args:
        url: as for ``connect``.
        clock: where time comes from.
        upkeep_every: how often, in seconds, what nobody asks for is looked after.
        retry: as for ``connect``.
    """
    return BlockingBroker(connect(url, clock=clock, upkeep_every=upkeep_every, retry=retry))


def open_recovery(
    broker: Broker,
    store: str | None = None,
    *,
    sources: Sequence[str] = (ERROR_QUEUE,),
    classifiers: Mapping[str, Classifier] | None = None,
    events_queue: str | None = None,
    settings: ServiceSettings | None = None,
    on_event: Callable[[Event], object] | None = None,
) -> Recovery:
    """Return the recovery of a broker's failed messages, to be entered with ``async with``.

    Args:
        broker: where the queues are; it must be open by then.
        store: where failures and operations are kept, as for ``connect``; None: where the queues are.
        sources: the error queues and dead-letter queues to read: ``"error"``, ``"orders/$dead"``.
        classifiers: further ways to group failures: by name, a function of the failure and the message.
        events_queue: a queue that is told of every failure and every recovery.
        settings: how the work is done.
        on_event: gets every event, beside logging and OpenTelemetry.
    """
    from redrive.engines.ledger.ledger import SqlLedger

    engine: Any = broker.engine if store is None else _engine(store, broker.clock)
    if not hasattr(engine, "run"):
        raise InvalidSetting("store", store, "must be given: this broker's engine is no database; " + _FORMS)
    return Recovery(
        broker,
        SqlLedger(engine, is_shared=store is None),
        sources=sources,
        classifiers=classifiers,
        events_queue=events_queue,
        settings=settings,
        on_event=on_event,
    )


def _engine(url: str, clock: Clock) -> Engine:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        parts = None
    if parts is not None and parts.scheme in ("postgresql", "postgres"):
        return _postgres(parts, clock)
    if parts is None or parts.scheme != "sqlite" or parts.netloc or len(parts.path) < 2:
        raise InvalidSetting("url", url, _FORMS)
    from redrive.engines.sqlite import SqliteEngine

    options: dict[str, Any] = dict(parse_qsl(parts.query))
    for name in options:
        if name != "synchronous":
            raise InvalidSetting("url", url, f"has an unknown option {name!r}; there is: synchronous")
    return SqliteEngine(unquote(parts.path[1:]), clock=clock, **options)


def _postgres(parts: SplitResult, clock: Clock) -> Engine:
    try:
        from redrive.engines.postgres import PostgresEngine
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise MissingExtra("PostgreSQL", "postgres") from error
    hidden = f"{parts.scheme}://…{parts.path}"  # there may be a password in it
    options: dict[str, Any] = {}
    theirs = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in _LIBPQ_OPTIONS:
            theirs.append((name, value))
            continue
        if name not in _POSTGRES_OPTIONS:
            known = ", ".join(_POSTGRES_OPTIONS)
            raise InvalidSetting(
                "url", hidden, f"has an unknown option {name!r}; there are PostgreSQL's own and {known}"
            )
        try:
            options[name] = _POSTGRES_OPTIONS[name](value)
        except ValueError:
            raise InvalidSetting("url", hidden, f"has {name}={value!r}, which must be a number") from None
    if any(name == "port" and not value.replace(",", "").isdigit() for name, value in theirs):
        raise InvalidSetting("url", hidden, "has a port that is no number")
    address = f"postgresql://{parts.netloc}{parts.path}?{urlencode(theirs)}"
    return PostgresEngine(address, clock=clock, **options)
