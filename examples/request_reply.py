# SPDX-License-Identifier: MIT
"""Request and reply over queues: each client has a queue for answers, which is deleted when it is idle."""

import asyncio
from datetime import timedelta

from redrive import connect
from redrive.broker import Broker, Message, Send


async def ask(broker: Broker, client: str, question: str) -> str:
    """Send a question and wait for its answer."""
    answers = f"answers/{client}"
    await broker.declare(answers, auto_delete_on_idle=timedelta(minutes=5), default_ttl=60)
    request = Message(question.encode(), id=f"{client}-1", reply_to=answers, ttl=30)
    await broker.send("questions", request)
    (answer,) = await broker.receive(answers, wait=10)
    assert answer.message.correlation_id == request.id
    await answer.complete()
    return answer.body.decode()


async def serve(broker: Broker, count: int) -> None:
    """Answer questions; the answer is sent in one transaction with the completion of its question."""
    for _ in range(count):
        (question,) = await broker.receive("questions", wait=10)
        asked = question.message
        assert asked.reply_to is not None
        answer = Message(asked.body.upper(), correlation_id=asked.id)
        await question.complete(Send(asked.reply_to, answer))


async def main() -> None:
    """Let two clients ask one server."""
    async with connect("sqlite:///questions.db") as broker:
        await broker.declare("questions")
        _, *answers = await asyncio.gather(
            serve(broker, 2), ask(broker, "ada", "who are you?"), ask(broker, "bob", "and you?")
        )
        print(*answers, sep="\n")
        print([queue.name for queue in await broker.queues()])


asyncio.run(main())
