# SPDX-License-Identifier: MIT
"""Which headers of a message are about its failure, whichever framework wrote them. Pure: no I/O, no clock."""

from functools import lru_cache
from typing import NamedTuple

from redrive.broker import Headers
from redrive.broker.headers import DELAYED_RETRIES, EARLIER_DELIVERIES, FAILED, RECOVERY

_PREFIXES = (
    *(FAILED, RECOVERY),
    *("NServiceBus.FailedQ", "NServiceBus.TimeOfFailure", "NServiceBus.ExceptionInfo."),
    *("NServiceBus.Retries", "NServiceBus.FLRetries"),
    *("MT-Fault-", "MT-Host-"),
)
_NAMES = frozenset({DELAYED_RETRIES, EARLIER_DELIVERIES, "MT-Reason", "MT-Redelivery-Count"})
KEPT = frozenset({"MT-Fault-Address", "MT-Host-Info"})
"""Headers that look like those of a failure, but belong to the message: the sender, and where to report faults."""
_OF_BROKERS = frozenset(
    {f"x-{which}-death-{what}" for which in ("first", "last") for what in ("queue", "reason", "exchange")}
    | {f"deadletter{what}" for what in ("source", "reason", "errordescription")}
    | {"x-death", "x-opt-deaths", "x-delivery-count"}
)
_OF_CELERY = frozenset({"retries", "exc_type", "exc_module", "exc_message", "exception", "traceback", "date_done"})
_SIGNS_OF_CELERY = ("lang", "root_id", "argsrepr", "origin")


class HeaderNames(NamedTuple):
    """The names of a message's headers: those that say something about its failure, and all that are not about it."""

    failure: tuple[str, ...]
    others: tuple[str, ...]


def header_names(headers: Headers) -> HeaderNames:
    """Return the names of the headers that are about a failure, and of those that are not."""
    return _names_of(tuple(headers), of_celery="task" in headers and is_celery(headers))


@lru_cache(maxsize=1_000)  # the messages of a program have the same headers, with other values
def _names_of(names: tuple[str, ...], *, of_celery: bool) -> HeaderNames:
    failed = {
        name
        for name in names
        if (name.startswith(_PREFIXES) and name not in KEPT)
        or name in _NAMES
        or (of_celery and name in _OF_CELERY)
        or name.lower() in _OF_BROKERS
    }
    failure = tuple(name for name in names if name in failed and not name.startswith(RECOVERY))
    return HeaderNames(failure, tuple(name for name in names if name not in failed))


def is_celery(headers: Headers) -> bool:
    """Say whether a message is a task of Celery. Two plain words are not enough: any program may use them."""
    named = all(isinstance(headers.get(name), str) for name in ("task", "id"))
    return named and any(sign in headers for sign in _SIGNS_OF_CELERY)
