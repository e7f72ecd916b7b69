# SPDX-License-Identifier: MIT
"""Messages: a message is received as it was sent, and one that is too large is refused."""

from collections.abc import Iterator
from random import Random

import pytest

from redrive.broker import Abandon, Complete, DeadLetter, Defer, Message, Send
from redrive.broker.headers import FAILED_STACK_TRACE, OWN_HEADERS, RECOVERY_TAG
from redrive.broker.port import HeaderValue
from redrive.errors import InvalidMessage, MessageTooLarge
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine
from redrive.testing.conformance.verbs import (
    DEAD,
    ORDERS,
    bodies,
    declare,
    deferred_one,
    lock,
    lock_of,
    lock_one,
    message,
    refused,
    update,
)

MIB = 1_048_576
AWKWARD = "aZ09 '\"\\%_\x00\n\r\t\x7f\x85ü漢\u202e\u2028\ufeff\uffff\N{PILE OF POO}\U0010ffff"
TEXTS = ("id", "content_type", "subject", "correlation_id", "reply_to", "to", "session_id")
BODIES = {
    "nothing": b"",
    "every byte": bytes(range(256)),
    "zeros": b"\x00" * 1_000,
    "no utf-8": b"\xff\xfe\x80",
    "looks like sql": b"'; DROP TABLE messages; --",
    "looks like json": b'{"a": [1, 2, null]}',
    "large": bytes(range(256)) * 2_000,
}


def awkward_messages(count: int, seed: int = 20_260_104) -> Iterator[Message]:
    """Yield messages with fields and headers of all kinds, the same ones every time."""
    random = Random(seed)

    def text(longest: int = 12) -> str:
        return "".join(random.choices(AWKWARD, k=random.randint(1, longest)))

    def value() -> str | int | float | bool | None:
        kinds: list[str | float | None] = [
            text(),
            "",
            random.getrandbits(70),
            -random.getrandbits(70),
            random.random(),
            -0.0,
            1e308,
            5e-324,
        ]
        return random.choice([*kinds, True, False, None, 0, 1, 1.0])

    for number in range(count):
        fields = {name: text().replace("\0", "0") for name in TEXTS if random.random() < 0.5}
        headers = {text(): value() for _ in range(random.randint(0, 4))}
        ttl = random.choice([None, 0.001, 1.0, 86_400.0])
        body = random.randbytes(random.randint(0, 200))
        yield Message(body, **{"id": f"{number}", **fields}, ttl=ttl, headers=headers)


def same(one: Message, other: Message) -> bool:
    """Say whether two messages are the same to the letter: 1, 1.0 and True are not."""
    return repr(one) == repr(other) and one == other


class MessageBehaviours(EngineFixtures):
    """What messages keep on their way."""

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    async def test_a_body_is_kept_to_the_byte(self, engine: FullEngine, body: bytes) -> None:
        await declare(engine)
        await engine.apply([Send(ORDERS, message(body))])
        assert (await lock_one(engine)).body == body

    async def test_every_field_is_kept(self, engine: FullEngine) -> None:
        await declare(engine)
        sent = Message(
            b"body",
            id="1",
            content_type="application/json",
            subject="order",
            correlation_id="c",
            reply_to="answers",
            to="warehouse",
            ttl=90.5,
            session_id="s",
            headers={"text": "ü", "whole": 2**60, "real": 0.1, "yes": True, "no": False, "none": None, "empty": ""},
        )
        await engine.apply([Send(ORDERS, sent)])
        assert same((await lock_one(engine)).message, sent)

    async def test_messages_of_all_kinds_come_back_as_they_were(self, engine: FullEngine) -> None:
        await declare(engine)
        sent = list(awkward_messages(300))
        await engine.apply([Send(ORDERS, each) for each in sent])
        shown = await engine.peek(ORDERS, 1_000)
        found = await lock(engine, limit=1_000)
        assert [each.message for each in shown] == [each.message for each in found]
        assert [(was, came.message) for was, came in zip(sent, found, strict=True) if not same(was, came.message)] == []

    async def test_what_is_given_back_deferred_or_dead_is_kept_too(self, engine: FullEngine) -> None:
        await declare(engine)
        for sent in awkward_messages(20, seed=7):
            await engine.apply([Send(ORDERS, sent)])
            await engine.apply([Abandon(lock_of(await lock_one(engine)))])
            held = await lock_one(engine)
            await engine.apply([Defer(lock_of(held))])
            again = await deferred_one(engine, held.sequence)
            await engine.apply([DeadLetter(lock_of(again), "x")])
            (dead,) = await engine.lock_next(DEAD, 1, delete=True)
            assert same(dead.message, sent)

    async def test_reasons_and_descriptions_may_be_any_text(self, engine: FullEngine) -> None:
        await declare(engine)
        text = AWKWARD + "\udc80"  # half of a surrogate pair, as in the name of a file that is not UTF-8
        await engine.apply([Send(ORDERS, message(b"x"))])
        await engine.apply([DeadLetter(lock_of(await lock_one(engine)), AWKWARD, text * 100)])
        dead = (await lock_one(engine, DEAD)).dead_letter_info
        assert dead is not None
        assert dead.reason == AWKWARD
        assert dead.description.startswith(AWKWARD)

    async def test_a_message_of_exactly_the_limit_is_taken(self, engine: FullEngine) -> None:
        await declare(engine)
        body = b"\xab" * MIB
        await engine.apply([Send(ORDERS, message(body))])
        assert (await lock_one(engine)).body == body

    async def test_a_message_of_one_byte_more_is_refused(self, engine: FullEngine) -> None:
        await declare(engine)
        with pytest.raises(MessageTooLarge) as caught:
            await engine.apply([Send(ORDERS, message(b"\xab" * (MIB + 1)))])
        assert (caught.value.queue, caught.value.size, caught.value.limit) == (ORDERS, MIB + 1, MIB)
        assert await bodies(engine) == []

    async def test_headers_count_towards_the_limit(self, engine: FullEngine) -> None:
        await declare(engine, max_message_bytes=1_000)
        await engine.apply([Send(ORDERS, message(b"x" * 900))])
        await refused(engine, Send(ORDERS, message(b"x" * 900, headers={"h": "ü" * 60})), error=MessageTooLarge)
        await refused(engine, Send(ORDERS, message(b"x" * 900, subject="s" * 200)), error=MessageTooLarge)

    @pytest.mark.parametrize("own", [{}, {"theirs": "ü"}], ids=["plain", "with headers"])
    async def test_what_redrive_adds_does_not_count_towards_the_limit(
        self, engine: FullEngine, own: dict[str, HeaderValue]
    ) -> None:
        await declare(engine, max_message_bytes=1_000)
        size = 1_000 - (len('{"headers":{"theirs":"ü"}}'.encode()) if own else 0)
        await engine.apply([Send(ORDERS, message(b"x" * size, headers=own))])
        added = {FAILED_STACK_TRACE: "\x01" * 8_000, RECOVERY_TAG: "a" * 32}
        await engine.apply([DeadLetter(lock_of(await lock_one(engine)), "x", headers=added)])
        dead = await lock_one(engine, DEAD)
        await engine.apply([Complete(lock_of(dead)), Send(ORDERS, dead.message)])
        back = await lock_one(engine)
        assert (len(back.body), back.headers) == (size, own | added)
        too_large = message(b"x" * (size + 1), headers=own | added)
        with pytest.raises(MessageTooLarge) as caught:
            await engine.apply([Send(ORDERS, too_large)])
        assert (caught.value.size, caught.value.limit) == (1_001, 1_000)

    async def test_what_redrive_adds_has_a_limit_of_its_own(self, engine: FullEngine) -> None:
        await declare(engine, max_message_bytes=1_000)
        smuggled = {f"{OWN_HEADERS}{number}": "x" * 1_000 for number in range(200)}
        await refused(engine, Send(ORDERS, message(b"x", headers=smuggled)), error=InvalidMessage)
        await update(engine, max_message_bytes=MIB)
        await engine.apply([Send(ORDERS, message(b"x", headers=smuggled))])

    async def test_the_limit_is_the_queues_own(self, engine: FullEngine) -> None:
        await declare(engine, max_message_bytes=10)
        await refused(engine, Send(ORDERS, message(b"x" * 11)), error=MessageTooLarge)
        await update(engine, max_message_bytes=2 * MIB)
        await engine.apply([Send(ORDERS, message(b"x" * (MIB + 1)))])
        assert len((await lock_one(engine)).body) == MIB + 1

    async def test_messages_with_the_same_id_are_different_messages(self, engine: FullEngine) -> None:
        await declare(engine)
        await engine.apply([Send(ORDERS, message(body, id="same")) for body in (b"1", b"2")])
        assert [(found.id, found.body) for found in await lock(engine)] == [("same", b"1"), ("same", b"2")]
