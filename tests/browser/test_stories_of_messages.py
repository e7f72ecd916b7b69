# SPDX-License-Identifier: MIT
"""Stories of messages: hostile ones, which are shown and never run, and one that has been everywhere."""

import asyncio
import json
import re
from contextlib import AsyncExitStack

import pytest
from playwright.async_api import expect

from redrive import connect, open_pipeline, open_recovery
from redrive.access import rights_of
from redrive.broker import Message
from redrive.clock import system_clock
from redrive.pipeline import Every, Output, Pipeline, PipelineRunner, QueueTransport, TaskState
from redrive.routes import RouteRunner, from_queue, route, to_queue
from redrive.server import open_desk
from redrive.testing import ManualClock
from redrive.worker import Recoverability, Worker
from tests.browser.conftest import going_on
from tests.browser.looks import FILES, addresses
from tests.browser.store import PASSWORD
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="session")

RUNS = "alert(1)"
XSS = (
    f'"><script>{RUNS}</script>',
    f"'\"><img src=x onerror={RUNS}>",
    f"</pre></textarea></title><svg/onload={RUNS}>",
    f"javascript:{RUNS}",
    f'{{{{ {RUNS} }}}} ${{{RUNS}}} <a href="javascript:{RUNS}">press</a>',
)
TURNED = "invoice\u202efdp.exe \x1b[31mred\x07 \u200bhidden"
HOSTILE = " ".join(XSS)
SHOWS_NO_MESSAGE = ("/login", "/help", "/more", "/find", "/queues/{name:name}/settings", "/queues/{name:name}/redirect")
ONCE = Recoverability(immediate=0, delayed=None, error_queue="error")
QUEUE = "hostile"


def hostile_worker():
    """Return a worker that fails with an exception whose name and text are hostile."""
    worker, trouble = Worker(), type("<img src=x onerror=alert(1)>", (Exception,), {})

    @worker.handler(QUEUE, recoverability=ONCE, slow_down=None)
    async def handle(body: bytes) -> None:  # noqa: ARG001 - it fails whatever it gets
        raise trouble(f"{HOSTILE} {TURNED}")

    return worker


async def fill_with_hostility(desk):
    """Put hostile texts into whatever a message, a note or a person can put one into."""
    headers = {f"x-{HOSTILE}": HOSTILE, "x-turned": TURNED}
    body = json.dumps({"note": TURNED, "html": HOSTILE}).encode()
    message = Message(
        body,
        id="<script>alert(1)</script>",
        subject=HOSTILE,
        content_type="text/html",
        headers=headers,
        correlation_id=HOSTILE,
    )
    for queue in (QUEUE, "error"):
        await desk.broker.declare(queue)
    await desk.broker.send(QUEUE, message)
    await desk.broker.send(QUEUE, Message(f"<body onload={RUNS}>".encode(), subject=TURNED))
    await hostile_worker().run(desk.broker, until_idle=True)
    await desk.recovery.ingest()
    group = (await desk.recovery.groups())[0]
    await desk.recovery.note(f"group:{group.id}", HOSTILE, actor=HOSTILE)
    failed = (await desk.recovery.failed())[0]
    await desk.recovery.note(f"failure:{failed.id}", f"{HOSTILE} {TURNED}", actor=HOSTILE)
    await desk.recovery.recover([failed.id], actor=HOSTILE, reason=HOSTILE)
    await desk.recovery.step()
    await desk.broker.send(QUEUE, message)
    for delivery in await desk.broker.receive(QUEUE, max_messages=5):
        await delivery.dead_letter(HOSTILE, HOSTILE)
    await desk.access.add_user(HOSTILE[:80], PASSWORD, rights_of("viewer"))
    await desk.access.create_token(HOSTILE[:80], rights_of("viewer"), actor=HOSTILE)
    await desk.history.flush()


@pytest.mark.torture
async def test_hostile_messages_are_shown_and_never_run(url, desk, serve, page):
    await fill_with_hostility(desk)
    base = await serve(url, operations=False, ingest=False)
    found = await addresses(base)
    seen = ""
    for path, address in found.items():
        if path.endswith(FILES) or path in SHOWS_NO_MESSAGE:
            continue
        await page.goto(f"{base}{address}")
        await expect(page.get_by_role("main")).to_be_visible()
        assert await page.evaluate("window.violations") == [], address
        assert await page.locator("main :is(script, img, iframe, object, [onload], [onerror], [onclick])").count() == 0
        assert await page.locator("a[href^='javascript:' i]").count() == 0, address
        seen += await page.get_by_role("main").inner_text()
    for begin in ("/failed/{id", "/journey/{", "/queues/{name", "/operations/{number", "/audit", "/settings"):
        assert any(path.startswith(begin) for path in found), begin
    for each in XSS:
        assert each in seen, f"{each} is shown as it is nowhere"
    for hidden in ("\u202e", "\x1b", "\x07", "\u200b"):
        assert hidden not in seen


# --- a journey


class Times:
    """Time that a test lets pass, in the past of the server."""

    def __init__(self):
        self.clock = ManualClock(system_clock.time() - 2 * 3_600)

    async def until(self, holds, step=0.0):
        """Let everything run until something holds, while time passes."""
        async with asyncio.timeout(PATIENCE_S):
            while not await holds():
                self.clock.advance(step)
                for _ in range(5):
                    await asyncio.to_thread(bool)


def invoices():
    """Return a pipeline that sends what it gets once an hour, together."""
    pipe = Pipeline("invoices")
    pipe.destination(
        "acme", QueueTransport("acme"), timing=Every(3_600), merge=lambda items: b"|".join(item.body for item in items)
    )
    pipe.process(lambda report: [Output("acme", report.items)])
    return pipe


def billing(pipeline=None):
    """Return a worker that cannot charge while it has no pipeline for invoices."""
    worker = Worker(chance=lambda: 0.5)

    @worker.handler("billing", recoverability=ONCE, slow_down=None)
    async def charge(body: bytes) -> None:
        if pipeline is None:
            raise TimeoutError("the provider does not answer")
        await pipeline.submit(body, key="invoice-1")

    return worker


async def send_on_two_routes(desk, times):
    """Send an order to two routes: one to billing, which notes trouble alone, and one to a search that handles it."""
    for queue in ("orders", "search", "error", "acme"):
        await desk.broker.declare(queue, journey="all")
    await desk.broker.declare("billing", journey="trouble")
    source = from_queue("orders")
    await desk.routes.apply(*(route(name, source=source) >> to_queue(name) for name in ("billing", "search")))
    for topic in await desk.broker.topics():
        for subscription in topic.subscriptions:
            await desk.broker.update(subscription.queue, journey="all")
    runner = RouteRunner(desk.routes, listen="127.0.0.1:0")
    async with going_on(runner.run()):
        await desk.broker.send("orders", Message(b'{"total": 2}', id="ord-1"))

        async def arrived():
            return all([(await desk.broker.inspect(name)).ready for name in ("billing", "search")])

        await times.until(arrived, 0.01)
        times.clock.advance(2)
        for delivery in await desk.broker.receive("search"):
            await delivery.complete()
        runner.stop()


async def fail_twice_and_bill(desk, times):
    """Charging fails, also when it is recovered; the second recovery does well, and the invoice is sent in a batch."""
    times.clock.advance(120)  # it waits in a queue that notes only trouble, so nobody knows where it is
    await billing().run(desk.broker, until_idle=True)
    await desk.recovery.ingest()
    times.clock.advance(21 * 60)
    await desk.recovery.recover("queue:billing", actor="ana", reason="the provider says it is mended")
    await desk.recovery.step()
    await billing().run(desk.broker, until_idle=True)
    await desk.recovery.ingest()
    times.clock.advance(300)
    await desk.recovery.recover("queue:billing", actor="ana", reason="now it is")
    await desk.recovery.step()
    async with open_pipeline(desk.broker, invoices()) as pipeline:
        await billing(pipeline).run(desk.broker, until_idle=True)
        await desk.recovery.ingest()
        await desk.recovery.step()
        running = PipelineRunner(pipeline, listen="127.0.0.1:0")
        async with going_on(running.run()):

            async def all_done():
                open_ones = await pipeline.tasks(states=(TaskState.READY, TaskState.WAITING))
                return not open_ones and len(await pipeline.tasks()) >= 3

            await times.until(all_done, 10)
            running.stop()


async def test_the_journey_of_a_message_through_all_layers_is_one_page(url, serve, page):
    times = Times()
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(connect(url, clock=times.clock))
        desk = await stack.enter_async_context(open_desk(broker, open_recovery(broker)))
        await send_on_two_routes(desk, times)
        await fail_twice_and_bill(desk, times)
    base = await serve(url, operations=False, ingest=False, routes=False)
    await page.goto(f"{base}/find")
    await page.get_by_role("search", name="By id").get_by_label("Id").fill("ord-1")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Journey of ord-1")).to_be_visible()
    happened = page.get_by_role("region", name="What happened").get_by_role("listitem")
    for words in ("billing", "search", "recover 1", "recover 2", "invoices process", "invoices batch to acme"):
        await expect(happened.filter(has_text=words).first).to_be_visible()
    for operation, outcome in (("recover 1", "failed again"), ("recover 2", "succeeded")):
        await expect(happened.filter(has_text=operation).filter(has_text=outcome)).to_have_count(1)
    for gap in ("21 min, nothing happened", "2 min, no record"):
        await expect(happened.filter(has_text=re.compile(rf"^\s*{gap}")).first).to_be_visible()
    await expect(page.get_by_role("region", name="Figures")).to_contain_text("Where the time went")
    await page.get_by_role("link", name="recover 2").first.click()
    await expect(page).to_have_url(f"{base}/operations/2")
