# SPDX-License-Identifier: MIT
"""The demo as it runs: the server, the shop beside it in the same process, and customers who order."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from redrive import connect, open_pipeline, open_routes
from redrive.broker import Broker, dead_letter_queue
from redrive.cli.demo.orders import BAD_JSON, order
from redrive.cli.demo.outside import Outside, Partner
from redrive.cli.demo.shop import FAILING, FOLLOWED, ORDERS_PATH, checks, invoices, payments, routes
from redrive.cli.demo.shop_history import MISSED, play_morning
from redrive.clock import pause
from redrive.errors import MissingExtra
from redrive.pipeline import PipelineRunner
from redrive.retry import Exponential, retry

if TYPE_CHECKING:
    from redrive.server import ServerSettings

FIRST_ORDER: Final = 100_000
_ORDER_EVERY_S: Final = 0.25
_BAD_JSON_EVERY: Final = 30
_PATIENT: Final = Exponential(min=0.2, max=2.0, max_attempts=10)


@dataclass(frozen=True, slots=True)
class LiveShop:
    """A shop that is open.

    Attributes:
        address: host and port of the server.
        outside: what the shop depends on.
        parts: the server and the shop; if one ends, something is wrong.
    """

    address: str
    outside: Outside
    parts: "tuple[asyncio.Task[None], ...]"


def demo_settings(folder: Path, listen: str | None) -> "ServerSettings":
    """Return the settings of the demo's server: everything is in one folder, and nothing is asked of who looks.

    Args:
        folder: where the database is.
        listen: host and port; None: those that a server listens at, or any that are free if they are taken.

    Raises:
        MissingExtra: the server is not installed.
    """
    try:
        import_module("redrive.server.process")  # which needs more than the settings do
    except ModuleNotFoundError as error:
        raise MissingExtra("redrive demo", "server,routes,pipeline") from error
    from redrive.server import ServerSettings

    usual = ServerSettings()
    chosen = listen or (usual.listen if _is_free(usual.listen) else "127.0.0.1:0")
    return replace(
        usual,
        listen=chosen,
        database=f"sqlite:///{folder / 'shop.db'}",
        receivers=f"127.0.0.1:{_free_port()}",
        sources=(*usual.sources, *map(dead_letter_queue, FAILING)),
        folders=(str(folder),),
        private_networks=("127.0.0.0/8",),
    )


@asynccontextmanager
async def open_shop(
    settings: "ServerSettings", folder: Path, say: Callable[[str], object], missed: int = MISSED
) -> AsyncGenerator[LiveShop]:
    """Open the shop, and close it at the end; an error in a part of it ends the whole.

    Args:
        settings: how the server runs.
        folder: where invoices go.
        say: is given what happens, a line at a time.
        missed: how many orders the outage of the morning leaves behind.
    """
    from redrive.server import ServerProcess

    say("Playing this morning in the shop; it takes a few seconds …")
    await play_morning(settings.database, missed)
    async with connect(settings.database) as broker:
        outside = Outside(broker.clock)
        with Partner(outside) as partner:
            async with open_routes(broker) as stored:
                await stored.apply(*routes(partner.url))
            for queue in FOLLOWED:
                await broker.update(queue, journey="all")
            server, listening = ServerProcess(settings), asyncio.get_running_loop().create_future()
            server.on_listening = listening.set_result
            serving = asyncio.create_task(server.run(), name="server")
            trading = asyncio.create_task(_trade(broker, outside, settings, folder), name="shop")
            try:
                await asyncio.wait([listening, serving], return_when=asyncio.FIRST_COMPLETED)
                if listening.done():
                    yield LiveShop(listening.result(), outside, (serving, trading))
            finally:
                trading.cancel()
                await asyncio.wait([trading])
                server.stop()
                await asyncio.wait([serving])
            for part in (serving, trading):
                if not part.cancelled():
                    part.result()


async def _trade(broker: Broker, outside: Outside, settings: "ServerSettings", folder: Path) -> None:
    """Run the workers, the pipeline and the customers until this is cancelled."""
    from redrive.http import SharedHttpServer

    http = SharedHttpServer("127.0.0.1:0", broker.clock)
    async with open_pipeline(broker, invoices(str(folder / "invoices"), outside)) as opened:
        runner = PipelineRunner(opened, http=http)
        workers = [payments(outside, lambda body, key: opened.submit(body, key=key)), checks(broker)]
        parts = [asyncio.create_task(worker.run(broker)) for worker in workers]
        parts.append(asyncio.create_task(runner.run()))
        ordering = asyncio.create_task(_order(broker, settings.receivers))
        try:
            await asyncio.wait([*parts, ordering], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ordering.cancel()
            for worker in workers:
                worker.stop()
            runner.stop()
            await asyncio.wait([*parts, ordering])
            await http.close()
        for part in (*parts, ordering):
            if not part.cancelled():
                part.result()


async def _order(broker: Broker, receivers: str) -> None:
    """Order as customers do, over HTTP; and now and then as the old till does, straight into a queue."""
    import httpx

    url = f"http://{receivers}{ORDERS_PATH}"
    async with httpx.AsyncClient(timeout=10) as client:

        @retry(on=(httpx.TransportError, httpx.HTTPStatusError), policy=_PATIENT, operation="order")
        async def place(number: int) -> None:
            response = await client.post(url, json=order(number), headers={"Idempotency-Key": f"A-{number}"})
            response.raise_for_status()

        for number in count(FIRST_ORDER):
            await place(number)
            if number % _BAD_JSON_EVERY == 0:
                await broker.send("payments", BAD_JSON % number)
            await pause(broker.clock, _ORDER_EVERY_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(listen: str) -> bool:
    host, _, port = listen.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError:
            return False
    return True
