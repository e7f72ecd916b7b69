# SPDX-License-Identifier: MIT
"""An event leaves a span for itself, for each filter and for the sender, and its trace goes on in the headers."""

import json
import subprocess
import sys

TRACE = "0af7651916cd43dd8448eb211c80319c"
PROGRAM = """
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from redrive import connect, open_routes
from redrive.broker import Message
from redrive.routes import RouteRunner, from_queue, match, route, to_file, to_queue, transform

async def main():
    async with connect("sqlite:///:memory:") as broker, open_routes(broker) as routes:
        for queue in ("orders", "big"):
            await broker.declare(queue)
        source = from_queue("orders")
        await routes.apply(
            route("big", source=source) | match("body.total > 1") | transform("body") >> to_queue("big"),
            route("all", source=source) >> to_file(sys.argv[2]),
        )
        headers = {"traceparent": f"00-{sys.argv[1]}-b7ad6b7169203331-01"}
        await broker.send("orders", Message(b'{"total": 2}', id="o-1", headers=headers))

        async def arrived():
            while not (found := await broker.receive("big", wait=1)):
                pass
            while any(info.waiting for info in await routes.find()):
                pass
            return found[0].headers["traceparent"]

        waiting = asyncio.ensure_future(arrived())
        await RouteRunner(routes).run(until=waiting)
        ours = [span for span in exporter.get_finished_spans() if span.name.split()[0] in ("leg", "filter", "sender")]
        print(json.dumps({
            "names": sorted(span.name for span in ours),
            "traces": sorted({format(span.context.trace_id, "032x") for span in ours}),
            "onward": waiting.result(),
            "routes": sorted(span.attributes["redrive.route"] for span in ours if span.name.startswith("leg")),
        }))

asyncio.run(main())
"""


def test_a_trace_goes_through_the_routes_of_an_event(tmp_path):
    command = [sys.executable, "-c", PROGRAM, TRACE, str(tmp_path / "orders.jsonl")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert seen["names"] == [
        "filter 1 (match) big",
        "filter 2 (transform) big",
        "leg all",
        "leg big",
        "sender (file) all",
    ]
    assert seen["traces"] == [TRACE]
    assert seen["routes"] == ["all", "big"]
    _, trace, parent, _ = seen["onward"].split("-")
    assert trace == TRACE
    assert parent != "b7ad6b7169203331"
