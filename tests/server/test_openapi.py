# SPDX-License-Identifier: MIT
"""The OpenAPI document: every endpoint says which action it is, and there is none without."""

import pytest

from redrive.access import ACTIONS
from redrive.server.api.endpoint import Caller, Endpoints
from tests.server.conftest import client_of


@pytest.fixture
async def document(client):
    return (await client.get("/openapi.json")).json()


async def test_every_endpoint_has_an_action_a_role_and_a_description(document):
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            assert ACTIONS[found["x-redrive-action"]].role.value == found["x-redrive-role"], (method, path)
            assert found["description"], (method, path)


async def test_every_operation_has_a_name_of_its_own(document):
    names = [found["operationId"] for methods in document["paths"].values() for found in methods.values()]
    assert len(set(names)) == len(names)


def test_an_endpoint_without_a_known_action_cannot_be_declared():
    with pytest.raises(KeyError):
        Endpoints("odd").get("/odd", "odd.read", None)


async def odd(caller: Caller) -> list[str]:  # noqa: ARG001 - every endpoint has it
    """Forget to ask the desk."""
    return []


async def test_an_endpoint_that_does_not_ask_the_desk_cannot_answer(desk, monkeypatch, caplog):
    endpoints = Endpoints("odd")
    endpoints.get("/odd", "queues.read", list[str])(odd)
    monkeypatch.setattr("redrive.server.app.ROUTERS", (endpoints.router,))
    assert (await client_of(desk).get("/odd")).json()["code"] == "internal-error"
    assert "the endpoint odd has answered without asking the desk" in caplog.text
