# SPDX-License-Identifier: MIT
"""Schemathesis over the OpenAPI document: whatever is sent, the answer is what the document says, and never a 500.

The world has one of everything, so that requests reach more than *not found*. Links of the document let one request use
what another has answered.
"""

import os
from contextlib import contextmanager
from copy import deepcopy

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.patience import PATIENCE_S
from tests.server.api.conftest import make_failures
from tests.server.api.pipeline_functions import make_pipeline
from tests.server.threaded import app_of, running_desk

DOCUMENT = "/api/v1/openapi.json"
EXCLUDED = [
    positive_data_acceptance
]  # a filter or an expression is a text for the document, and has a grammar of its own
FEW = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
MANY = settings(FEW, derandomize=False)


@contextmanager
def world(url):
    """A server with a bit of everything."""
    with running_desk(url) as (desk, run):
        run(_fill(desk))
        yield app_of(desk, run)


async def _fill(desk):
    await make_failures(desk, "orders")
    await make_failures(desk, "billing", error=KeyError)
    await make_pipeline(desk)
    await desk.broker.declare_topic("events")
    await desk.broker.subscribe("events", "all")
    operation = await desk.recovery.recover("queue:orders", at=3_600)
    await desk.recovery.note(f"operation:{operation.number}", "later")


def _without_streams(app):
    """Return the schema without endpoints that answer for as long as they are asked to."""
    return schemathesis.openapi.from_asgi(DOCUMENT, app, timeout=PATIENCE_S).exclude(path_regex="/(tap|events)$")


def _check_all(app, chosen):
    for found in _without_streams(app).get_all_operations():
        operation = found.ok()

        @chosen
        @given(case=operation.as_strategy())
        def conforms(case):
            case.call_and_validate(excluded_checks=EXCLUDED)

        conforms()


def _check_sequences(app, chosen):
    machine = _without_streams(app).as_state_machine()

    class Sequences(machine):
        def validate_response(self, response, case, additional_checks=(), **kwargs):
            case.validate_response(response, additional_checks=additional_checks, excluded_checks=EXCLUDED)

    run_state_machine_as_test(Sequences, settings=chosen)


def test_every_answer_is_what_the_document_says(url):
    with world(url) as app:
        _check_all(app, settings(FEW, max_examples=3))


def test_every_answer_to_a_sequence_of_requests_is_what_the_document_says(url):
    with world(url) as app:
        _check_sequences(app, settings(FEW, max_examples=4, stateful_step_count=6))


@pytest.mark.torture
def test_every_answer_is_what_the_document_says_for_long(url):
    with world(url) as app:
        _check_all(app, settings(MANY, max_examples=int(os.environ.get("EXAMPLES", "300"))))


@pytest.mark.torture
def test_every_answer_to_long_sequences_is_what_the_document_says(url):
    with world(url) as app:
        _check_sequences(app, settings(MANY, max_examples=200, stateful_step_count=30))


def test_the_links_of_the_document_name_operations_and_parameters_there_are(url):
    with running_desk(url) as (desk, run):
        document = deepcopy(schemathesis.openapi.from_asgi(DOCUMENT, app_of(desk, run), timeout=PATIENCE_S).raw_schema)
    operations = {each["operationId"]: each for methods in document["paths"].values() for each in methods.values()}
    links = [
        link
        for each in operations.values()
        for response in each["responses"].values()
        for link in response.get("links", {}).values()
    ]
    assert links
    for link in links:
        names = {each["name"] for each in operations[link["operationId"]]["parameters"]}
        assert set(link["parameters"]) <= names, link
