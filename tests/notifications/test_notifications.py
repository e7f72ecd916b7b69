# SPDX-License-Identifier: MIT
"""Webhooks are called once for what is so, at least once each, and signed; what cannot be sent is kept."""

import asyncio
import json
from datetime import timedelta

import httpx
import pytest

from redrive import connect, open_attention
from redrive.attention import Facts, GroupFact
from redrive.clock import pause, system_clock, utc
from redrive.errors import InvalidSetting, WebhookConflict, WebhookNotFound
from redrive.http import client as http_client
from redrive.http.signing import signature, signing_key
from redrive.notifications import EVENTS, NOTIFICATIONS, notices_of
from redrive.recovery import Operation, OperationState, Plan
from redrive.testing import ManualClock
from redrive.wiring import open_notifications
from tests.patience import PATIENCE_S

PUBLIC = "93.184.215.14"
URL = "https://hooks.example.com/1"


class Hook:
    """Where webhooks arrive."""

    def __init__(self):
        self.got, self.answers = [], []

    def __call__(self, request):
        self.got.append(request)
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer, content=self._excerpt())

    async def _excerpt(self):
        yield b"no"

    @property
    def said(self):
        return [json.loads(each.content) for each in self.got]


@pytest.fixture
def hook(monkeypatch):
    made = Hook()

    def new_client(*_given, **_more):
        return httpx.AsyncClient(transport=httpx.MockTransport(made))

    monkeypatch.setattr(http_client, "new_client", new_client)
    return made


@pytest.fixture
def facts():
    return Facts(now=utc(1_700_000_000), groups=(group("g1"),))


def group(name, **more):
    began = utc(1_700_000_000) - timedelta(minutes=1)
    return GroupFact(
        **{"id": name, "title": "no stock", "count": 3, "first_failed_at": began, "lately": 3, "usual": 0.0, **more}
    )


def ended(number, at):
    return Operation(number=number, plan=Plan(), state=OperationState.COMPLETED, requested_at=at, ended_at=at)


@pytest.fixture(params=["sqlite", "postgres"])
async def made(request, tmp_path):
    """Return what makes the notifications of a process, all on one database."""
    url = f"sqlite:///{tmp_path}/hooks.db"
    if request.param == "postgres":
        found, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("emptied_schema")
        url = f"{found}{'&' if '?' in found else '?'}schema={schema}"
    clock = ManualClock() if request.param == "sqlite" else None
    async with (
        connect(url, **({} if clock is None else {"clock": clock})) as broker,
        open_attention(broker) as attention,
    ):
        await broker.declare(NOTIFICATIONS)

        def make(facts):
            found = open_notifications(broker, attention)

            async def known():
                return facts

            async def resolve(_host, _port):
                return [PUBLIC]

            found._attention = type("Known", (), {"facts": staticmethod(known)})()
            found._resolve = resolve
            found.clock, found.broker = clock, broker
            return found

        yield make


async def delivered(notifications):
    await notifications._worker.run(notifications.broker, until_idle=True)


async def test_a_webhook_is_called_once_for_what_is_so_with_a_signature(made, hook, facts):
    notifications = made(facts)
    new = await notifications.add("chat", URL, ["new-group"], actor="ann")
    assert [await notifications.look() for _ in range(3)] == [1, 0, 0]
    await delivered(notifications)
    (request,) = hook.got
    (said,) = hook.said
    assert (said["type"], said["subject"], said["count"]) == ("new-group", "group:g1", 3)
    assert (request.url.host, request.headers["host"]) == (PUBLIC, "hooks.example.com")
    assert request.headers["webhook-id"] == said["id"] == request.headers["idempotency-key"]
    at = int(request.headers["webhook-timestamp"])
    wanted = signature(signing_key(new.secret), said["id"], at, request.content)
    assert request.headers["webhook-signature"] == wanted
    assert new.secret not in str([each.view() for each in await notifications.webhooks()])


async def test_each_webhook_is_called_for_what_it_wants(made, hook, facts):
    notifications = made(facts)
    await notifications.add("one", URL, ["new-group", "group-rises"])
    await notifications.add("two", URL, ["route-parked"])
    assert await notifications.look() == 1
    await notifications.remove("one")
    await delivered(notifications)  # what waits for a webhook that is gone is dropped
    assert hook.got == []


async def test_several_processes_that_look_at_once_send_a_notice_once(made, hook, facts):
    several = [made(facts) for _ in range(3)]
    await several[0].add("chat", URL)
    sent = await asyncio.gather(*(each.look() for each in several))
    assert sum(sent) == 1
    await delivered(several[0])
    assert len(hook.got) == 1


async def test_a_notice_is_neither_lost_nor_doubled_by_the_end_of_a_process(made, facts, monkeypatch):
    first, second = made(facts), made(facts)
    await first.add("chat", URL)
    taken = type(first._store).notice

    def dying(store, *given):
        inner = taken(store, *given)

        def die(connection):
            done = inner(connection)
            if asyncio.iscoroutine(done):
                return wait(done)
            raise SystemError("the process ends")

        async def wait(done):
            await done
            raise SystemError("the process ends")

        return die

    monkeypatch.setattr(type(first._store), "notice", dying)
    with pytest.raises(SystemError):
        await first.look()
    monkeypatch.undo()
    assert await second.look() == 1
    assert (await second.broker.inspect(NOTIFICATIONS)).ready == 1


async def test_what_fails_is_tried_at_once_and_then_waits_to_be_tried_later_with_the_same_id(made, hook, facts):
    notifications = made(facts)
    if notifications.clock is None:
        pytest.skip("the time of PostgreSQL is its own")
    await notifications.add("chat", URL)
    await notifications.look()
    hook.answers = [503] * 100
    working = asyncio.create_task(notifications._worker.run(notifications.broker, until_idle=True))
    while not working.done():
        await asyncio.sleep(0)  # noqa: TID251 - nothing is waited for but a turn
        if 0 < len(hook.got) < 3:  # it waits before it tries again; at other times the lock would end meanwhile
            notifications.clock.advance(0.5)
    await working
    assert len(hook.got) == 3
    assert len({each["id"] for each in hook.said}) == 1
    info = await notifications.broker.inspect(NOTIFICATIONS)
    assert (info.ready + info.scheduled, info.dead) == (1, 0)


async def test_a_refusal_is_a_dead_letter_at_once_and_can_be_resubmitted(made, hook, facts):
    notifications = made(facts)
    await notifications.add("chat", URL)
    await notifications.look()
    hook.answers = [404]
    await delivered(notifications)
    (dead,) = await notifications.broker.peek(f"{NOTIFICATIONS}/$dead")
    assert "404" in dead.dead_letter_info.description
    await notifications.broker.resubmit(NOTIFICATIONS)
    await delivered(notifications)
    assert [each["id"] for each in hook.said] == [hook.said[0]["id"]] * 2


async def test_a_webhook_at_a_private_address_is_not_called(made, hook, facts):
    notifications = made(facts)
    await notifications.add("chat", "http://127.0.0.1:9/hook")

    async def resolve(host, _port):
        return [host]

    notifications._resolve = resolve
    tried = await notifications.test("chat")
    assert (tried.delivered, "private_networks" in tried.problem, hook.got) == (False, True, [])


async def test_a_redirect_is_not_followed(made, hook):
    notifications = made(Facts(now=utc(0)))
    await notifications.add("chat", URL)
    hook.answers = [302]
    tried = await notifications.test("chat")
    assert (tried.delivered, "302" in tried.problem, len(hook.got)) == (False, True, 1)


async def test_a_test_says_what_came_of_it(made, hook):
    notifications = made(Facts(now=utc(0)))
    await notifications.add("chat", URL)
    assert (await notifications.test("chat")).delivered
    assert hook.said[0]["type"] == "test"
    hook.answers = [httpx.ConnectError("refused")]
    assert "refused" in (await notifications.test("chat")).problem
    with pytest.raises(WebhookNotFound):
        await notifications.test("none")


async def test_an_operation_that_had_ended_before_a_webhook_was_added_is_not_sent(made):
    await made(Facts(now=utc(0))).add("chat", URL)
    added = (await made(Facts(now=utc(0))).webhooks())[0].created_at
    before, after = added - timedelta(seconds=1), added + timedelta(seconds=1)
    notifications = made(Facts(now=after, operations=(ended(1, before), ended(2, after))))
    assert await notifications.look() == 1
    (message,) = await notifications.broker.peek(NOTIFICATIONS)
    assert json.loads(message.message.body)["said"]["subject"] == "operation:2"


@pytest.mark.parametrize("made", ["sqlite"], indirect=True)
async def test_an_unexpected_error_does_not_end_the_looking(made, monkeypatch, caplog):
    notifications, looked = made(Facts(now=utc(0))), asyncio.Event()
    errors = [TypeError("a fault of ours")]

    async def look():
        if errors:
            raise errors.pop()
        looked.set()

    monkeypatch.setattr(notifications, "look", look)
    running = asyncio.create_task(notifications.run())
    async with asyncio.timeout(PATIENCE_S):
        while not looked.is_set():
            assert not running.done()
            notifications.clock.advance(1.0)
            await pause(system_clock, 0.001)
    notifications.stop()
    await running
    assert "a fault of ours" in caplog.text


async def test_what_is_so_again_after_a_while_is_new(made, facts):
    notifications = made(facts)
    if notifications.clock is None:
        pytest.skip("the time of PostgreSQL is its own")
    await notifications.add("chat", URL)
    assert await notifications.look() == 1
    quiet = made(Facts(now=facts.now))
    notifications.clock.advance(1_700)
    assert (await notifications.look(), await quiet.look()) == (0, 0)
    notifications.clock.advance(1_900)
    await quiet.look()
    assert await notifications.look() == 1


async def test_webhooks_are_checked_and_those_of_a_file_are_changed(made, monkeypatch):
    notifications = made(Facts(now=utc(0)))
    new = await notifications.add("chat", URL)
    with pytest.raises(WebhookConflict):
        await notifications.add("chat", URL)
    with pytest.raises(WebhookNotFound):
        await notifications.remove("none")
    for odd in (
        {"name": "a b"},
        {"url": "ftp://x"},
        {"url": "https://user:pw@example.com/"},
        {"events": ["nonsense"]},
        {"events": []},
        {"secret": "s3cret"},
        {"secret": "env:HOME"},
    ):
        with pytest.raises(InvalidSetting) as refused:
            await notifications.add(**{"name": "x", "url": URL, **odd})
        assert "s3cret" not in str(refused.value)
    monkeypatch.setenv("HOOK_SECRET", new.secret)
    changed = await notifications.apply("chat", f"{URL}/2", ["new-group"], "env:HOOK_SECRET")
    assert (changed.url, changed.events) == (f"{URL}/2", ("new-group",))


def test_every_event_comes_from_facts():
    at = utc(1_700_000_000)
    found = notices_of(Facts(now=at, groups=(group("g1"),), operations=(ended(1, at),)))
    assert {each.event for each in found} == {"new-group", "operation-finished"} <= set(EVENTS)
