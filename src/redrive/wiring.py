# SPDX-License-Identifier: MIT
"""Putting the parts together: a broker, its engine, and the recovery of what has failed."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack, overload

from redrive import connection_url, duration
from redrive.broker import BlockingBroker, Broker
from redrive.broker.port import Database, Questions, ability, find_ability
from redrive.broker.rules import ERROR_QUEUE
from redrive.clock import Clock, system_clock
from redrive.engines.registry import (
    access_store_in,
    engine_at,
    history_ledger_in,
    journey_ledger_in,
    ledger_in,
    notification_store_in,
    pipeline_ledger_in,
    route_ledger_in,
    slow_ledger_in,
)
from redrive.retry import Policy, Retry
from redrive.telemetry import Event

if TYPE_CHECKING:  # a program that only sends and receives does not load recovery
    from redrive.access import Access
    from redrive.attention import Attention, Thresholds
    from redrive.history import History
    from redrive.journey import Journeys
    from redrive.notifications import Notifications
    from redrive.pipeline import OpenPipeline, Pipeline, PipelinePlan, Pipelines
    from redrive.recovery import BlockingRecovery, Classifier, Reader, Recovery, ServiceSettings, TransformSettings
    from redrive.routes import Routes

__all__ = [
    "connect",
    "connect_blocking",
    "open_access",
    "open_attention",
    "open_history",
    "open_journeys",
    "open_pipeline",
    "open_pipelines",
    "open_recovery",
    "open_routes",
    "open_slow_reader",
]


def connect(
    url: str, *, clock: Clock = system_clock, upkeep_every: float = 5.0, retry: Policy | Retry | None = None
) -> Broker:
    """Return the broker at a URL, to be entered with ``async with``.

    Args:
        url: ``sqlite:///orders.db`` for a file beside the program, ``sqlite:////var/lib/orders.db`` for one elsewhere,
            ``sqlite:///:memory:`` for queues that end with the process. ``?synchronous=normal`` is faster, but a power
            cut may undo the last moments. ``postgresql://user@host/database`` for queues that many processes share; it
            takes PostgreSQL's own options, and ``schema``, ``pool_size``, ``acquire_timeout`` and
            ``statement_cache_size``. ``nats://one,two,three/namespace`` for queues in NATS JetStream, which go on when
            a server dies; it takes ``replicas``, ``patience`` and ``attempt``.
        clock: where time comes from.
        upkeep_every: how often, in seconds, the broker looks for expired messages and idle queues.
        retry: how to make a call again while the store does not answer: a policy such as
            ``Exponential(min=0.8, max_attempts=4)``, or ``retry(on=EngineUnavailable, …)`` with a deadline for each
            call, a limit for each attempt, a breaker. Only what was certainly not done is done again. None: the first
            failure is raised.
    """
    return Broker(engine_at(url, clock), clock=clock, upkeep_every=upkeep_every, retry=retry)


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
    classifiers: "Mapping[str, Classifier] | None"
    events_queue: str | None
    settings: "ServiceSettings | None"
    on_event: Callable[[Event], object] | None


@overload
def open_recovery(broker: Broker, store: str | None = None, **options: Unpack[OpenRecoveryOptions]) -> "Recovery": ...


@overload
def open_recovery(
    broker: BlockingBroker, store: str | None = None, **options: Unpack[OpenRecoveryOptions]
) -> "BlockingRecovery": ...


def open_recovery(
    broker: Broker | BlockingBroker,
    store: str | None = None,
    *,
    sources: Sequence[str] = (ERROR_QUEUE,),
    classifiers: "Mapping[str, Classifier] | None" = None,
    events_queue: str | None = None,
    settings: "ServiceSettings | None" = None,
    on_event: Callable[[Event], object] | None = None,
) -> "Recovery | BlockingRecovery":
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
    from redrive.recovery import BlockingRecovery, Recovery

    inner = broker.inner if isinstance(broker, BlockingBroker) else broker
    engine = inner.engine if store is None else engine_at(store, inner.clock, "store")
    if (database := find_ability(engine, Database)) is None:
        problem = "must be given: this broker's engine is no database; "
        raise connection_url.wrong("store", store, problem + connection_url.FORMS)
    recovery = Recovery(
        inner,
        ledger_in(database, is_shared=store is None),
        sources=sources,
        classifiers=classifiers,
        events_queue=events_queue,
        settings=settings,
        on_event=on_event,
        queues_by_route=partial(_queues_by_route, inner),
    )
    return BlockingRecovery(recovery, broker) if isinstance(broker, BlockingBroker) else recovery


async def _queues_by_route(broker: Broker) -> "Mapping[str, Sequence[str]]":
    """Return the queues of all stored routes, which are where the queues are."""
    from redrive.routes import queues_by_route

    if (database := find_ability(broker.engine, Database)) is None:
        return {}
    return queues_by_route(await route_ledger_in(database, is_shared=True).routes())


def open_slow_reader(broker: Broker, *, limit: float = 5.0, transforms: "TransformSettings | None" = None) -> "Reader":
    """Return what answers slow questions about failed messages: beside all other work, and for a limited time.

    Args:
        broker: where the failed messages are; it must be open by then.
        limit: how many seconds a question may take; ``QuestionTooSlow`` is raised for one that takes longer.
        transforms: how messages are changed in previews.
    """
    from redrive.recovery import Reader

    ledger = slow_ledger_in(ability(broker.engine, Questions), duration.seconds("limit", limit))
    return Reader(broker, ledger, transforms, partial(_queues_by_route, broker))


def open_access(broker: Broker) -> "Access":
    """Return the tokens, users and sessions of the server.

    Args:
        broker: where they are; it must be open by then.
    """
    from redrive.access import Access

    return Access(access_store_in(ability(broker.engine, Database), is_shared=True), broker.clock)


def open_attention(broker: Broker, store: str | None = None, *, thresholds: "Thresholds | None" = None) -> "Attention":
    """Return what says what needs a person, to be entered with ``async with``.

    Args:
        broker: where the queues are; it must be open by then.
        store: where failures and operations are kept, as for ``open_recovery``.
        thresholds: from when on something needs a person.
    """
    from redrive.attention import Attention

    recovery = open_recovery(broker, store, sources=())
    return Attention(open_history(broker), recovery, open_routes(broker), open_pipelines(broker), thresholds)


def open_notifications(broker: Broker, attention: "Attention", networks: Sequence[str] = ()) -> "Notifications":
    """Return the webhooks of a broker, and what calls them.

    Args:
        broker: where they are; it must be open by then.
        attention: what needs a person; it must be open to look and to run.
        networks: private networks that webhooks may be in: ``10.0.0.0/8``.
    """
    from redrive.http.public_address import networks_of
    from redrive.notifications import Notifications

    store = notification_store_in(ability(broker.engine, Database), is_shared=True)
    return Notifications(broker, store, attention, networks_of(networks))


def open_history(broker: Broker) -> "History":
    """Return the history of a broker, to be entered with ``async with``.

    Args:
        broker: where the queues and the history are; it must be open by then.
    """
    from redrive.history import History

    return History(broker, history_ledger_in(ability(broker.engine, Database), is_shared=True))


def open_routes(broker: Broker) -> "Routes":
    """Return the routes of a broker, to be entered with ``async with``.

    Args:
        broker: where the queues and the routes are; it must be open by then.
    """
    from redrive.routes import Routes

    return Routes(broker, route_ledger_in(ability(broker.engine, Database), is_shared=True))


def open_pipeline(broker: Broker, pipeline: "Pipeline | PipelinePlan") -> "OpenPipeline":
    """Return a pipeline of a broker, to be entered with ``async with``: then it takes submissions.

    Args:
        broker: where its queues and tasks are; it must be open by then.
        pipeline: the pipeline.
    """
    from redrive.pipeline import OpenPipeline, Pipeline

    plan = pipeline.plan if isinstance(pipeline, Pipeline) else pipeline
    return OpenPipeline(broker, pipeline_ledger_in(ability(broker.engine, Database), is_shared=True), plan)


def open_pipelines(broker: Broker) -> "Pipelines":
    """Return all pipelines of a broker, for people who look after them, to be entered with ``async with``.

    Args:
        broker: where their queues and tasks are; it must be open by then.
    """
    from redrive.pipeline import Pipelines

    return Pipelines(broker, pipeline_ledger_in(ability(broker.engine, Database), is_shared=True))


def open_journeys(broker: Broker) -> "Journeys":
    """Return the journeys of a broker's messages, to be entered with ``async with``.

    Args:
        broker: where the queues are; it must be open by then.
    """
    from redrive.journey import Journeys

    return Journeys(journey_ledger_in(ability(broker.engine, Database), is_shared=True))
