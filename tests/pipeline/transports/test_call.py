# SPDX-License-Identifier: MIT
"""The transport that is a function."""

import asyncio
from threading import current_thread, main_thread

import pytest

from redrive.errors import InvalidSetting
from redrive.pipeline.shipment import DestinationAway, OutcomeUnknown, ShipmentDelayed, ShipmentRefused, ShipmentSent
from redrive.pipeline.transports.call import CallTransport
from tests.pipeline.transports.shipments import environment, shipment

SELF = "tests.pipeline.transports.test_call"


class BadReportError(Exception):
    """A report that nobody wants."""


def deliver(it):
    """Return which thread it is in, as a receipt."""
    assert it == shipment()
    return current_thread().name


async def deliver_soon(it):
    """Return nothing: that means sent."""
    assert it == shipment()


def make_coroutine(it):
    return deliver_soon(it)


def fail(it):
    raise OSError(f"no line for {it.index}")


def reject(it):
    raise BadReportError(it.task)


def opened(function, **settings):
    return CallTransport(function, **settings).open(environment())


async def test_a_blocking_function_runs_in_a_thread():
    outcome = await opened(f"{SELF}:deliver").send(shipment())
    assert isinstance(outcome, ShipmentSent)
    assert outcome.receipt != main_thread().name


@pytest.mark.parametrize("function", [deliver_soon, make_coroutine, lambda it: None])  # noqa: ARG005 - as all of them
async def test_nothing_means_sent(function):
    assert await opened(function).send(shipment()) == ShipmentSent("")


@pytest.mark.parametrize(
    "outcome",
    [ShipmentSent("r"), ShipmentDelayed("d", 3.0), ShipmentRefused("r"), DestinationAway("a"), OutcomeUnknown("u")],
)
async def test_an_outcome_is_what_it_is(outcome):
    assert await opened(lambda _: outcome).send(shipment()) is outcome


@pytest.mark.parametrize("result", [True, 5, [], {"ok": 1}, b"r"])
async def test_what_is_no_answer_may_have_sent(result):
    outcome = await opened(lambda _: result).send(shipment())
    assert isinstance(outcome, OutcomeUnknown)
    assert type(result).__name__ in outcome.reason


async def test_an_exception_means_later_and_a_final_one_never():
    assert await opened(fail).send(shipment()) == ShipmentDelayed("OSError: no line for 1")
    assert isinstance(await opened(reject).send(shipment()), ShipmentDelayed)
    for final in ([BadReportError], [f"{SELF}:BadReportError"], ["ValueError", BadReportError]):
        assert isinstance(await opened(reject, final=final).send(shipment()), ShipmentRefused)
    assert isinstance(await opened(fail, final=["OSError"]).send(shipment()), ShipmentRefused)
    assert isinstance(await opened(fail, final=["ValueError"]).send(shipment()), ShipmentDelayed)


async def test_a_send_that_is_cancelled_is_cancelled():
    begun = asyncio.Event()

    async def wait(_):
        begun.set()
        await asyncio.Event().wait()

    sending = asyncio.ensure_future(opened(wait).send(shipment()))
    await begun.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (True, ShipmentSent),
        (False, ShipmentDelayed),
        (None, OutcomeUnknown),
        (ShipmentSent("r"), ShipmentSent),
        (ShipmentDelayed("d"), ShipmentDelayed),
        (OutcomeUnknown("u"), OutcomeUnknown),
        (ShipmentRefused("r"), OutcomeUnknown),
    ],
)
async def test_a_function_can_look(result, kind):
    transport = opened(deliver, probe=lambda _: result)
    assert type(await transport.probe(shipment())) is kind


async def test_a_look_that_fails_says_nothing():
    assert isinstance(await opened(deliver, probe=fail).probe(shipment()), OutcomeUnknown)
    assert isinstance(await opened(deliver).probe(shipment()), OutcomeUnknown)


@pytest.mark.parametrize("function", [None, 5, "", "deliver", "a.b.c", "a b:c"])
def test_what_is_no_function_is_refused(function):
    with pytest.raises(InvalidSetting):
        CallTransport(function)


@pytest.mark.parametrize("final", [[5], [int], [""], ["NoSuchError"], ["print"], [BaseException]])
def test_what_is_no_exception_is_refused(final):
    with pytest.raises(InvalidSetting):
        CallTransport(deliver, final=final).ready()


def test_what_cannot_be_imported_here_is_said_before_anything_is_sent():
    made = CallTransport(f"{SELF}:not_there", probe=f"{SELF}:nor_this")
    with pytest.raises(InvalidSetting, match="not_there"):
        made.open(environment())


def test_it_is_written_with_names():
    made = CallTransport(deliver, final=[BadReportError], deduplicates=True, probe=deliver)
    assert made.to_table() == {
        "kind": "call",
        "function": f"{SELF}:deliver",
        "final": [f"{SELF}:BadReportError"],
        "deduplicates": True,
        "probe": f"{SELF}:deliver",
    }
    read = CallTransport.from_table(made.to_table())
    assert read.to_table() == made.to_table()
    assert made.address == f"call {SELF}:deliver"
    assert made.can_probe
    assert made.deduplicates
    assert not CallTransport(deliver).can_probe
    assert not CallTransport(deliver).deduplicates
