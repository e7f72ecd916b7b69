# SPDX-License-Identifier: MIT
"""What a failed message says about its failure, in whose words ever. Pure: no I/O, no clock, no randomness.

====================  ===============================================================================================
``redrive``           ``redrive-failed-*``, from a worker's ``Recoverability``
``nservicebus``       ``NServiceBus.FailedQ``, ``.TimeOfFailure``, ``.ExceptionInfo.*``
``masstransit``       ``MT-Fault-*``, ``MT-Reason``
``azure``             ``DeadLetterReason``, ``DeadLetterErrorDescription``, ``DeadLetterSource``
``celery``            ``task``, ``id``, ``retries`` and, if someone added them, the fields of a failed result
``rabbitmq``          ``x-death`` as JSON, ``x-first-death-*``, ``x-last-death-*``
``dead-letter``       no headers at all: what the queue noted when it dead-lettered the message, or nothing
====================  ===============================================================================================

The first of them that a message speaks gives the failure its ``vocabulary``; what it leaves open the others say. So a
Celery task that RabbitMQ dead-lettered has its name and tries from Celery, its queue, reason and time from RabbitMQ.

Frameworks read their headers by exact names, and so do we. The names of Azure and RabbitMQ are read in any case: they
are a broker's, and reach us through bridges and exporters of all sorts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from urllib.parse import unquote

from redrive.broker.message import Headers, HeaderValue, Message, Received
from redrive.broker.rules import check_queue_name, is_dead_letter_queue, source_queue
from redrive.errors import InvalidSetting
from redrive.worker.confirmation import RECOVERY
from redrive.worker.recoverability import DELAYED_RETRIES, EARLIER_DELIVERIES, FAILED, printable, shortened

_PREFIXES = (
    *(FAILED, RECOVERY),
    *("NServiceBus.FailedQ", "NServiceBus.TimeOfFailure", "NServiceBus.ExceptionInfo."),
    *("NServiceBus.Retries", "NServiceBus.FLRetries"),
    *("MT-Fault-", "MT-Host-"),
)
_NAMES = frozenset({DELAYED_RETRIES, EARLIER_DELIVERIES, "MT-Reason", "MT-Redelivery-Count"})
_KEPT = frozenset({"MT-Fault-Address", "MT-Host-Info"})
"""They look like the others, but came with the message: where to report faults to, and who sent it."""
_OF_BROKERS = frozenset(
    {f"x-{which}-death-{what}" for which in ("first", "last") for what in ("queue", "reason", "exchange")}
    | {f"deadletter{what}" for what in ("source", "reason", "errordescription")}
    | {"x-death", "x-opt-deaths", "x-delivery-count"}
)
_OF_CELERY = frozenset({"retries", "exc_type", "exc_module", "exc_message", "exception", "traceback", "date_done"})
_SIGNS_OF_CELERY = ("lang", "root_id", "argsrepr", "origin")

_QUEUE_HEADERS = "redrive-failed-queue, NServiceBus.FailedQ, MT-Fault-InputAddress, DeadLetterSource or x-death"
_FIELDS = ("exception_type", "exception_message", "stack_trace", "source", "reason", "host", "worker", "description")

_LONGEST_TIME = 64
_LONGEST_JSON = 262_144
_MOST_TRIES = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a failed message says about its failure. Texts are never None, and have no NUL: every engine stores them.

    Attributes:
        message_id: the message's id.
        queue: the queue it failed in, to which it goes when it is recovered.
        failed_at: when, in UTC; when it was enqueued where it is now, if it does not say.
        key: tells this attempt from every other of the same message; the same however often it is delivered.
        exception_type: the exception's class.
        exception_message: what it said, at most 1,000 characters.
        stack_trace: the way it came, at most 8,000 characters.
        source: where it was raised.
        reason: why the message was given up, in a word for programs.
        description: the same for people.
        message_type: what kind of message it is.
        host: the machine it failed on.
        worker: the worker, endpoint or consumer that failed.
        tries: how many were made; 0: it does not say.
        vocabulary: in whose words it said all this.
        operation: the operation that had sent it; None: it failed on its way from its sender.
        headers: the headers that say all this, as they were.
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


class Unreadable(Exception):
    """A message that does not say enough to be recovered.

    Attributes:
        reason: what is missing, and what to do.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Told:
    """What one vocabulary says; empty where it says nothing."""

    vocabulary: str
    queue: str
    at: object = None
    tries: int = 0
    count: int = 0  # tells two attempts apart where the time alone does not
    texts: Mapping[str, str] = field(default_factory=dict[str, str])


def read_failure(received: Received, *, queue: str | None = None) -> Failure:
    """Return what a failed message says about its failure.

    Args:
        received: the message, as it is in an error queue or a dead-letter queue.
        queue: the queue it failed in, from a person who knows; counts if the message does not say.

    Raises:
        Unreadable: it has no id, or there is no telling in which queue it failed.
    """
    if not received.id:
        raise Unreadable("it has no message id, so its attempts cannot be told from others; send it again with an id")
    told = [each for read in _READERS if (each := read(received)) is not None]
    timed = next((each for each in told if _text(each.at)), None)
    dead, headers = received.dead_letter_info, received.headers
    texts = {name: next((text for each in told if (text := each.texts.get(name))), "") for name in _FIELDS}
    if dead:  # the queue's own note is the newer one: headers say why it was moved before, say to an error queue
        texts["reason"], texts["description"] = dead.reason or texts["reason"], dead.description or texts["description"]
    return Failure(
        message_id=received.id,
        queue=_queue(received, told, queue),
        failed_at=(_instant(timed.at) if timed else None) or received.enqueued_at,
        key=_key(timed) if timed else f"{received.queue}#{received.sequence}",
        message_type=_stored(_message_type(received)),
        tries=min(next((each.tries for each in told if each.tries), 0), _MOST_TRIES),
        vocabulary=told[0].vocabulary if told else "dead-letter",
        headers={name: value for name, value in _failure_headers(headers).items() if not name.startswith(RECOVERY)},
        operation=None,
        **{name: _stored(text, 8_000 if name == "stack_trace" else 1_000) for name, text in texts.items()},
    )


def clean(message: Message) -> Message:
    """Return a message as it was before it failed: without the headers of any vocabulary, all else as it is.

    Counters of redeliveries go too, so that it begins anew wherever it is sent.
    """
    failed = _failure_headers(message.headers)
    return replace(message, headers={name: value for name, value in message.headers.items() if name not in failed})


def _failure_headers(headers: Headers) -> dict[str, HeaderValue]:
    of_celery = _OF_CELERY if _is_celery(headers) else frozenset[str]()
    return {
        name: value
        for name, value in headers.items()
        if (name.startswith(_PREFIXES) and name not in _KEPT)
        or name in _NAMES
        or name in of_celery
        or name.lower() in _OF_BROKERS
    }


# --- the vocabularies


def _redrive(received: Received) -> _Told | None:
    headers = {name.removeprefix(FAILED): value for name, value in received.headers.items() if name.startswith(FAILED)}
    if not headers:
        return None
    names = ("exception-type", "exception-message", "stack-trace", "exception-source", "reason", "host", "worker")
    tries, texts = _tries(headers, "immediate-retries", "delayed-retries"), _texts(headers, *names)
    return _Told("redrive", _text(headers.get("queue")), headers.get("at"), tries, texts=texts)


def _nservicebus(received: Received) -> _Told | None:
    headers = received.headers
    info = tuple(f"NServiceBus.ExceptionInfo.{what}" for what in ("ExceptionType", "Message", "StackTrace", "Source"))
    if not any(name in headers for name in ("NServiceBus.FailedQ", "NServiceBus.TimeOfFailure", *info)):
        return None
    queue, _, machine = _text(headers.get("NServiceBus.FailedQ")).partition("@")
    texts = _texts(headers, *info, "", "NServiceBus.ProcessingMachine", "NServiceBus.ProcessingEndpoint")
    texts["host"] = texts["host"] or machine
    tries = _tries(headers, "NServiceBus.FLRetries", "NServiceBus.Retries")
    return _Told("nservicebus", queue, headers.get("NServiceBus.TimeOfFailure"), tries, texts=texts)


def _masstransit(received: Received) -> _Told | None:
    headers, fault = received.headers, "MT-Fault-"
    if "MT-Reason" not in headers and not any(n.startswith(fault) and n not in _KEPT for n in headers):
        return None
    queue = _last_of_address(_text(headers.get("MT-Fault-InputAddress")))
    names = ("MT-Fault-ExceptionType", "MT-Fault-Message", "MT-Fault-StackTrace", "", "MT-Reason")
    texts = _texts(headers, *names, "MT-Host-MachineName", "MT-Fault-ConsumerType")
    tries = _tries(headers, "MT-Fault-RetryCount", "MT-Fault-RedeliveryCount")
    return _Told("masstransit", queue, headers.get("MT-Fault-Timestamp"), tries, texts=texts)


def _azure(received: Received) -> _Told | None:
    headers = {name.lower(): value for name, value in received.headers.items()}
    told = {name: _text(headers.get(f"deadletter{name}")) for name in ("source", "reason", "errordescription")}
    if not any(told.values()):
        return None
    texts = {"reason": told["reason"], "description": told["errordescription"]}
    return _Told("azure", told["source"].partition("/$")[0], texts=texts)  # it may be orders/$DeadLetterQueue


def _celery(received: Received) -> _Told | None:
    """Read a task of protocol 2. It says nothing of its failure, unless someone added what the result or event says.

    ``origin`` is not the host: that is where the task was called, not where it failed.
    """
    headers = received.headers
    if not _is_celery(headers):
        return None
    said, worker = _text(headers.get("exception")), _text(headers.get("hostname"))  # ValueError('no'), celery@host
    module, kind = _text(headers.get("exc_module")), _text(headers.get("exc_type")) or said.partition("(")[0]
    texts = {
        "exception_type": f"{module}.{kind}" if kind and module not in ("", "builtins") else kind,
        "exception_message": _text(headers.get("exc_message")) or said,
        "stack_trace": _text(headers.get("traceback")),
        "host": worker.rpartition("@")[2],
        "worker": worker,
    }
    return _Told("celery", "", headers.get("date_done"), _tries(headers, "retries"), texts=texts)


def _rabbitmq(received: Received) -> _Told | None:
    headers = {name.lower(): value for name, value in received.headers.items()}
    found = _json(headers.get("x-death") or headers.get("x-opt-deaths"))
    deaths = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]
    queues, reasons = (
        [_text(headers.get(f"x-{which}-death-{what}")) for which in ("last", "first")] for what in ("queue", "reason")
    )
    if not deaths and not any(queues):
        return None
    # The newest comes first. Expired it usually has in a queue where it only waited for its next try: it failed before.
    death = next((each for each in deaths if each.get("reason") != "expired"), deaths[0] if deaths else {})
    count = _number(death.get("count")) or 0
    queue = _text(death.get("queue")) or queues[0] or queues[1]
    texts = {"reason": _text(death.get("reason")) or reasons[0] or reasons[1]}
    # The time in x-death is that of the first death in that queue; only the count tells the later ones.
    return _Told("rabbitmq", queue, death.get("last-time") or death.get("time"), count, count, texts)


def _dead_letter(received: Received) -> _Told | None:
    dead = received.dead_letter_info
    if dead is None and not is_dead_letter_queue(received.queue):
        return None
    return _Told("dead-letter", (dead.source if dead else "") or received.queue)


_READERS = (_redrive, _nservicebus, _masstransit, _azure, _celery, _rabbitmq, _dead_letter)


def _is_celery(headers: Headers) -> bool:
    """Say whether a message is a task of Celery. Two plain words are not enough: they could be anybody's."""
    named = all(isinstance(headers.get(name), str) for name in ("task", "id"))
    return named and any(sign in headers for sign in _SIGNS_OF_CELERY)


# --- what all of them have


def _queue(received: Received, told: list[_Told], from_person: str | None) -> str:
    # The queue that dead-lettered a message knows where that was. Headers may be the sender's, who must not choose it.
    known = received.dead_letter_info.source if received.dead_letter_info else ""
    if not known and is_dead_letter_queue(received.queue):
        known = received.queue
    said = source_queue((known or next((each.queue for each in told if each.queue), "")).strip())
    # A person may know better than a message that says nonsense; we do not.
    found = [name for name in ((said, from_person) if said else (from_person, *_guesses(received, told))) if name]
    why = "it says nowhere in which queue it failed: it is in no dead-letter queue, and has no header " + _QUEUE_HEADERS
    for name in found:
        try:
            return check_queue_name(name)
        except InvalidSetting as error:
            why = f"it failed in {_stored(str(name), 300)!r}, which no queue can be called: a name {error.allowed}"
    raise Unreadable(f"{why}; re-import it with queue=…")


def _guesses(received: Received, told: list[_Told]) -> list[str]:
    """Return queues that a message may have failed in, if neither it nor a person says."""
    if any(each.vocabulary == "masstransit" for each in told):
        home = received.queue.removesuffix("_error").removesuffix("_skipped")
        return [home] if home != received.queue else []
    if any(each.vocabulary == "celery" for each in told):  # its queues are bound by their own names, unless configured
        found = _json(received.headers.get("delivery_info"))
        routed = found.get("routing_key") if isinstance(found, dict) else None
        return [_text(routed) or _text(received.headers.get("routing_key"))]
    return []


def _message_type(received: Received) -> str:
    headers = received.headers
    if _text(headers.get("NServiceBus.EnclosedMessageTypes")):  # Shop.PlaceOrder, Shop, Version=1.0.0.0;Shop.ICommand…
        return _without_assembly(_text(headers["NServiceBus.EnclosedMessageTypes"]))
    kind = _text(headers.get("MT-Fault-MessageType")) or _text(headers.get("MT-MessageType"))
    if kind:  # urn:message:Shop:PlaceOrder;urn:message:Shop:ICommand
        return kind.partition(";")[0].removeprefix("urn:message:").replace(":", ".")
    return _text(headers.get("task")) if _is_celery(headers) else received.message.subject or ""


def _last_of_address(address: str) -> str:
    """Return the queue in ``rabbitmq://host/vhost/orders?durable=true`` or in ``queue:orders``."""
    start, is_full, rest = address.partition("?")[0].rstrip("/").partition("://")
    return unquote(rest.partition("/")[2].rpartition("/")[2] if is_full else start.rpartition(":")[2])


def _without_assembly(types: str) -> str:
    """Return the first of some .NET types without its assembly; commas in brackets belong to its type arguments."""
    depth = 0
    for at, character in enumerate(types[:1_000]):
        depth += (character == "[") - (character == "]")
        if character in ",;" and depth <= 0:
            return types[:at].strip()
    return types.strip()


def _json(value: object) -> object:
    try:
        return json.loads(value) if isinstance(value, str) and len(value) <= _LONGEST_JSON else None
    except (ValueError, RecursionError):
        return None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Python prints no number of more than 4,300 digits.
    return str(value) if is_number and not (isinstance(value, int) and value.bit_length() > 256) else ""


def _stored(text: str, longest: int = 1_000) -> str:
    return shortened(text.replace("\0", "␀"), longest)


def _texts(headers: Headers, *names: str) -> dict[str, str]:
    """Return what headers say, by the field of a ``Failure`` that each of them is for."""
    return {to: _text(headers.get(name)) for to, name in zip(_FIELDS, names, strict=False)}


def _number(value: object) -> int | None:
    """Return a whole number from 0, also if it came as digits; None if it is anything else."""
    if isinstance(value, str):
        return int(value) if len(value) <= 18 and value.isascii() and value.isdigit() else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < 2**63 else None


def _tries(headers: Headers, *names: str) -> int:
    said = [number for name in names if (number := _number(headers.get(name))) is not None]
    return 1 + sum(said) if said else 0


def _key(told: _Told) -> str:
    at = printable(_text(told.at).replace("\0", "␀"))
    mark = at if len(at) <= _LONGEST_TIME else blake2b(at.encode(), digest_size=16).hexdigest()
    return f"{told.vocabulary}:{mark}" + (f"#{told.count}" if told.count else "")


def _instant(value: object) -> datetime | None:
    """Return the instant that a text or a number of seconds names, in UTC; None if it names none."""
    try:
        if isinstance(value, int | float):  # milliseconds, if as seconds it would be after the year 5000
            return _EPOCH + timedelta(seconds=value if abs(value) < 1e11 else value / 1_000)
        if not isinstance(value, str) or len(value) > _LONGEST_TIME:
            return None
        text = value.strip()
        if text.endswith(" Z") and text[19:20] == ":":  # NServiceBus: 2024-05-01 12:30:00:123456 Z
            text = f"{text[:19]}.{text[20:-2]}+00:00"
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
