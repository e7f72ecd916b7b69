# SPDX-License-Identifier: MIT
"""Vocabularies: what failed messages say of themselves. Numbers are those of the checklist (2, 6, 7, 10, 27, 28)."""

import json
import string
import time
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redrive.broker import DeadLetterInfo, Message, Received, State
from redrive.broker.headers import DELAYED_RETRIES, EARLIER_DELIVERIES
from redrive.recovery.failure_formats import Failure, Unreadable, clean, read_failure
from redrive.worker import HandlerFailure
from redrive.worker.recoverability import failure_headers

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
THEN = datetime(2026, 11, 15, 8, 30, 0, 123456, tzinfo=UTC)

OURS = {
    name: value
    for name, value in failure_headers(
        HandlerFailure(
            error=ValueError("no lines"),
            queue="orders",
            message=Message(b"", headers={DELAYED_RETRIES: 5, EARLIER_DELIVERIES: 15}),
            delivery_count=3,
            failed_at=THEN,
            source="shop.orders.pack:12",
            stack_trace="Traceback (most recent call last):\nValueError: no lines\n",
            host="web-1",
            worker="orders-1",
        ),
        "MaxDelayedRetries",
    ).items()
    if value is not None
}

NSERVICEBUS = {
    "NServiceBus.ExceptionInfo.ExceptionType": "System.InvalidOperationException",
    "NServiceBus.ExceptionInfo.InnerExceptionType": "System.Collections.Generic.KeyNotFoundException",
    "NServiceBus.ExceptionInfo.HelpLink": "",
    "NServiceBus.ExceptionInfo.Message": "Order 17 has no lines",
    "NServiceBus.ExceptionInfo.Source": "Shop",
    "NServiceBus.ExceptionInfo.StackTrace": "System.InvalidOperationException: no\r\n   at Shop.Packer.Pack()",
    "NServiceBus.ExceptionInfo.Data.Message type": "Shop.PlaceOrder",
    "NServiceBus.FailedQ": "orders@WEB-1",
    "NServiceBus.TimeOfFailure": "2026-11-15 08:30:00:123456 Z",
    "NServiceBus.Retries": "3",
    "NServiceBus.Retries.Timestamp": "2026-11-15 08:29:00:000000 Z",
    "NServiceBus.FLRetries": "5",
}
NSERVICEBUS_KEPT = {
    "NServiceBus.MessageId": "0f3a",
    "NServiceBus.MessageIntent": "Send",
    "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop, Version=1.0.0.0, Culture=neutral;Shop.ICommand, Shop",
    "NServiceBus.ProcessingMachine": "WEB-1",
    "NServiceBus.ProcessingEndpoint": "Orders",
    "NServiceBus.TimeSent": "2026-11-15 08:00:00:000000 Z",
    "$.diagnostics.hostid": "dd0264d6ebaaa79264f4875f0cd3cc9c",
}
MASSTRANSIT = {
    "MT-Reason": "fault",
    "MT-Fault-ExceptionType": "System.InvalidOperationException",
    "MT-Fault-Message": "Order 17 has no lines",
    "MT-Fault-Timestamp": "2026-11-15T08:30:00.1234567Z",
    "MT-Fault-StackTrace": "   at Shop.OrderConsumer.Consume(ConsumeContext`1 context) in /src/Shop.cs:line 12",
    "MT-Fault-ConsumerType": "Shop.OrderConsumer",
    "MT-Fault-MessageType": "Shop.PlaceOrder",
    "MT-Fault-InputAddress": "rabbitmq://rabbit:5672/vhost/orders?durable=true",
    "MT-Fault-RetryCount": 3,
    "MT-Fault-RedeliveryCount": 1,
    "MT-Host-MachineName": "web-1",
    "MT-Host-ProcessName": "Shop",
    "MT-Host-MassTransitVersion": "8.2.1.0",
    "MT-Redelivery-Count": 1,
}
MASSTRANSIT_KEPT = {
    "MT-Fault-Address": "rabbitmq://rabbit/shop-faults",
    "MT-Host-Info": '{"machineName": "sender"}',
    "MT-Source-Address": "rabbitmq://rabbit/web",
    "MT-MessageType": "urn:message:Shop:PlaceOrder;urn:message:Shop:ICommand",
    "Content-Type": "application/vnd.masstransit+json",
}
AZURE = {
    "DeadLetterReason": "MaxDeliveryCountExceeded",
    "DeadLetterErrorDescription": "Message could not be consumed after 10 delivery attempts.",
    "DeadLetterSource": "orders",
}
DEATH = {
    "count": 2,
    "exchange": "shop",
    "queue": "orders",
    "reason": "rejected",
    "routing-keys": ["orders"],
    "time": THEN.timestamp(),
}
WAIT = DEATH | {"queue": "orders.wait", "reason": "expired", "original-expiration": "5000"}
RABBITMQ = {
    "x-death": json.dumps([WAIT, DEATH]),
    "x-first-death-exchange": "shop",
    "x-first-death-queue": "orders",
    "x-first-death-reason": "rejected",
    "x-last-death-exchange": "",
    "x-last-death-queue": "orders.wait",
    "x-last-death-reason": "expired",
    "x-delivery-count": 3,
}
CELERY_KEPT = {
    "lang": "py",
    "task": "shop.tasks.pack",
    "id": "5f0c6f0e-8b1e-4d0c-8a55-0a54f9ff6f10",
    "shadow": None,
    "eta": None,
    "expires": None,
    "group": None,
    "timelimit": "[null, null]",
    "root_id": "5f0c6f0e-8b1e-4d0c-8a55-0a54f9ff6f10",
    "parent_id": None,
    "argsrepr": "(17,)",
    "kwargsrepr": "{}",
    "origin": "gen42@caller",
    "ignore_result": False,
}
CELERY = {"retries": 3}
CELERY_RESULT = CELERY | {
    "exc_type": "NoLines",
    "exc_module": "shop.errors",
    "exc_message": "order 17",
    "traceback": "Traceback (most recent call last):\nshop.errors.NoLines: order 17\n",
    "date_done": "2026-11-15T08:30:00.123456+00:00",
}

FOREIGN = [NSERVICEBUS, MASSTRANSIT, AZURE, RABBITMQ]
KEPT = NSERVICEBUS_KEPT | MASSTRANSIT_KEPT | CELERY_KEPT
FAILURE_HEADERS = OURS | NSERVICEBUS | MASSTRANSIT | AZURE | RABBITMQ | CELERY_RESULT
FAILURE_HEADERS |= {DELAYED_RETRIES: 2, EARLIER_DELIVERIES: 6}
FAILURE_HEADERS |= {"redrive-recovery-tag": "r1", "redrive-recovery-attempt": 1}


def failed(headers, queue="errors", sequence=4, **more):
    message = Message(b"{}", id="m1", headers=headers, **{k: more.pop(k) for k in ("subject",) if k in more})
    return Received(message, queue, sequence, State.READY, NOON, 1, **more)


def died(headers=None, reason="MaxDeliveryCountExceeded", source="orders", queue="orders/$dead", **more):
    info = DeadLetterInfo(reason, "delivered 10 times and never completed", source)
    return failed(headers or {}, queue=queue, dead_letter_info=info, **more)


# --- each vocabulary


def test_redrives_own_headers_say_everything():
    assert read_failure(failed(OURS | {"tenant": "acme"}, subject="order.placed")) == Failure(
        message_id="m1",
        queue="orders",
        failed_at=THEN,
        key="redrive:2026-11-15T08:30:00.123456+00:00",
        exception_type="ValueError",
        exception_message="no lines",
        stack_trace="Traceback (most recent call last):\nValueError: no lines\n",
        source="shop.orders.pack:12",
        reason="MaxDelayedRetries",
        message_type="order.placed",
        host="web-1",
        worker="orders-1",
        tries=18,
        vocabulary="redrive",
        headers=OURS,
    )


def test_nservicebus_is_understood():
    assert read_failure(failed(NSERVICEBUS | NSERVICEBUS_KEPT)) == Failure(
        message_id="m1",
        queue="orders",
        failed_at=THEN,
        key="nservicebus:2026-11-15 08:30:00:123456 Z",
        exception_type="System.InvalidOperationException",
        exception_message="Order 17 has no lines",
        stack_trace=NSERVICEBUS["NServiceBus.ExceptionInfo.StackTrace"],
        source="Shop",
        message_type="Shop.PlaceOrder",
        host="WEB-1",
        worker="Orders",
        tries=9,
        vocabulary="nservicebus",
        headers=NSERVICEBUS,
    )


def test_nservicebus_names_the_machine_beside_the_queue():
    found = read_failure(failed({"NServiceBus.FailedQ": "orders@WEB-1"}))
    assert (found.queue, found.host, found.headers) == ("orders", "WEB-1", {"NServiceBus.FailedQ": "orders@WEB-1"})


@pytest.mark.parametrize(
    ("types", "first"),
    [
        ("Shop.PlaceOrder", "Shop.PlaceOrder"),
        ("Shop.PlaceOrder;Shop.ICommand", "Shop.PlaceOrder"),
        (
            "Shop.Batch`1[[Shop.PlaceOrder, Shop, Version=1.0.0.0]], Shop",
            "Shop.Batch`1[[Shop.PlaceOrder, Shop, Version=1.0.0.0]]",
        ),
        ("]]]], x", "]]]]"),
    ],
)
def test_a_type_of_nservicebus_is_told_without_its_assembly(types, first):
    assert read_failure(failed(OURS | {"NServiceBus.EnclosedMessageTypes": types})).message_type == first


def test_masstransit_is_understood():
    assert read_failure(failed(MASSTRANSIT | MASSTRANSIT_KEPT, queue="orders_error")) == Failure(
        message_id="m1",
        queue="orders",
        failed_at=THEN,
        key="masstransit:2026-11-15T08:30:00.1234567Z",
        exception_type="System.InvalidOperationException",
        exception_message="Order 17 has no lines",
        stack_trace=MASSTRANSIT["MT-Fault-StackTrace"],
        reason="fault",
        message_type="Shop.PlaceOrder",
        host="web-1",
        worker="Shop.OrderConsumer",
        tries=5,
        vocabulary="masstransit",
        headers=MASSTRANSIT,
    )


@pytest.mark.parametrize(
    "address",
    [
        "sb://bus.example/scope/orders",
        "queue:orders",
        "loopback://localhost/orders/",
        "rabbitmq://h/v%2Fh/orders?x=1/2",
    ],
)
def test_the_last_of_masstransits_address_is_the_queue(address):
    assert read_failure(failed({"MT-Fault-InputAddress": address})).queue == "orders"


@pytest.mark.parametrize("suffix", ["_error", "_skipped"])
def test_masstransit_names_its_error_queues_after_their_queue(suffix):
    message = failed({"MT-Reason": "dead-letter"}, queue="orders" + suffix)
    assert read_failure(message).queue == "orders"
    assert read_failure(message, queue="billing").queue == "billing"  # a person knows better than a guess
    with pytest.raises(Unreadable):
        read_failure(failed({"MT-Fault-InputAddress": "rabbitmq://host:5672"}, queue="errors"))


def test_a_type_of_masstransit_is_told_without_its_urn():
    found = read_failure(failed({"MT-MessageType": MASSTRANSIT_KEPT["MT-MessageType"]}), queue="orders")
    assert found.message_type == "Shop.PlaceOrder"


def test_azure_is_understood():
    assert read_failure(failed(AZURE, subject="order.placed")) == Failure(
        message_id="m1",
        queue="orders",
        failed_at=NOON,
        key="errors#4",
        reason="MaxDeliveryCountExceeded",
        description="Message could not be consumed after 10 delivery attempts.",
        message_type="order.placed",
        vocabulary="azure",
        headers=AZURE,
    )
    assert read_failure(failed({"DeadLetterSource": "shop/orders/$DeadLetterQueue"})).queue == "shop/orders"


def test_rabbitmq_is_understood():
    assert read_failure(failed(RABBITMQ)) == Failure(
        message_id="m1",
        queue="orders",  # not orders.wait, where it only waited for its next try
        failed_at=THEN,
        key=f"rabbitmq:{THEN.timestamp()}#2",
        reason="rejected",
        tries=2,
        vocabulary="rabbitmq",
        headers=RABBITMQ,
    )


def test_rabbitmqs_newest_death_counts():
    again = DEATH | {"queue": "billing", "reason": "delivery_limit", "time": "2026-11-15T08:30:00.123456Z"}
    found = read_failure(failed({"x-death": json.dumps([again, DEATH])}))
    assert (found.queue, found.reason, found.failed_at) == ("billing", "delivery_limit", THEN)
    assert read_failure(failed({"x-death": json.dumps([WAIT])})).queue == "orders.wait"
    assert read_failure(failed({"x-death": json.dumps(DEATH)})).queue == "orders"
    modern = {"queue": "orders", "first-time": 5, "last-time": int(THEN.timestamp() * 1_000), "count": 1}
    assert read_failure(failed({"x-opt-deaths": json.dumps([modern])})).failed_at == THEN.replace(microsecond=123000)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "17", "null", "[" * 100_000, '["x"]', " " * 300_000 + "[]", True, 17.5]
)
def test_rabbitmqs_other_headers_count_if_the_list_cannot_be_read(text):
    """Checklist 6."""
    named = {"x-first-death-queue": "orders", "x-first-death-reason": "rejected"}
    found = read_failure(failed(named | {"x-death": text}))
    assert (found.queue, found.reason, found.key) == ("orders", "rejected", "errors#4")
    with pytest.raises(Unreadable):
        read_failure(failed({"x-death": text}))


def test_half_of_a_surrogate_pair_that_json_brings_is_spelled_out():
    text = '[{"queue": "orders", "reason": "\\ud800", "time": "\\ud800", "count": NaN}]'
    found = read_failure(failed({"x-death": text}))
    assert (found.reason, found.key) == ("\\ud800", "rabbitmq:\\ud800")


def test_celery_and_rabbitmq_complete_each_other():
    """A task that was rejected: RabbitMQ says where and when, Celery which and how often, nobody why."""
    found = read_failure(failed(CELERY | CELERY_KEPT | RABBITMQ))
    assert found == Failure(
        message_id="m1",
        queue="orders",
        failed_at=THEN,
        key=f"rabbitmq:{THEN.timestamp()}#2",
        reason="rejected",
        message_type="shop.tasks.pack",
        tries=4,
        vocabulary="celery",
        headers=CELERY | RABBITMQ,
    )


def test_a_celery_result_says_why():
    found = read_failure(failed(CELERY_RESULT | CELERY_KEPT | {"hostname": "celery@web-1"}), queue="celery")
    assert (found.exception_type, found.exception_message) == ("shop.errors.NoLines", "order 17")
    assert found.stack_trace.startswith("Traceback")
    assert (found.host, found.worker, found.failed_at) == ("web-1", "celery@web-1", THEN)
    assert found.key == "celery:2026-11-15T08:30:00.123456+00:00"
    assert (
        read_failure(failed(CELERY_KEPT | CELERY_RESULT | {"exc_module": "builtins"}), queue="q").exception_type
        == "NoLines"
    )


def test_a_celery_event_says_why():
    found = read_failure(failed(CELERY_KEPT | {"exception": "ValueError('no lines')"}), queue="celery")
    assert (found.exception_type, found.exception_message) == ("ValueError", "ValueError('no lines')")


@pytest.mark.parametrize(
    "route", [{"routing_key": "celery"}, {"delivery_info": '{"exchange": "", "routing_key": "celery"}'}]
)
def test_celery_names_its_routing_keys_after_their_queue(route):
    message = failed(CELERY_KEPT | route)
    assert read_failure(message).queue == "celery"
    assert read_failure(message, queue="mail").queue == "mail"
    assert read_failure(failed(CELERY_KEPT | route | RABBITMQ)).queue == "orders"


def test_two_plain_words_do_not_make_a_celery_task():
    mine = {"task": "pack", "id": "17", "retries": 3, "exception": "none"}
    assert read_failure(died(mine)).vocabulary == "dead-letter"
    assert clean(failed(mine).message).headers == mine


def test_a_dead_letter_without_headers_is_known_by_its_queue():
    found = read_failure(died())
    assert (found.queue, found.vocabulary, found.reason) == ("orders", "dead-letter", "MaxDeliveryCountExceeded")
    assert found.description == "delivered 10 times and never completed"
    assert (found.key, found.failed_at, found.headers) == ("orders/$dead#4", NOON, {})
    assert read_failure(failed({}, queue="orders/$dead")).queue == "orders"
    assert read_failure(died(source="")).queue == "orders"


def test_the_queues_own_reason_wins_over_an_older_one():
    found = read_failure(died(OURS))
    assert (found.reason, found.vocabulary, found.key[:8]) == ("MaxDeliveryCountExceeded", "redrive", "redrive:")
    assert found.exception_type == "ValueError"
    assert read_failure(died(OURS, reason="MaxDelayedRetries")).reason == "MaxDelayedRetries"
    assert read_failure(died(AZURE | {"DeadLetterReason": "old"})).reason == "MaxDeliveryCountExceeded"


def test_where_a_message_died_is_known_by_the_queue_and_not_by_its_headers():
    assert read_failure(died(OURS | {"redrive-failed-queue": "payments"})).queue == "orders"


def test_what_failed_in_a_dead_letter_queue_goes_to_that_queues_source():
    assert read_failure(failed(OURS | {"redrive-failed-queue": "orders/$dead"})).queue == "orders"


@pytest.mark.parametrize("headers", FOREIGN)
def test_redrives_own_words_come_before_all_others(headers):
    own = read_failure(failed(headers | OURS | {"redrive-failed-queue": "ours"}))
    assert (own.vocabulary, own.queue) == ("redrive", "ours")


def test_names_of_brokers_are_read_in_any_case_and_names_of_frameworks_are_not():
    assert read_failure(failed({"X-Death": RABBITMQ["x-death"]})).queue == "orders"
    assert read_failure(failed({"deadLetterSource": "orders"})).queue == "orders"
    assert clean(failed({"X-Death": "[]", "DEADLETTERREASON": "x"}).message).headers == {}
    mine = {"nservicebus.failedq": "orders", "mt-reason": "x", "Redrive-Failed-Queue": "orders"}
    assert clean(failed(mine).message).headers == mine
    with pytest.raises(Unreadable):
        read_failure(failed(mine))


# --- recovered before


def test_what_a_message_says_of_its_recovery_is_not_believed():
    found = read_failure(failed(OURS | {"redrive-recovery-tag": "12.1.c." + "0" * 32}))
    assert (found.operation, found.headers) == (None, OURS)


# --- what is missing or odd


@pytest.mark.parametrize("headers", [OURS, NSERVICEBUS, MASSTRANSIT, {}])
def test_only_id_and_queue_are_needed(headers):
    """Checklist 6."""
    for name in headers:
        assert read_failure(failed({name: headers[name]}), queue="orders").queue == "orders"
    assert read_failure(failed({}), queue="orders").vocabulary == "dead-letter"


def test_without_an_id_it_is_unreadable():
    with pytest.raises(Unreadable) as caught:
        read_failure(replace(failed(OURS), message=Message(b"", headers=OURS)))
    assert caught.value.reason == str(caught.value)
    assert "no message id" in caught.value.reason
    assert "send it again with an id" in caught.value.reason


def test_without_a_queue_it_is_unreadable_until_a_person_says_which():
    """Checklist 6, 7."""
    message = failed({"redrive-failed-reason": "Poison"})
    with pytest.raises(Unreadable) as caught:
        read_failure(message)
    assert "NServiceBus.FailedQ" in caught.value.reason
    assert caught.value.reason.endswith("re-import it with queue=…")
    assert read_failure(message, queue="orders").queue == "orders"


@pytest.mark.parametrize("name", ["no such queue", "a" * 261, "naïve", "x\0y", "[private$]"])
def test_a_queue_that_cannot_exist_is_unreadable_until_a_person_says_which(name):
    """Checklist 6, 7."""
    message = failed({"NServiceBus.FailedQ": name})
    with pytest.raises(Unreadable) as caught:
        read_failure(message)
    assert "which no queue can be called: a name must be 1 to 260 letters" in caught.value.reason
    assert len(caught.value.reason) < 600
    assert read_failure(message, queue="orders").queue == "orders"
    with pytest.raises(Unreadable):
        read_failure(message, queue=name)


def test_what_the_message_says_wins_over_what_a_person_says():
    assert read_failure(failed(OURS), queue="billing").queue == "orders"
    assert read_failure(died(), queue="billing").queue == "orders"


@pytest.mark.parametrize(
    "text", ["yesterday", "", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00+14:00", "x" * 10_000, True, None]
)
def test_a_time_that_cannot_be_read_is_when_it_was_enqueued(text):
    assert read_failure(failed(OURS | {"redrive-failed-at": text})).failed_at == NOON


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-15T08:30:00.123456",
        "2026-11-15T10:30:00.123456+02:00",
        THEN.timestamp(),
        "2026-11-15 08:30:00:123456 Z",
    ],
)
def test_times_are_read_as_utc(time):
    found = read_failure(failed(OURS | {"redrive-failed-at": time})).failed_at
    assert abs(found - THEN) < timedelta(milliseconds=1)
    assert found.utcoffset() == timedelta(0)


def test_the_time_of_nservicebus_is_read_with_any_number_of_digits():
    found = read_failure(failed(NSERVICEBUS | {"NServiceBus.TimeOfFailure": "2026-11-15 08:30:00:5 Z"})).failed_at
    assert found == THEN.replace(microsecond=500_000)


def test_a_time_without_a_zone_is_utc_wherever_it_is_read(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = read_failure(failed(OURS | {"redrive-failed-at": "2026-11-15T08:30:00.123456"})).failed_at
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found == THEN


@pytest.mark.parametrize(("told", "tries"), [("3", 9), (4, 10), (2**62, 1_000_000_000), ("9" * 18, 1_000_000_000)])
def test_a_number_of_tries_fits_in_a_column(told, tries):
    assert read_failure(failed(OURS | {"redrive-failed-immediate-retries": told})).tries == tries


def test_long_texts_are_cut():
    found = read_failure(
        failed(OURS | {"redrive-failed-exception-message": "x" * 5_000, "redrive-failed-stack-trace": "y" * 50_000})
    )
    assert (len(found.exception_message), len(found.stack_trace)) == (1_000, 8_000)


def test_nul_is_made_visible_as_not_every_engine_can_store_it():
    found = read_failure(
        failed({"redrive-failed-queue": "orders", "redrive-failed-reason": "a\0b", "redrive-failed-at": "\0"})
    )
    assert (found.reason, found.key) == ("a␀b", "redrive:␀")


def test_numbers_in_texts_are_texts():
    assert read_failure(failed(OURS | {"redrive-failed-reason": 17})).reason == "17"
    assert read_failure(failed(OURS | {"redrive-failed-reason": True, "redrive-failed-queue": 5})).queue == "5"
    assert read_failure(failed(OURS | {"redrive-failed-reason": 2**1_023})).reason == ""


# --- the key


@pytest.mark.parametrize("headers", [OURS, NSERVICEBUS, MASSTRANSIT, RABBITMQ, CELERY_KEPT | CELERY_RESULT])
def test_a_copy_of_the_same_failure_has_the_same_key(headers):
    """Checklist 2."""
    first = read_failure(failed(headers), queue="orders")
    copy = read_failure(failed(headers | {"traceparent": "00-1"}, queue="other", sequence=99), queue="orders")
    assert first.key == copy.key


@pytest.mark.parametrize(
    ("headers", "again"),
    [
        (OURS, {"redrive-failed-at": "2026-11-15T08:30:00.123457+00:00"}),
        (OURS, {"redrive-failed-at": "some time later"}),
        (OURS, {"redrive-failed-at": "x" * 10_000}),
        (NSERVICEBUS, {"NServiceBus.TimeOfFailure": "2026-11-15 08:30:00:123457 Z"}),
        (MASSTRANSIT, {"MT-Fault-Timestamp": "2026-11-15T08:30:00.1234568Z"}),
        (RABBITMQ, {"x-death": json.dumps([DEATH | {"count": 3}])}),  # its time is that of the first
    ],
)
def test_another_attempt_has_another_key(headers, again):
    """Checklist 2."""
    assert read_failure(failed(headers)).key != read_failure(failed(headers | again)).key


def test_without_a_time_the_place_in_the_queue_is_the_key():
    assert read_failure(died(sequence=4)).key == read_failure(died(sequence=4)).key
    assert read_failure(died(sequence=4)).key != read_failure(died(sequence=5)).key


def test_a_key_is_short():
    assert len(read_failure(failed(OURS | {"redrive-failed-at": "x" * 100_000})).key) < 100


# --- clean


def test_no_failure_header_stays():
    """Checklist 27: the intersection is empty, header by header."""
    message = Message(b"\0body\xff", id="m1", headers=FAILURE_HEADERS | KEPT | {"tenant": "acme"})
    cleaned = clean(message)
    assert set(cleaned.headers) & set(FAILURE_HEADERS) == set()
    assert cleaned.headers == KEPT | {"tenant": "acme"}
    assert list(cleaned.headers) == [name for name in message.headers if name not in FAILURE_HEADERS]


@pytest.mark.parametrize("name", FAILURE_HEADERS)
def test_each_failure_header_is_taken_away(name):
    """Checklist 27."""
    assert clean(Message(b"", headers=CELERY_KEPT | {name: FAILURE_HEADERS[name]})).headers == CELERY_KEPT


@pytest.mark.parametrize("name", KEPT)
def test_what_came_with_the_message_stays(name):
    """Checklist 10."""
    assert clean(Message(b"", headers={name: KEPT[name]})).headers == {name: KEPT[name]}


def test_a_cleaned_message_begins_anew():
    """What died of too many deliveries still has the counters of its delayed redeliveries."""
    assert clean(died({DELAYED_RETRIES: 5, EARLIER_DELIVERIES: 15, "tenant": "acme"}).message).headers == {
        "tenant": "acme"
    }


def test_a_cleaned_message_says_nothing_of_a_failure():
    with pytest.raises(Unreadable):
        read_failure(failed(clean(failed(FAILURE_HEADERS).message).headers))


# --- any message at all

whole = st.integers(-(2**1_024) + 1, 2**1_024 - 1)  # what a header can be
scalars = st.none() | st.booleans() | whole | st.floats(allow_nan=False, allow_infinity=False) | st.text()
deaths = st.recursive(
    scalars | st.sampled_from([DEATH, WAIT]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(sorted(DEATH)), inner),
)
values = scalars | st.sampled_from([*map(str, FAILURE_HEADERS.values()), 2**1_023]) | deaths.map(json.dumps)
names = st.sampled_from(sorted(FAILURE_HEADERS | KEPT)) | st.text(string.ascii_letters, min_size=1)
messages = st.builds(
    Message,
    st.binary(),
    id=st.none() | st.just("m1"),
    subject=st.none() | st.just("order.placed"),
    correlation_id=st.none() | st.just("c1"),
    ttl=st.none() | st.floats(1, 100),
    session_id=st.none() | st.just("s1"),
    headers=st.dictionaries(names, values, max_size=12),
)
notes = st.none() | st.builds(DeadLetterInfo, st.text(), st.text(), st.sampled_from(["", "orders"]) | st.text())
queues = st.sampled_from(["errors", "orders_error", "orders/$dead"])


@given(messages, queues, notes, st.none() | st.just("orders") | st.text())
@example(Message(b"", id="m1", headers=FAILURE_HEADERS), "errors", None, None)
def test_any_message_is_read_or_unreadable(message, queue, note, said):
    """Checklist 6."""
    received = Received(message, queue, 4, State.READY, NOON, 1, dead_letter_info=note)
    try:
        found = read_failure(received, queue=said)
    except Unreadable:
        return
    texts = [getattr(found, each.name) for each in fields(found) if isinstance(getattr(found, each.name), str)]
    assert len(texts) >= 12
    for text in texts:
        assert "\0" not in text
        assert text.encode().decode() == text
    assert found.failed_at.utcoffset() == timedelta(0)
    assert max(len(text) for text in texts) <= 8_000
    assert 0 <= found.tries <= 1_000_000_000
    assert found == read_failure(received, queue=said)
    assert {name: message.headers[name] for name in found.headers} == found.headers


@given(messages, st.integers(1), st.integers(1))
def test_any_copy_of_a_message_that_says_when_it_failed_has_the_same_key(message, first, second):
    """Checklist 2."""
    timed = replace(message, id="m1", headers=dict(message.headers) | OURS)
    one, two = (read_failure(Received(timed, "errors", n, State.READY, NOON, n)).key for n in (first, second))
    assert one == two


@given(messages)
def test_cleaning_takes_failure_headers_and_nothing_else(message):
    """Checklist 10, 27, 28."""
    headers = dict(message.headers) | CELERY_KEPT
    cleaned = clean(replace(message, headers=headers))
    assert set(cleaned.headers) & set(FAILURE_HEADERS) == set()
    assert json.dumps(cleaned.headers) == json.dumps({n: v for n, v in headers.items() if n not in FAILURE_HEADERS})
    assert replace(cleaned, headers=message.headers) == message
    assert clean(cleaned) == cleaned
