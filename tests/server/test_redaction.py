# SPDX-License-Identifier: MIT
"""What is hidden does not leave the server, but for those who may see it, and that is written down."""

from dataclasses import replace

import pytest

from redrive.access import Redaction, RedactionRules, Role
from redrive.access.redaction import HIDDEN
from redrive.broker import Message
from redrive.recovery import Filter
from redrive.worker import Recoverability, Worker
from tests.server.conftest import Someone, client_of, principal

CARD = "4111111111111111"
RULES = RedactionRules(headers=("authorization",), pointers=("/card",), patterns=(r"secret-\w+",))


@pytest.fixture
async def failed(desk):
    """Return the id of a failed message with something to hide."""
    await desk.broker.declare("orders")
    await desk.broker.send(
        "orders", Message.of({"card": CARD, "total": 1}, headers={"authorization": "Basic x", "tenant": "a"})
    )
    await desk.broker.declare("error")
    worker = Worker()

    @worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=None, error_queue="error"))
    async def ship(_: bytes) -> None:
        raise ValueError("no secret-word here")

    await worker.run(desk.broker, until_idle=True)
    await desk.recovery.ingest()
    (found,) = await desk.recovery.failed(Filter())
    return found.id


def client(desk, **more):
    hiding = replace(desk, redaction=Redaction(RULES))
    return client_of(hiding, Someone(principal(Role.ADMIN, **more)))


PATHS = ("/failures/{id}", "/failures/{id}/body", "/failures/export", "/failures")


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_hidden_is_in_no_answer(desk, failed, path):
    answer = await client(desk).get(path.format(id=failed))
    assert answer.status_code == 200, answer.text
    for hidden in (CARD, "Basic x", "secret-word"):
        assert hidden not in answer.text


async def test_a_client_that_may_sees_all_and_it_is_written_down(desk, failed):
    sees = client(desk, may_see_bodies=True)
    assert CARD not in (await sees.get(f"/failures/{failed}")).text
    answer = await sees.get(f"/failures/{failed}", headers={"x-redrive-uncover": "yes"})
    assert CARD in answer.text
    assert HIDDEN not in answer.text
    (entry, *_) = await desk.recovery.trail()
    assert (entry.action, entry.outcome) == ("bodies.read", "done")
    assert failed in entry.subject


async def test_a_client_that_may_not_is_refused_and_that_is_written_down(desk, failed):
    answer = await client(desk).get(f"/failures/{failed}", headers={"x-redrive-uncover": "yes"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert CARD not in answer.text
    (entry, *_) = await desk.recovery.trail()
    assert entry.action == "bodies.read"
    assert entry.outcome.startswith("forbidden")
