# SPDX-License-Identifier: MIT
"""What a failed message says about its failure, in headers of Redrive or of another framework. Pure: no I/O, no clock.

====================  ===============================================================================================
``redrive``           what a worker writes, see ``redrive.broker.headers``
``nservicebus``       ``NServiceBus.FailedQ``, ``.TimeOfFailure``, ``.ExceptionInfo.*``
``masstransit``       ``MT-Fault-*``, ``MT-Reason``
``azure``             ``DeadLetterReason``, ``DeadLetterErrorDescription``, ``DeadLetterSource``
``celery``            ``task``, ``id``, ``retries`` and, if the program adds them, the fields of a failed result
``rabbitmq``          ``x-death`` as JSON, ``x-first-death-*``, ``x-last-death-*``
``dead-letter``       no headers at all: what the queue noted when it dead-lettered the message, or nothing
====================  ===============================================================================================

The first format that a message has is the ``vocabulary`` of its failure; the other formats fill in the fields that the
first leaves empty. So a Celery task that RabbitMQ dead-lettered has its name and tries from Celery, and its queue,
reason and time from RabbitMQ.

Frameworks read their headers by exact names, and so does Redrive. The names of Azure and RabbitMQ are read in upper and
lower case: brokers write them, and bridges and exporters change their case.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from redrive.broker import Headers, HeaderValue, Message, Received
from redrive.broker.headers import (
    FAILED,
    FAILED_AT,
    FAILED_DELAYED_RETRIES,
    FAILED_EXCEPTION_MESSAGE,
    FAILED_EXCEPTION_SOURCE,
    FAILED_EXCEPTION_TYPE,
    FAILED_HOST,
    FAILED_IMMEDIATE_RETRIES,
    FAILED_QUEUE,
    FAILED_REASON,
    FAILED_STACK_TRACE,
    FAILED_WORKER,
)
from redrive.broker.port import unsealed
from redrive.broker.rules import check_queue_name, is_dead_letter_queue, source_queue
from redrive.errors import InvalidSetting
from redrive.printable import encodable, shortened
from redrive.recovery.failure_headers import KEPT, header_names, is_celery
from redrive.recovery.header_values import (
    LONGEST_TIME,
    as_instant,
    as_json,
    as_number,
    as_text,
    first_type,
    queue_of_address,
)

_QUEUE_HEADERS = f"{FAILED_QUEUE}, NServiceBus.FailedQ, MT-Fault-InputAddress, DeadLetterSource or x-death"
_TEXTS = ("exception_type", "exception_message", "stack_trace", "source", "reason", "host", "worker", "description")

# The header for each text of a Failure, format by format.
FIELD_HEADERS: Final = {
    "exception_type": FAILED_EXCEPTION_TYPE,
    "exception_message": FAILED_EXCEPTION_MESSAGE,
    "stack_trace": FAILED_STACK_TRACE,
    "source": FAILED_EXCEPTION_SOURCE,
    "reason": FAILED_REASON,
    "host": FAILED_HOST,
    "worker": FAILED_WORKER,
}
_NSERVICEBUS = {
    "exception_type": "NServiceBus.ExceptionInfo.ExceptionType",
    "exception_message": "NServiceBus.ExceptionInfo.Message",
    "stack_trace": "NServiceBus.ExceptionInfo.StackTrace",
    "source": "NServiceBus.ExceptionInfo.Source",
    "host": "NServiceBus.ProcessingMachine",
    "worker": "NServiceBus.ProcessingEndpoint",
}
_SIGNS_OF_NSERVICEBUS = frozenset(
    {"NServiceBus.FailedQ", "NServiceBus.TimeOfFailure"}
    | {_NSERVICEBUS[what] for what in ("exception_type", "exception_message", "stack_trace", "source")}
)
_MASSTRANSIT = {
    "exception_type": "MT-Fault-ExceptionType",
    "exception_message": "MT-Fault-Message",
    "stack_trace": "MT-Fault-StackTrace",
    "reason": "MT-Reason",
    "host": "MT-Host-MachineName",
    "worker": "MT-Fault-ConsumerType",
}
_TYPES_OF_OTHERS = frozenset({"NServiceBus.EnclosedMessageTypes", "MT-Fault-MessageType", "MT-MessageType"})
_AZURE = {"reason": "deadletterreason", "description": "deadlettererrordescription"}

_MOST_TRIES = 1_000_000_000
LONGEST_TEXT: Final = 1_000
LONGEST_TRACE: Final = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a failed message says about its failure. Texts are never None, and have no NUL: every engine stores them.

    Attributes:
        message_id: the message's id.
        queue: the queue it failed in, and to which recovery sends it.
        failed_at: when, in UTC; if the message does not say, when it was enqueued where it is now.
        key: identifies this attempt among those of the same message; it is the same in every delivery.
        exception_type: the exception's class.
        exception_message: what it said, at most 1,000 characters.
        stack_trace: the stack trace, at most 8,000 characters.
        source: where it was raised.
        reason: why the message was given up, in a word for programs.
        description: the same for people.
        message_type: what kind of message it is.
        host: the machine it failed on.
        worker: the worker, endpoint or consumer that failed.
        tries: how many attempts were made; 0 if the message does not say.
        vocabulary: the format that the failure was read from.
        operation: the operation that had sent it; None: it comes from its sender.
        headers: the headers that the failure was read from, unchanged.
    """

    message_id: str
    queue: str
    failed_at: datetime
    key: str
    exception_type: str = ""
    exception_message: str = ""
    stack_trace: str = ""
    source: str = ""
    reason: str = ""
    description: str = ""
    message_type: str = ""
    host: str = ""
    worker: str = ""
    tries: int = 0
    vocabulary: str = "redrive"
    operation: int | None = None
    headers: Mapping[str, HeaderValue] = field(default_factory=dict[str, HeaderValue])


_OpenFailure = unsealed(Failure)


class Unreadable(Exception):
    """A message that does not say enough to be recovered.

    Attributes:
        reason: what is missing, and what to do.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class _Statement:
    """What a message says in one format; empty where it says nothing."""

    vocabulary: str
    queue: str
    at: object = None
    tries: int = 0
    count: int = 0  # distinguishes two attempts with the same time
    texts: Mapping[str, str] = field(default_factory=dict[str, str])


def read_failure(received: Received, *, queue: str | None = None, key: str | None = None) -> Failure:
    """Return what a failed message says about its failure.

    Args:
        received: the message, as it is in an error queue or a dead-letter queue.
        queue: the queue it failed in, from a person; used if the message does not say.
        key: the key of the failure, if the engine distinguishes failures; None: what the message says.

    Raises:
        Unreadable: it has no id, or does not say in which queue it failed.
    """
    if not received.id:
        raise Unreadable(
            "it has no message id, so its attempts cannot be distinguished from others; send it again with an id"
        )
    statements = [each for read in _readers(tuple(received.headers)) if (each := read(received)) is not None]
    timed = next((each for each in statements if as_text(each.at)), None)
    dead, headers = received.dead_letter_info, received.headers
    texts = _together(statements)
    if dead:  # the queue's own note is newer: headers say why it was moved before, for example to an error queue
        texts["reason"], texts["description"] = dead.reason or texts["reason"], dead.description or texts["description"]
    failure = _OpenFailure()
    failure.message_id = received.id
    failure.queue = _queue(received, statements, queue)
    failure.failed_at = (as_instant(timed.at) if timed else None) or received.enqueued_at
    failure.key = key or (_key(timed) if timed else f"{received.queue}#{received.sequence}")
    failure.message_type = stored_text(_message_type(received))
    failure.tries = min(next((each.tries for each in statements if each.tries), 0), _MOST_TRIES)
    failure.vocabulary = statements[0].vocabulary if statements else "dead-letter"
    failure.headers = {name: headers[name] for name in header_names(headers).failure}
    failure.operation = None
    for name, text in texts.items():
        setattr(failure, name, text and stored_text(text, LONGEST_TRACE if name == "stack_trace" else LONGEST_TEXT))
    failure.__class__ = Failure
    return failure  # type: ignore[no-any-return]  # now it is one


def _together(statements: list[_Statement]) -> dict[str, str]:
    """Return the texts of several formats; the first that has one says it."""
    texts: dict[str, str] = dict.fromkeys(_TEXTS, "")
    for each in reversed(statements):
        texts.update((name, text) for name, text in each.texts.items() if text)
    return texts


def clean(message: Message) -> Message:
    """Return a message as it was before it failed: without the failure headers of any format, otherwise unchanged.

    Counters of redeliveries are removed too, so that it starts afresh where it is sent.
    """
    headers = message.headers
    kept = {name: headers[name] for name in header_names(headers).others}
    return message.relabelled(kept) if message.ttl is None else replace(message, headers=kept)


# --- the vocabularies


def _redrive(received: Received) -> _Statement | None:
    headers = received.headers
    if not any(name.startswith(FAILED) for name in headers):
        return None
    tries = _tries(headers, FAILED_IMMEDIATE_RETRIES, FAILED_DELAYED_RETRIES)
    queue, at = as_text(headers.get(FAILED_QUEUE)), headers.get(FAILED_AT)
    return _Statement("redrive", queue, at, tries, texts=_texts(headers, FIELD_HEADERS))


def _nservicebus(received: Received) -> _Statement | None:
    headers = received.headers
    if _SIGNS_OF_NSERVICEBUS.isdisjoint(headers):
        return None
    queue, _, machine = as_text(headers.get("NServiceBus.FailedQ")).partition("@")
    texts = _texts(headers, _NSERVICEBUS)
    texts["host"] = texts["host"] or machine
    tries = _tries(headers, "NServiceBus.FLRetries", "NServiceBus.Retries")
    return _Statement("nservicebus", queue, headers.get("NServiceBus.TimeOfFailure"), tries, texts=texts)


def _masstransit(received: Received) -> _Statement | None:
    headers, fault = received.headers, "MT-Fault-"
    if "MT-Reason" not in headers and not any(n.startswith(fault) and n not in KEPT for n in headers):
        return None
    queue = queue_of_address(as_text(headers.get("MT-Fault-InputAddress")))
    tries = _tries(headers, "MT-Fault-RetryCount", "MT-Fault-RedeliveryCount")
    texts = _texts(headers, _MASSTRANSIT)
    return _Statement("masstransit", queue, headers.get("MT-Fault-Timestamp"), tries, texts=texts)


def _azure(received: Received) -> _Statement | None:
    headers = {name.lower(): value for name, value in received.headers.items()}
    source, texts = as_text(headers.get("deadlettersource")), _texts(headers, _AZURE)
    if not source and not any(texts.values()):
        return None
    return _Statement("azure", source.partition("/$")[0], texts=texts)  # it may be orders/$DeadLetterQueue


def _celery(received: Received) -> _Statement | None:
    """Read a task of protocol 2. It says nothing about its failure, unless the program adds the result's fields.

    ``origin`` is not the host: that is where the task was called, not where it failed.
    """
    headers = received.headers
    if not is_celery(headers):
        return None
    said, worker = as_text(headers.get("exception")), as_text(headers.get("hostname"))  # ValueError('no'), celery@host
    module, kind = as_text(headers.get("exc_module")), as_text(headers.get("exc_type")) or said.partition("(")[0]
    texts = {
        "exception_type": f"{module}.{kind}" if kind and module not in ("", "builtins") else kind,
        "exception_message": as_text(headers.get("exc_message")) or said,
        "stack_trace": as_text(headers.get("traceback")),
        "host": worker.rpartition("@")[2],
        "worker": worker,
    }
    return _Statement("celery", "", headers.get("date_done"), _tries(headers, "retries"), texts=texts)


def _rabbitmq(received: Received) -> _Statement | None:
    headers = {name.lower(): value for name, value in received.headers.items()}
    found = as_json(headers.get("x-death") or headers.get("x-opt-deaths"))
    deaths = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]
    queues, reasons = (
        [as_text(headers.get(f"x-{which}-death-{what}")) for which in ("last", "first")] for what in ("queue", "reason")
    )
    if not deaths and not any(queues):
        return None
    # The newest comes first. A message usually expires in a queue where it waits for its next try: it failed before.
    death = next((each for each in deaths if each.get("reason") != "expired"), deaths[0] if deaths else {})
    count = as_number(death.get("count")) or 0
    queue = as_text(death.get("queue")) or queues[0] or queues[1]
    texts = {"reason": as_text(death.get("reason")) or reasons[0] or reasons[1]}
    # The time in x-death is that of the first death in that queue; only the count distinguishes the later ones.
    return _Statement("rabbitmq", queue, death.get("last-time") or death.get("time"), count, count, texts)


def _dead_letter(received: Received) -> _Statement | None:
    dead = received.dead_letter_info
    if dead is None and not is_dead_letter_queue(received.queue):
        return None
    return _Statement("dead-letter", (dead.source if dead else "") or received.queue)


@lru_cache(maxsize=1_000)
def _readers(names: tuple[str, ...]) -> tuple[Callable[[Received], _Statement | None], ...]:
    """Return the readers of the formats that a message with these headers may have, in the order of their words."""
    lower = {name.lower() for name in names}
    formats = (
        (_redrive, any(name.startswith(FAILED) for name in names)),
        (_nservicebus, not _SIGNS_OF_NSERVICEBUS.isdisjoint(names)),
        (_masstransit, any(name.startswith("MT-") for name in names)),
        (_azure, any(name.startswith("deadletter") for name in lower)),
        (_celery, "task" in names),
        (_rabbitmq, any(name.startswith("x-") for name in lower)),
        (_dead_letter, True),
    )
    return tuple(read for read, may_have in formats if may_have)


def is_only_ours(names: tuple[str, ...]) -> bool:
    """Say whether headers with these names have nothing that another framework says about a message."""
    return _readers(names) == (_redrive, _dead_letter) and _TYPES_OF_OTHERS.isdisjoint(names)


# --- what all of them have


def _queue(received: Received, statements: list[_Statement], from_person: str | None) -> str:
    # For a dead letter the queue is known. Headers may come from the sender, who must not choose the queue.
    known = received.dead_letter_info.source if received.dead_letter_info else ""
    if not known and is_dead_letter_queue(received.queue):
        known = received.queue
    said = source_queue((known or next((each.queue for each in statements if each.queue), "")).strip())
    # A person may correct a message with an impossible queue; the reader does not guess.
    found = [name for name in ((said, from_person) if said else (from_person, *_guesses(received, statements))) if name]
    why = "it does not say in which queue it failed: it is in no dead-letter queue, and has no header " + _QUEUE_HEADERS
    for name in found:
        try:
            return check_queue_name(name)
        except InvalidSetting as error:
            why = f"it failed in {stored_text(str(name), 300)!r}, which no queue can be called: a name {error.allowed}"
    raise Unreadable(f"{why}; re-import it with queue=…")


def _guesses(received: Received, statements: list[_Statement]) -> list[str]:
    """Return queues that a message may have failed in, if neither the message nor a person says."""
    if any(each.vocabulary == "masstransit" for each in statements):
        home = received.queue.removesuffix("_error").removesuffix("_skipped")
        return [home] if home != received.queue else []
    if any(
        each.vocabulary == "celery" for each in statements
    ):  # by default, queues of Celery are bound by their own names
        found = as_json(received.headers.get("delivery_info"))
        routed = found.get("routing_key") if isinstance(found, dict) else None
        return [as_text(routed) or as_text(received.headers.get("routing_key"))]
    return []


def _message_type(received: Received) -> str:
    headers = received.headers
    if as_text(
        headers.get("NServiceBus.EnclosedMessageTypes")
    ):  # Shop.PlaceOrder, Shop, Version=1.0.0.0;Shop.ICommand…
        return first_type(as_text(headers["NServiceBus.EnclosedMessageTypes"]))
    kind = as_text(headers.get("MT-Fault-MessageType")) or as_text(headers.get("MT-MessageType"))
    if kind:  # urn:message:Shop:PlaceOrder;urn:message:Shop:ICommand
        return kind.partition(";")[0].removeprefix("urn:message:").replace(":", ".")
    return as_text(headers["task"]) if "task" in headers and is_celery(headers) else received.message.subject or ""


def stored_text(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text that every engine stores, shortened in the middle if it is longer."""
    if len(text) <= longest and text.isascii() and "\0" not in text:  # as nearly all are
        return text
    return shortened(text.replace("\0", "␀"), longest)


def _texts(headers: Headers, names: Mapping[str, str]) -> dict[str, str]:
    """Return what headers say, by the field of a ``Failure`` that each of them is for."""
    return {field: as_text(headers.get(header)) for field, header in names.items()}


def _tries(headers: Headers, *names: str) -> int:
    said = [number for name in names if (number := as_number(headers.get(name))) is not None]
    return 1 + sum(said) if said else 0


def _key(statement: _Statement) -> str:
    at = encodable(as_text(statement.at).replace("\0", "␀"))
    mark = at if len(at) <= LONGEST_TIME else blake2b(at.encode(), digest_size=16).hexdigest()
    return f"{statement.vocabulary}:{mark}" + (f"#{statement.count}" if statement.count else "")
