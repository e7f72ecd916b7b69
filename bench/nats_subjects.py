"""What bench/queues.py compares on NATS: our engine, and what one writes by hand with nats-py, one and three replicas.

By hand, a queue is a subject of a work-queue stream and a durable pull consumer. Whatever is published is confirmed,
and so is every acknowledgement: these are guarantees of ours too. What ours has beside them most hand-written ones do
without: a settlement that is refused if the lock was lost, several changes as a whole, delays, dead letters. One has
the first two, by the quickest way that we know.
"""

# ruff: noqa: PLC0415 - imports stand where they are used, so that a library that is not installed is missed alone

import asyncio
import json
import uuid
from collections import deque

from queue_subjects import LOCK_S, QUEUE, Redrive, Subject

from redrive.broker import Complete, Message, Send

NEXT = "bench-next"
CERTAIN_S = 1.1  # for a second after a queue was declared each call looks what it is


class HandingOver(Redrive):
    """The broker, with a second queue that messages are handed over to."""

    async def open(self, url):
        """Connect."""
        await super().open(url)
        await self.broker.declare(NEXT, lock_duration=LOCK_S)

    async def hand_over(self, delivery, body):
        """Complete a message and send another one, as a whole."""
        await self.broker.apply(Complete(delivery.lock), Send(NEXT, Message(body)))


class RedriveNats(HandingOver):
    """The engine, some moments after its queues were declared."""

    async def open(self, url):
        """Connect."""
        await super().open(url)
        await asyncio.sleep(CERTAIN_S)


class RedriveOne(RedriveNats):
    """The engine on one server."""

    name, home = "redrive, one replica", 1


class RedriveThree(RedriveNats):
    """The engine on three servers."""

    name, home = "redrive, three replicas", 3


class RedrivePostgres(HandingOver):
    """The same broker on PostgreSQL."""

    name, home = "redrive on PostgreSQL", "postgres"


class Hand(Subject):
    """What one writes first: a publish, a fetch and an acknowledgement for each call."""

    def __init__(self):
        self.more = {}

    async def open(self, url):
        """Connect, and make the stream and its consumer."""
        import nats

        servers, self.stream = url.removesuffix(f"?replicas={self.home}").rsplit("/", 1)
        servers = [f"nats://{each}" for each in servers.removeprefix("nats://").split(",")]
        self.client = await nats.connect(servers)
        self.api = self.client.jetstream(timeout=30)
        config = {
            "name": self.stream,
            "subjects": [self.subject(QUEUE), self.subject(NEXT)],
            "retention": "workqueue",
            "storage": "file",
            "num_replicas": self.home,
            "allow_atomic": True,
        }
        await self.ask(f"STREAM.CREATE.{self.stream}", config | self.more)
        consumer = {
            "durable_name": QUEUE,
            "ack_policy": "explicit",
            "ack_wait": int(LOCK_S * 1e9),
            "max_ack_pending": -1,
            "filter_subject": (config | self.more)["subjects"][0],
        }
        path = f"CONSUMER.DURABLE.CREATE.{self.stream}.{QUEUE}"
        await self.ask(path, {"stream_name": self.stream, "config": consumer})
        await self.prepare()

    async def prepare(self):
        """Be ready to receive."""
        self.idle = []

    async def close(self):
        """Disconnect."""
        await self.client.close()

    def subject(self, queue):
        """Return where the messages of a queue are."""
        return f"{self.stream}.{queue}"

    async def ask(self, what, body):
        """Ask JetStream for something."""
        answer = await self.client.request(f"$JS.API.{what}", json.dumps(body).encode(), timeout=30)
        assert "error" not in json.loads(answer.data), answer.data

    async def send(self, body):
        """Send one message."""
        await self.api.publish(self.subject(QUEUE), body, headers={"Nats-Msg-Id": uuid.uuid4().hex})

    async def receive(self):
        """Lock one message. A subscription is used by one caller at a time: an answer does not say whose it is."""
        subscription = self.idle.pop() if self.idle else await self.api.pull_subscribe_bind(QUEUE, self.stream)
        (message,) = await subscription.fetch(1, timeout=LOCK_S)
        self.idle.append(subscription)
        return message

    async def complete(self, message):
        """Remove a locked message, and wait until that is confirmed."""
        await message.ack_sync(timeout=30)

    async def hand_over(self, message, body):
        """Send a message, then acknowledge the other: a crash between the two leaves both."""
        name = f"bill-{message.metadata.sequence.stream}"
        await self.api.publish(self.subject(NEXT), body, headers={"Nats-Msg-Id": name})
        await message.ack_sync(timeout=30)

    async def store(self, bodies):
        """Store messages as a whole, by an atomic batch."""
        await self.store_all([(self.subject(QUEUE), body, {}) for body in bodies])

    async def store_all(self, messages):
        """Store messages on any subjects and with any headers as a whole; return the number of the first."""
        batch = uuid.uuid4().hex
        for number, (subject, body, headers) in enumerate(messages[:-1], 1):
            place = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            await self.client.publish(subject, body, headers=headers | place)
        last = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(len(messages)), "Nats-Batch-Commit": "1"}
        subject, body, headers = messages[-1]
        answer = json.loads((await self.client.request(subject, body, timeout=30, headers=headers | last)).data)
        assert "error" not in answer, answer
        return answer["seq"] - len(messages) + 1


class ByHand(Hand):
    """It in batches too."""

    async def send_many(self, bodies):
        """Send messages together."""
        await self.store(bodies)

    async def receive_many(self, count):
        """Lock messages together."""
        subscription = self.idle.pop() if self.idle else await self.api.pull_subscribe_bind(QUEUE, self.stream)
        found = []
        while len(found) < count:
            found += await subscription.fetch(count - len(found), timeout=LOCK_S)
        self.idle.append(subscription)
        return found

    async def complete_many(self, messages):
        """Remove locked messages; there is no way to do that as a whole."""
        await asyncio.gather(*(message.ack_sync(timeout=30) for message in messages))


class SharedPulls(Hand):
    """Whoever waits for a message shares a pull: one request for as many as there are waiting."""

    shares_syncs = True
    serves_one = False

    async def prepare(self):
        """Be ready to receive: the answers to all requests arrive at one place."""
        self.loop = asyncio.get_running_loop()
        self.waiting, self.asked, self.is_due = deque(), 0, False
        self.address = self.client.new_inbox()
        await self.client.subscribe(self.address, cb=self.take)

    async def take(self, message):
        """Hand a message to whoever waits longest; what is a status says that a request is over."""
        if message.headers and "Status" in message.headers:
            self.asked = 0
            self.pull_soon()
            return
        self.asked -= 1
        self.waiting.popleft().set_result(message)

    def pull_soon(self):
        """Ask for messages when all who are about to wait do."""
        if not self.is_due and len(self.waiting) > self.asked:
            self.is_due = True
            self.loop.create_task(self.pull())

    async def pull(self):
        """Ask for as many messages as are waited for."""
        self.is_due = False
        missing = len(self.waiting) - self.asked
        if missing > 0:
            self.asked += missing
            request = {"batch": missing, "expires": int(LOCK_S * 1e9)}
            path = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{QUEUE}"
            await self.client.publish(path, json.dumps(request).encode(), reply=self.address)

    async def receive(self):
        """Lock one message."""
        future = self.loop.create_future()
        self.waiting.append(future)
        self.pull_soon()
        return await future


class SharedPullsAndBatches(SharedPulls):
    """And whoever sends shares an atomic batch; the next one gathers while one is stored."""

    async def prepare(self):
        """Be ready to receive, and to send."""
        await super().prepare()
        self.sending, self.is_busy = [], False

    async def send(self, body):
        """Send one message, with those that others send now."""
        future = self.loop.create_future()
        self.sending.append((body, future))
        if not self.is_busy:
            self.is_busy = True
            self.loop.create_task(self.work())
        await future

    async def work(self):
        """Store batch after batch."""
        while self.sending:
            group, self.sending = self.sending, []
            if len(group) == 1:
                await super().send(group[0][0])
            else:
                await self.store([body for body, _ in group])
            for _, future in group:
                future.set_result(None)
        self.is_busy = False


GONE = {"Gone": "1"}


class Fenced(SharedPullsAndBatches):
    """It with our guarantees for settling: refused if the lock was lost, and a hand-over as a whole.

    A message is completed by its removal by number, which works once. A hand-over is an atomic batch: something takes
    the place of the message on a subject of its own, if it is still the last there, and the other message is sent; what
    is left is removed afterwards. One of these that is refused would fail all that share its batch.
    """

    async def open(self, url):
        """Make a stream whose messages have a subject each, and go by being removed only."""
        stream = url.rsplit("/", 1)[1].partition("?")[0]
        self.more = {"subjects": [f"{stream}.{QUEUE}.*", f"{stream}.{NEXT}.*"], "retention": "limits"}
        self.cleaning = set()
        await super().open(url)

    async def close(self):
        """Remove what is left, and disconnect."""
        await asyncio.gather(*self.cleaning)
        await super().close()

    async def prepare(self):
        """Be ready to change."""
        await super().prepare()
        self.number = 0

    def place(self, queue):
        """Return a subject for a new message."""
        self.number += 1
        return f"{self.subject(queue)}.{self.number}"

    async def take(self, message):
        """Hand on messages; what is left of others is none."""
        if message.headers and "Gone" in message.headers:
            self.asked -= 1
            self.pull_soon()
            return
        await super().take(message)

    async def send(self, body):
        """Send one message, with what others change now."""
        await self.change((self.place(QUEUE), body, {}))

    async def change(self, *messages):
        """Store messages as a whole, with those of others; return the number of the first."""
        future = self.loop.create_future()
        self.sending.append((messages, future))
        if not self.is_busy:
            self.is_busy = True
            self.loop.create_task(self.work())
        return await future

    async def work(self):
        """Store batch after batch."""
        while self.sending:
            group, self.sending = self.sending[:300], self.sending[300:]
            first = await self.store_all([each for messages, _ in group for each in messages])
            for messages, future in group:
                future.set_result(first)
                first += len(messages)
        self.is_busy = False

    async def remove(self, number):
        """Remove a message by its number."""
        await self.ask(f"STREAM.MSG.DELETE.{self.stream}", {"seq": number, "no_erase": True})

    async def complete(self, message):
        """Remove a locked message."""
        await self.remove(message.metadata.sequence.stream)

    async def hand_over(self, message, body):
        """Let a message be gone and send another one, as a whole; remove afterwards what is left."""
        number = message.metadata.sequence.stream
        fence = GONE | {"Nats-Expected-Last-Subject-Sequence": str(number)}
        left = await self.change((message.subject, b"", fence), (self.place(NEXT), body, {}))
        task = self.loop.create_task(self.clean(number, left))
        self.cleaning.add(task)
        task.add_done_callback(self.cleaning.discard)

    async def clean(self, *numbers):
        """Remove messages one after the other."""
        for number in numbers:
            await self.remove(number)


async def wait_for_leader(servers):
    """Wait until servers that have just been started can store something three times."""
    import nats

    config = json.dumps({"name": "probe", "subjects": ["probe.>"], "num_replicas": len(servers)}).encode()
    client = await nats.connect(servers)
    async with asyncio.timeout(60):
        while True:
            try:
                answer = await client.request("$JS.API.STREAM.CREATE.probe", config, timeout=2)
            except nats.errors.Error:
                continue
            if "error" not in json.loads(answer.data):
                break
            await asyncio.sleep(0.1)
    await client.close()


async def remove_stream(servers, name):
    """Remove what a subject has left."""
    import nats

    client = await nats.connect(servers)
    await client.request(f"$JS.API.STREAM.DELETE.{name}", b"", timeout=30)
    await client.close()


def with_replicas(kind, name):
    """Return a hand-written subject with one replica, and one with three."""
    words = {1: "one replica", 3: "three replicas"}
    return [type(kind.__name__, (kind,), {"name": f"{name}, {words[home]}", "home": home}) for home in words]


FENCED = with_replicas(Fenced, "nats-py, all shared and fenced")
HANDS = [
    *with_replicas(ByHand, "nats-py"),
    *with_replicas(SharedPulls, "nats-py, pulls shared"),
    *with_replicas(SharedPullsAndBatches, "nats-py, pulls and batches shared"),
]
EVERYBODY = [RedriveOne, RedriveThree, *HANDS, *FENCED, RedrivePostgres]
