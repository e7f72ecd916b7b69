# SPDX-License-Identifier: MIT
"""Which engines there are, by the scheme of a URL. An engine is loaded when it is asked for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlencode

from redrive import connection_url
from redrive.broker.port import Database, Engine, Questions
from redrive.clock import Clock
from redrive.errors import MissingExtra

if TYPE_CHECKING:  # a program that only sends and receives does not load the other layers
    from redrive.access.store import AccessStore
    from redrive.history import HistoryLedger
    from redrive.journey.ledger import JourneyLedger
    from redrive.notifications.store import NotificationStore
    from redrive.pipeline.ledger import PipelineLedger
    from redrive.recovery import Ledger
    from redrive.routes.ledger import RouteLedger

_LIBPQ_OPTIONS = (
    *("application_name", "client_encoding", "connect_timeout", "database", "dbname", "host", "krbsrvname"),
    *("lock_timeout", "options", "passfile", "password", "port", "search_path", "service", "servicefile"),
    *("sslcert", "sslcrl", "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert"),
    *("statement_timeout", "target_session_attrs", "user"),
)
_NATS_OPTIONS = {"replicas": int, "patience": float, "attempt": float}
_POSTGRES_OPTIONS = {"schema": str, "pool_size": int, "acquire_timeout": float, "statement_cache_size": int}


def engine_at(url: str, clock: Clock, setting: str = "url") -> Engine:
    """Return the engine for a URL, not yet open.

    Args:
        url: where the queues are.
        clock: where time comes from.
        setting: the name to blame in an error.
    """
    parts = connection_url.parts_of(setting, url)
    return _ENGINES[parts.scheme](url, parts, clock, setting)


def ledger_in(database: Database, *, is_shared: bool) -> "Ledger":
    """Return the ledger of failed messages and operations in a database.

    Args:
        database: where it is.
        is_shared: whether it is the database of the queues, which others open and close.
    """
    from redrive.engines.sql.recovery.ledger import SqlLedger

    return SqlLedger(database, is_shared=is_shared, is_with_queues=is_shared)


def slow_ledger_in(questions: Questions, seconds: float) -> "Ledger":
    """Return the ledger of failed messages and operations, to be read for a limited time, beside everything else.

    Args:
        questions: where it is; others open and close it.
        seconds: how long a question may take.
    """
    from redrive.engines.limited import LimitedDatabase
    from redrive.engines.sql.recovery.ledger import SqlLedger

    return SqlLedger(LimitedDatabase(questions, seconds), is_shared=True)


def route_ledger_in(database: Database, *, is_shared: bool) -> "RouteLedger":
    """Return the ledger of routes in a database.

    Args:
        database: where it is.
        is_shared: whether others open and close the database.
    """
    from redrive.engines.sql.routes.ledger import SqlRouteLedger

    return SqlRouteLedger(database, is_shared=is_shared)


def pipeline_ledger_in(database: Database, *, is_shared: bool) -> "PipelineLedger":
    """Return the ledger of pipelines in a database.

    Args:
        database: where it is.
        is_shared: whether others open and close the database.
    """
    from redrive.engines.sql.pipeline.ledger import SqlPipelineLedger

    return SqlPipelineLedger(database, is_shared=is_shared)


def history_ledger_in(database: Database, *, is_shared: bool) -> "HistoryLedger":
    """Return the history in a database.

    Args:
        database: where it is.
        is_shared: whether others open and close the database.
    """
    from redrive.engines.sql.history.ledger import SqlHistoryLedger

    return SqlHistoryLedger(database, is_shared=is_shared)


def journey_ledger_in(database: Database, *, is_shared: bool) -> "JourneyLedger":
    """Return the ledger of journeys in a database.

    Args:
        database: where it is.
        is_shared: whether others open and close the database.
    """
    from redrive.engines.sql.journey.ledger import SqlJourneyLedger

    return SqlJourneyLedger(database, is_shared=is_shared)


def access_store_in(database: Database, *, is_shared: bool) -> "AccessStore":
    """Return the server's own store in a database.

    Args:
        database: where it is.
        is_shared: whether others open and close the database.
    """
    from redrive.engines.sql.access.store import SqlAccessStore

    return SqlAccessStore(database, is_shared=is_shared)


def notification_store_in(database: Database, *, is_shared: bool) -> "NotificationStore":
    """Return the store of webhooks in a database.

    Args:
        database: where it is.
        is_shared: whether others open and close the database.
    """
    from redrive.engines.sql.notifications.store import SqlNotificationStore

    return SqlNotificationStore(database, is_shared=is_shared)


def _sqlite(url: str, parts: SplitResult, clock: Clock, setting: str) -> Engine:
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


def _nats(url: str, parts: SplitResult, clock: Clock, setting: str) -> Engine:
    try:
        from redrive.engines.nats import NatsEngine
    except ModuleNotFoundError as error:
        if error.name != "nats":
            raise
        raise MissingExtra("NATS JetStream", "nats") from error
    options: dict[str, Any] = {}
    for name, value in connection_url.options_of(setting, url, parts, tuple(_NATS_OPTIONS)).items():
        try:
            options[name] = _NATS_OPTIONS[name](value)
        except ValueError:
            raise connection_url.wrong(setting, url, f"has a {name} that is no number") from None
    if namespace := parts.path.strip("/"):
        options["namespace"] = namespace
    return NatsEngine(connection_url.nats_servers(setting, url, parts), clock=clock, **options)


_ENGINES: Final[dict[str, Callable[[str, SplitResult, Clock, str], Engine]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
    "nats": _nats,
    "tls": _nats,
}
